"""ONNX's ``DFT`` and ``STFT``, as products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workers.tvm_backend.frontends import fourier, sizes
from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

AXIS_IS_INPUT = 20
"""Opset from which on ``DFT`` has its axis as an input."""


def _transform(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    x, length, axis = [*inputs, None, None][:3]
    extents = fixed_extents("DFT", x)
    place = _number("DFT", axis, -2) if opset >= AXIS_IS_INPUT else attrs.get("axis", 1)
    place %= len(extents)
    inverse, half = bool(attrs.get("inverse", 0)), bool(attrs.get("onesided", 0))
    count = _number("DFT", length, 2 * (extents[place] - 1) if inverse and half else extents[place])
    return _along(importer.bb.emit, x, place, count, inverse, half)


def _short(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Transform frames ``[batch, frames, length, parts]``."""
    signal, step, window, length = [*inputs, None, None][:4]
    emit, extents = importer.bb.emit, fixed_extents("STFT", signal)
    known = fixed_extents("STFT", window)[0] if window is not None else extents[1]
    count = _number("STFT", length, known)
    starts = np.arange(0, extents[1] - count + 1, _number("STFT", step, 0))
    sizes.Unfolding().add("the places of STFT", [len(starts), count], 64, 0)
    frames = emit(relax.op.take(signal, relax.const(starts[:, None] + np.arange(count), "int64"), 1))
    if window is not None:
        frames = emit(relax.op.multiply(frames, emit(relax.op.reshape(window, (count, 1)))))
    return _along(emit, frames, 2, count, False, bool(attrs.get("onesided", 1)))


def _along(
    emit: Callable[[relax.Expr], relax.Var], x: relax.Expr, axis: int, count: int, inverse: bool, half: bool
) -> relax.Var:
    """Transform one axis of ``count`` elements, cut or filled up with zeros; ``half`` of them are kept, or given."""
    extents, back = fixed_extents("DFT", x), inverse and half
    given = count // 2 + 1 if back else count
    if extents[axis] > given:
        x = emit(relax.op.strided_slice(x, [axis], [0], [given]))
    elif extents[axis] < given:
        widths = [[0, given - extents[axis] if at == axis else 0] for at in range(len(extents))]
        x = emit(relax.op.nn.pad(x, [width for pair in widths for width in pair]))
    parts, last = extents[-1], len(extents) - 2
    order = [at for at in range(len(extents)) if at != axis]
    order.insert(last, axis)
    shape = [given if at == axis else extents[at] for at in order[:-2]]
    flat = emit(relax.op.reshape(emit(relax.op.permute_dims(x, order)), [*shape, given * parts]))
    matrix = fourier.to_real("DFT", count) if back else fourier.to_complex("DFT", count, not inverse, parts)
    matrix = matrix / count if inverse else matrix
    found = emit(relax.op.matmul(flat, relax.const(matrix.astype(str(x.ty.dtype)), str(x.ty.dtype))))
    wide = emit(relax.op.reshape(found, [*shape, count, 1 if back else 2]))
    if half and not inverse:
        wide = emit(relax.op.strided_slice(wide, [last], [0], [count // 2 + 1]))
    return emit(relax.op.permute_dims(wide, [order.index(at) for at in range(len(order))]))


def _number(name: str, x: relax.Expr | None, default: int) -> int:
    """An input that is a constant.

    Raises:
        UnsupportedOperator: it is computed.
    """
    if x is None:
        return default
    if not isinstance(x, tvm.ir.GenericConst):
        raise unsupported(name, "a length, step or axis that is computed")
    return int(x.value.numpy().item())


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr]] = {"DFT": _transform, "STFT": _short}
"""How each is converted, by its name."""
