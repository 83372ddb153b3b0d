"""Constants in the shapes that the blocked operators read: done once in NumPy, when a model is prepared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from workers.tvm_backend.arguments import dtype_of
from workers.tvm_backend.dot.bits import BITS, PAIR
from workers.tvm_backend.dot.codes import WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS
from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.cook_toom import filtering

Array = NDArray[Any]


class Packed:
    """Constants in other shapes, each made once however often a model is laid out: large models have large weights."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], tvm.ir.GenericConst] = {}

    def of(self, constant: tvm.ir.GenericConst, pack: Callable[..., Array], *args: Any) -> tvm.ir.GenericConst:
        """``pack`` of the constant's array and ``args``, as a constant."""
        key = (constant, pack, *args)
        if key not in self._made:
            self._made[key] = fold_constants.to_constant(pack(fold_constants.constant_array(constant), *args))
        return self._made[key]


def conv2d_weight(weight: Array, inner: int, lanes: int = LANES, blocks: int | None = None) -> Array:
    """[O, C, KH, KW] as [ceil(O / lanes), ceil(C / inner), KH, KW, inner, lanes]; zeros are added.

    Args:
        blocks: blocks of output channels, where there are to be more.
    """
    full = _filled(_filled(weight, 0, lanes if blocks is None else blocks * lanes, 0.0), 1, inner, 0.0)
    outs, channels, kh, kw = full.shape
    return np.transpose(full.reshape(outs // lanes, lanes, channels // inner, inner, kh, kw), (0, 2, 4, 5, 3, 1))


def group_weight(weight: Array, groups: int, joined: int, inner: int = LANES, lanes: int = LANES) -> Array:
    """[O, C / groups, KH, KW] as [O / lanes, joined * C / groups / inner, KH, KW, inner, lanes].

    The weights between groups that are joined are zeros.
    """
    outs, channels, kh, kw = weight.shape
    split = weight.reshape(groups // joined, joined, outs // groups, channels, kh, kw)
    full = np.zeros((groups // joined, joined, outs // groups, joined, channels, kh, kw), weight.dtype)
    for at in range(joined):
        full[:, at, :, at] = split[:, at]
    return conv2d_weight(full.reshape(outs, joined * channels, kh, kw), inner, lanes)


def conv2d_pairs(weight: Array, inner: int, lanes: int = LANES, blocks: int | None = None) -> Array:
    """[O, C, KH, KW] as bfloat16 bits [ceil(O / lanes), ceil(C / inner), KH, KW, inner / 2, lanes, 2]; zeros added."""
    return _pairs(conv2d_weight(weight, inner, lanes, blocks))


def group_pairs(weight: Array, groups: int, joined: int, inner: int = LANES, lanes: int = LANES) -> Array:
    """As :func:`group_weight`, in bfloat16 bits whose last three axes are [inner / 2, lanes, 2]."""
    return _pairs(group_weight(weight, groups, joined, inner, lanes))


def product_pairs(weight: Array, depth: int = PAIR) -> Array:
    """[G, M, K] as bfloat16 bits [G, M, steps, 2]; zeros are added up to a multiple of ``depth``, which is even."""
    return _in_lanes(_filled(weight.astype(dtype_of("bfloat16")), 2, depth, 0.0), PAIR).view(BITS)


def product_quads(weight: Array) -> Array:
    """int8 [G, M, K] as [G, M, ceil(K / 4), 4]; zeros are added."""
    return _in_lanes(weight, GROUPS[WEIGHTS])


def panel_pairs(weight: Array, lanes: int) -> Array:
    """[K, N] as bfloat16 bits [N / lanes, K / 2, lanes, 2]; K is even."""
    return _pairs(panels(weight, lanes))


def conv2d_quads(weight: Array, inner: int, lanes: int = LANES, blocks: int | None = None) -> Array:
    """int8 [O, C, KH, KW] as [ceil(O / lanes), ceil(C / inner), KH, KW, inner / 4, lanes, 4]; zeros are added."""
    return _grouped(conv2d_weight(weight, inner, lanes, blocks), GROUPS[WEIGHTS])


def group_quads(weight: Array, groups: int, joined: int, inner: int = LANES, lanes: int = LANES) -> Array:
    """As :func:`group_weight`, the last three axes [inner / 4, lanes, 4]."""
    return _grouped(group_weight(weight, groups, joined, inner, lanes), GROUPS[WEIGHTS])


def panel_quads(weight: Array, lanes: int) -> Array:
    """int8 [K, N] as [N / lanes, K / 4, lanes, 4]; K is a multiple of four."""
    return _grouped(panels(weight, lanes), GROUPS[WEIGHTS])


def in_blocks(vector: Array, lanes: int = LANES) -> Array:
    """[C] as [ceil(C / lanes), lanes]; zeros are added."""
    return _filled(vector, 0, lanes, 0.0).reshape(-1, lanes)


def depthwise_weight(weight: Array, lanes: int = LANES) -> Array:
    """[C, 1, KH, KW] as [ceil(C / lanes), KH, KW, lanes]; zeros are added."""
    full = _filled(weight, 0, lanes, 0.0)
    channels, _, kh, kw = full.shape
    return np.transpose(full.reshape(channels // lanes, lanes, kh, kw), (0, 2, 3, 1))


def depthwise_pairs(weight: Array, lanes: int = LANES) -> Array:
    """[C, 1, KH, KW] as bfloat16 bits [ceil(C / lanes), KW, ceil(KH / 2), lanes, 2]; zeros are added."""
    return _words(weight.astype(dtype_of("bfloat16")), PAIR, lanes).view(BITS)


def depthwise_quads(weight: Array, lanes: int = LANES) -> Array:
    """int8 [C, 1, KH, KW] of at most four rows as [ceil(C / lanes), KW, lanes, 4]; zeros are added."""
    return _words(weight, GROUPS[WEIGHTS], lanes).squeeze(2)


def _words(weight: Array, group: int, lanes: int) -> Array:
    """[C, 1, KH, KW] as [ceil(C / lanes), KW, ceil(KH / group), lanes, group]: rows of the kernel share a lane."""
    blocks = _filled(np.transpose(depthwise_weight(weight, lanes), (0, 2, 1, 3)), 2, group, 0.0)
    return _grouped(blocks, group)


def winograd_weight(weight: Array, m: int) -> Array:
    """[O, C, 3, 3] as ``conv2d_winograd`` takes them: [ceil(O / LANES), m + 2, m + 2, ceil(C / LANES), LANES, LANES].

    Transformed in float64 and rounded to the type of ``weight`` once; zeros are added. Output channels come last.
    """
    return np.ascontiguousarray(_transformed(weight, m).astype(weight.dtype))


def winograd_pairs(weight: Array, m: int) -> Array:
    """The same as bfloat16 bits whose last three axes are [LANES / 2, LANES, 2]."""
    return _pairs(_transformed(weight, m))


def _transformed(weight: Array, m: int) -> Array:
    """Weights between Winograd's transforms, in float64."""
    g = filtering(m).weight
    found = np.einsum("ir,ocrs,js->ocij", g, weight.astype(np.float64), g)
    full = _filled(_filled(found, 0, LANES, 0.0), 1, LANES, 0.0)
    outs, channels, size, _ = full.shape
    split = full.reshape(outs // LANES, LANES, channels // LANES, LANES, size, size)
    return np.transpose(split, (0, 4, 5, 2, 3, 1))


def feature_map(array: Array, lanes: int = LANES, fill: float = 0.0) -> Array:
    """[N, C, H, W] as [N, ceil(C / lanes), H, W, lanes]; channels beyond C are ``fill``."""
    full = _filled(array, 1, lanes, fill)
    n, channels, height, width = full.shape
    return np.transpose(full.reshape(n, channels // lanes, lanes, height, width), (0, 1, 3, 4, 2))


def panels(weight: Array, lanes: int) -> Array:
    """[K, N] as [N / lanes, K, lanes]."""
    depth, columns = weight.shape
    return np.transpose(weight.reshape(depth, columns // lanes, lanes), (1, 0, 2))


def panel_lanes(columns: int, least: int) -> int | None:
    """Columns of a panel: the largest power of two up to LANES that divides ``columns``; None below ``least``."""
    lanes = math.gcd(columns, LANES)
    return lanes if lanes >= least else None


def _pairs(packed: Array) -> Array:
    """[..., inner, lanes] of float32 as bfloat16 bits [..., inner / 2, lanes, 2]."""
    return _grouped(packed.astype(dtype_of("bfloat16")), PAIR).view(BITS)


def _grouped(packed: Array, group: int) -> Array:
    """[..., inner, lanes] as [..., inner / group, lanes, group]: so many steps of a sum in a lane."""
    *outer, inner, lanes = packed.shape
    return np.ascontiguousarray(packed.reshape(*outer, inner // group, group, lanes).swapaxes(-1, -2))


def _in_lanes(rows: Array, group: int) -> Array:
    """[..., K] as [..., ceil(K / group), group]; zeros are added."""
    full = _filled(rows, rows.ndim - 1, group, 0.0)
    return np.ascontiguousarray(full.reshape(*full.shape[:-1], -1, group))


def _filled(array: Array, axis: int, multiple: int, fill: float) -> Array:
    """``array`` with ``axis`` rounded up to a multiple."""
    missing = -array.shape[axis] % multiple
    if missing == 0:
        return array
    widths = [(0, missing if at == axis else 0) for at in range(array.ndim)]
    return np.pad(array, widths, constant_values=fill)
