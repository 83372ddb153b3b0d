"""Three-dimensional maps ``[N, C, D, H, W]`` as images of their slices, ``[N D, C, H, W]``.

A kernel of several slices becomes one of a single slice with as many times the channels: those of all slices that it
covers (the depth of im2col alone). What is gathered for it is a copy of the map for each slice of the kernel, little
compared with the products with a whole plane of the kernel and all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import mutator

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.as_images import AsImages, rewritten
from workers.tvm_backend.passes.layout.compute import LANES, gathered_slices
from workers.tvm_backend.passes.layout.expressions import map_shape, numbers, operator, shape
from workers.tvm_backend.passes.layout.transposed import Axis
from workers.tvm_backend.passes.layout.values import Values

FORWARD = BACK = (0, 2, 1, 3, 4)
"""Slices before channels, and the other way round."""
MAP, KERNEL = "NCDHW", "OIDHW"
TRANSPOSED = (MAP, "IODHW")
WINDOW = "tunesmith.window"
"""Attribute of a function that gathers slices: what it was made with, after the images."""


def slice_maps(mod: tvm.IRModule) -> tvm.IRModule:
    """``main`` with three-dimensional float32 convolutions as two-dimensional ones.

    What stands between them, elementwise operators, normalisations, concatenations of channels, pools and means of
    whole maps, works on the same images. Convolutions of dynamic shape, those whose weights are no constants, and those
    of several slices and several groups stay as they are.
    """
    return rewritten(mod, _Slices(mod))


def gathers(expr: relax.Expr) -> bool:
    """Whether ``expr`` gathers slices."""
    return operator(expr) == "relax.call_tir" and str(expr.args[0].name_hint).startswith(gathered_slices.__name__)


def gather(values: Values, call: relax.Expr) -> relax.Expr | None:
    """Slices that are gathered from a blocked map, in blocks too; None for anything else."""
    if not gathers(call):
        return None
    (images,), window = call.args[1].fields, values.builder.get()[call.args[0]].attrs[WINDOW]
    dims = map_shape(images)
    if dims is None or dims[1] % LANES or not values.is_blocked(images):
        return None
    return values.call(gathered_slices, values.blocked(images), *numbers(window))


@dataclass(frozen=True)
class _Depth:
    """What an operator's window does along the depth.

    Attributes:
        size, stride, dilation: size, stride and dilation of the window.
        front, back: slices added.
    """

    size: int
    stride: int
    dilation: int
    front: int
    back: int

    @property
    def trivial(self) -> bool:
        """Whether each slice of the result is of the same slice of the operand."""
        return (self.size, self.stride, self.front, self.back) == (1, 1, 0, 0)

    @classmethod
    def of(cls, size: int, attrs: Any) -> _Depth:
        """From an operator's attributes."""
        padding = numbers(attrs.padding)
        return cls(size, numbers(attrs.strides)[0], numbers(attrs.dilation)[0], padding[0], padding[3])


def _plane(attrs: Any) -> dict[str, tuple[int, ...]]:
    """What an operator's window does along rows and columns."""
    padding = numbers(attrs.padding)
    return {
        "strides": numbers(attrs.strides)[1:],
        "padding": (*padding[1:3], *padding[4:6]),
        "dilation": numbers(attrs.dilation)[1:],
    }


@mutator
class _Slices(AsImages):
    RANK = 5

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        made = super().visit_call_(op)
        mean = self._mean(made) if isinstance(made, relax.Call) else None
        return made if mean is None else mean

    def view(self, expr: relax.Expr) -> relax.Expr | None:
        """See :class:`AsImages`."""
        value, dims = self.bound(expr), shape(expr)
        if operator(value) != "relax.permute_dims" or dims is None or numbers(value.attrs.axes or ()) != BACK:
            return None
        inner = self.bound(value.args[0])
        if operator(inner) != "relax.reshape":
            return None
        return inner.args[0] if map_shape(inner.args[0]) == _images(dims) else None

    def images(self, expr: relax.Expr) -> relax.Expr:
        """See :class:`AsImages`."""
        view, dims = self.view(expr), shape(expr)
        assert dims is not None
        if view is not None:
            return view
        turned = self.builder_.emit(relax.op.permute_dims(expr, list(FORWARD)))
        return self.builder_.emit(relax.op.reshape(turned, _images(dims)))

    def whole(self, images: relax.Expr, dims: tuple[int, ...]) -> relax.Expr:
        """See :class:`AsImages`."""
        n, channels, depth, height, width = dims
        parted = self.builder_.emit(relax.op.reshape(images, (n, depth, channels, height, width)))
        return relax.op.permute_dims(parted, list(BACK))

    def constant(self, array: NDArray[Any], dims: tuple[int, ...]) -> NDArray[Any] | None:
        """See :class:`AsImages`; what differs from slice to slice does not broadcast."""
        if array.ndim < 3:
            return array
        full: NDArray[Any] = array.reshape((1,) * (self.RANK - array.ndim) + array.shape)
        return full[:, :, 0] if full.shape[0] == full.shape[2] == 1 else None

    def special(self, name: str, call: relax.Call, dims: tuple[int, ...]) -> relax.Expr | None:
        """See :class:`AsImages`."""
        if name == "relax.nn.conv3d":
            return self._convolution(call)
        if name == "relax.nn.conv3d_transpose":
            return self._transposed(call, dims)
        if name in POOLS:
            return self._pool(call, POOLS[name])
        return self._concatenation(call) if name == "relax.concat" else None

    def _convolution(self, call: relax.Call) -> relax.Expr | None:
        attrs, weight, dims = call.attrs, self.array(call.args[1]), shape(call.args[0])
        if weight is None or dims is None or (str(attrs.data_layout), str(attrs.kernel_layout)) != (MAP, KERNEL):
            return None
        depth, groups = _Depth.of(weight.shape[2], attrs), int(attrs.groups)
        if depth.size > 1 and groups > 1:
            return None
        images = self.images(call.args[0])
        if not depth.trivial:
            images = self.builder_.emit(self._gathered(images, dims[2], depth))
        outs, channels, _, height, width = weight.shape
        flat = np.swapaxes(weight, 1, 2).reshape(outs, depth.size * channels, height, width)
        return relax.op.nn.conv2d(images, fold_constants.to_constant(flat), groups=groups, **_plane(attrs))

    def _transposed(self, call: relax.Call, dims: tuple[int, ...]) -> relax.Expr | None:
        """Phases of slices as outputs of a transposed convolution in the plane; those then follow one another."""
        attrs, weight, source = call.attrs, self.array(call.args[1]), shape(call.args[0])
        if weight is None or source is None or (str(attrs.data_layout), str(attrs.kernel_layout)) != TRANSPOSED:
            return None
        axis = Axis.of(source[2], dims[2], weight.shape[2], numbers(attrs.strides)[0], numbers(attrs.padding)[0])
        if axis is None or int(attrs.groups) != 1 or numbers(attrs.dilation)[0] != 1:
            return None
        depth = _Depth(axis.taps, 1, 1, axis.before, axis.after)
        images = self.images(call.args[0])
        if not depth.trivial:
            images = self.builder_.emit(self._gathered(images, source[2], depth))
        found = self.builder_.emit(
            relax.op.nn.conv2d_transpose(
                images,
                fold_constants.to_constant(phase_kernels(weight, axis)),
                **_plane(attrs),
                output_padding=numbers(attrs.output_padding)[1:],
            )
        )
        return self._following(found, axis, dims)

    def _following(self, found: relax.Var, axis: Axis, dims: tuple[int, ...]) -> relax.Expr:
        """Phases one behind another, cut to the slices of ``dims``."""
        n, channels, depth, height, width = dims
        full = axis.steps * axis.stride
        if full == depth:
            return relax.op.reshape(found, _images(dims))
        parted = self.builder_.emit(relax.op.reshape(found, (n, full, channels, height, width)))
        wanted = self.builder_.emit(relax.op.strided_slice(parted, [1], [axis.cut], [axis.cut + depth]))
        return relax.op.reshape(wanted, _images(dims))

    def _gathered(self, images: relax.Expr, slices: int, depth: _Depth) -> relax.Call:
        window = (slices, depth.size, depth.stride, depth.dilation, depth.front, depth.back)
        return self.builder_.call_te(
            gathered_slices,
            images,
            *window,
            primfunc_name_hint=gathered_slices.__name__,
            primfunc_attrs={WINDOW: list(window)},
        )

    def _pool(self, call: relax.Call, make: Callable[..., relax.Call]) -> relax.Expr | None:
        """Along rows and columns, then along the depth, whose slices are the rows of an image then."""
        attrs, images, dims = call.attrs, self.view(call.args[0]), shape(call.args[0])
        if images is None or dims is None or str(attrs.layout) != MAP:
            return None
        size, ceil, zeros = numbers(attrs.pool_size), bool(attrs.ceil_mode), bool(attrs.count_include_pad)
        depth = _Depth.of(size[0], attrs)
        if make is relax.op.nn.avg_pool2d and (ceil or (any(numbers(attrs.padding)) and not zeros)):
            return None
        pooled = make(images, size[1:], ceil_mode=ceil, count_include_pad=zeros, **_plane(attrs))
        if depth.trivial:
            return pooled
        pooled = self.builder_.emit(pooled)
        image = map_shape(pooled)
        assert image is not None
        rows = self.builder_.emit(relax.op.reshape(pooled, (dims[0], 1, dims[2], math.prod(image[1:]))))
        padding = (depth.front, 0, depth.back, 0)
        along = make(rows, (depth.size, 1), (depth.stride, 1), padding, (depth.dilation, 1), ceil, zeros)
        return relax.op.reshape(self.builder_.emit(along), (-1, *image[1:]))

    def _concatenation(self, call: relax.Call) -> relax.Expr | None:
        fields, axis = self.bound(call.args[0]), call.attrs.axis
        if not isinstance(fields, relax.Tuple) or axis is None or int(axis) % self.RANK != 1:
            return None
        if all(self.view(each) is None for each in fields.fields) or any(shape(each) is None for each in fields.fields):
            return None
        return relax.op.concat([self.images(each) for each in fields.fields], axis=1)

    def _mean(self, call: relax.Call) -> relax.Expr | None:
        """A map's mean over everything but channels: over rows and columns, then over the slices."""
        name, dims = operator(call), shape(call)
        images = self.view(call.args[0]) if name in MEANS and dims is not None else None
        whole = shape(call.args[0]) if images is not None else None
        if images is None or whole is None or dims is None or not MEANS[name](call.attrs):
            return None
        planes = self.builder_.emit(relax.op.mean(images, [2, 3], keepdims=True))
        parted = self.builder_.emit(relax.op.reshape(planes, (whole[0], whole[2], whole[1])))
        return relax.op.reshape(self.builder_.emit(relax.op.mean(parted, [1])), dims)


def phase_kernels(weight: NDArray[Any], axis: Axis) -> NDArray[Any]:
    """[C, O, KD, KH, KW] of a transposed convolution as [taps C, phases O, KH, KW], zeros where a phase has fewer."""
    inputs, outs, deep, high, wide = weight.shape
    full = np.pad(weight, ((0, 0), (0, 0), (0, axis.taps * axis.stride - deep), (0, 0), (0, 0)))
    split = full.reshape(inputs, outs, axis.taps, axis.stride, high, wide)[:, :, ::-1]
    return np.asarray(split.transpose(2, 0, 3, 1, 4, 5).reshape(axis.taps * inputs, -1, high, wide))


def _images(dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    n, channels, depth, height, width = dims
    return n * depth, channels, height, width


POOLS: Mapping[str, Callable[..., relax.Call]] = {
    "relax.nn.max_pool3d": relax.op.nn.max_pool2d,
    "relax.nn.avg_pool3d": relax.op.nn.avg_pool2d,
}
"""The same in two dimensions."""
MEANS: Mapping[str, Callable[[Any], bool]] = {
    "relax.mean": lambda attrs: attrs.axis is not None and sorted(int(a) % 5 for a in attrs.axis) == [2, 3, 4],
    "relax.nn.adaptive_avg_pool3d": lambda attrs: (
        str(attrs.layout) == MAP and attrs.output_size is not None and set(numbers(attrs.output_size)) == {1}
    ),
}
"""Operators that may be means of whole maps, and whether they are."""
