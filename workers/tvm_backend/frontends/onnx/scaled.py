"""``Resize`` by scales that depend on the model's inputs, by sizes that keep the aspect ratio, and of parts of axes.

The declared shape says how large the result is; where each of its elements is read follows from the scale, and from
the part of the axis that is taken. An axis is resized by a product with a matrix that the program computes, or by a
copy for the nearest elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from workers.tvm_backend.frontends import resize
from workers.tvm_backend.frontends.onnx.attention import Attributes, Emit
from workers.tvm_backend.frontends.refusals import fixed_extents

REACH = {"linear": 1, "cubic": 2}
"""How far elements are read on each side, by the mode."""


def _number(value: object) -> relax.Expr:
    return relax.const(np.asarray(value, np.float64), "float64")


class _Axis:
    """One axis that is resized.

    Args:
        emit: emits what is computed.
        scale: float64 [1].
        before, after: extents.
        attrs: attributes of the node.
        width: the extent that the scale makes, before it is rounded: float64 [1]; from the scale by default.
        part: where the part that is taken starts and ends, as shares of the axis: float64 [1].
    """

    def __init__(
        self,
        emit: Emit,
        scale: relax.Expr,
        before: int,
        after: int,
        attrs: Attributes,
        width: relax.Expr | None = None,
        part: tuple[relax.Expr, relax.Expr] | None = None,
    ) -> None:
        self.emit, self.scale, self.before, self.after, self.attrs = emit, scale, before, after, attrs
        self.width = self._times(scale, _number(before)) if width is None else width
        self.part = part

    def _text(self, name: str, default: str) -> str:
        return str(self.attrs.get(name, default.encode()).decode())

    def _times(self, x: Any, y: Any) -> relax.Expr:
        return self.emit(relax.op.multiply(x, y))

    def _plus(self, x: Any, y: Any) -> relax.Expr:
        return self.emit(relax.op.add(x, y))

    def _over(self, x: Any, y: Any) -> relax.Expr:
        return self.emit(relax.op.divide(x, y))

    def _places(self) -> relax.Expr:
        """Where each element of the result is on the axis: [after]."""
        mode, y = self._text("coordinate_transformation_mode", "half_pixel"), np.arange(float(self.after))
        width = self.width
        one = self.emit(relax.op.equal(width, _number(1)))
        if mode == "asymmetric":
            return self._over(_number(y), self.scale)
        if mode == "align_corners":
            steps = self.emit(relax.op.where(one, _number(1), self._plus(width, _number(-1))))
            corners = self._over(_number(y * (self.before - 1)), steps)
            return self.emit(relax.op.where(one, _number(0), corners))
        if mode == "tf_crop_and_resize" and self.part is not None:
            first, last = (self._times(each, _number(self.before - 1)) for each in self.part)
            steps = self.emit(relax.op.where(one, _number(1), self._plus(width, _number(-1))))
            share = self.emit(relax.op.where(one, _number(0.5), self._over(_number(y), steps)))
            return self._plus(first, self._times(share, self._plus(last, self.emit(relax.op.negative(first)))))
        middle = self._plus(self._over(_number(y + 0.5), self.scale), _number(-0.5))
        if mode == "pytorch_half_pixel":
            return self.emit(relax.op.where(one, _number(-0.5), middle))
        if mode == "half_pixel_symmetric":
            lost = self._plus(_number(1), self._over(_number(-self.after), width))
            return self._plus(self._times(lost, _number(self.before / 2)), middle)
        if mode == "half_pixel":
            return middle
        raise resize.unsupported(f"scales that are computed, and coordinates by {mode}")

    def outside(self) -> relax.Expr:
        """Which elements of the result are read off the axis: bool [after]."""
        places = self._places()
        low = self.emit(relax.op.less(places, _number(0)))
        return self.emit(relax.op.logical_or(low, self.emit(relax.op.greater(places, _number(self.before - 1)))))

    def nearest(self) -> relax.Expr:
        """The element that is copied to each place: int64 [after]."""
        mode, places = self._text("nearest_mode", "round_prefer_floor"), self._places()
        if mode == "round_prefer_floor":
            found = relax.op.ceil(self._plus(places, _number(-0.5)))
        elif mode == "round_prefer_ceil":
            found = relax.op.floor(self._plus(places, _number(0.5)))
        else:
            found = relax.op.floor(places) if mode == "floor" else relax.op.ceil(places)
        return self.emit(relax.op.astype(self.emit(relax.op.clip(self.emit(found), 0, self.before - 1)), "int64"))

    def matrix(self, mode: str) -> tuple[NDArray[np.int64], relax.Expr]:
        """Elements of the axis with its edges repeated, and the shares of each: [elements, after]."""
        reach = REACH[mode] * (-(-self.before // self.after) if self.attrs.get("antialias") else 1) + 2
        elements = np.arange(-reach, self.before + reach)
        apart = self.emit(relax.op.abs(self._plus(_number(-elements[:, None]), self._places())))
        if self.attrs.get("antialias"):
            apart = self._times(apart, self.emit(relax.op.minimum(self.scale, _number(1))))
        shares = self._linear(apart) if mode == "linear" else self._cubic(apart)
        if self.attrs.get("exclude_outside"):
            shares = self._times(shares, _number(((elements >= 0) & (elements < self.before))[:, None]))
        total = self.emit(relax.op.sum(shares, [0], keepdims=True))
        return elements.clip(0, self.before - 1), self._over(shares, total)

    def _linear(self, apart: relax.Expr) -> relax.Expr:
        left = self._plus(_number(1), self.emit(relax.op.negative(apart)))
        return self.emit(relax.op.maximum(left, _number(0)))

    def _cubic(self, apart: relax.Expr) -> relax.Expr:
        """Keys, "Cubic convolution interpolation", 1981."""
        a = float(self.attrs.get("cubic_coeff_a", -0.75))
        near = self._polynomial(apart, (a + 2, -(a + 3), 0, 1))
        far = self._polynomial(apart, (a, -5 * a, 8 * a, -4 * a))
        far = self.emit(relax.op.where(self.emit(relax.op.less(apart, _number(2))), far, _number(0)))
        return self.emit(relax.op.where(self.emit(relax.op.less_equal(apart, _number(1))), near, far))

    def _polynomial(self, x: relax.Expr, factors: tuple[float, ...]) -> relax.Expr:
        found: relax.Expr = _number(factors[0])
        for factor in factors[1:]:
            found = self._plus(self._times(found, x), _number(factor))
        return found


def resized(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """A ``Resize`` or ``Upsample`` whose scale is computed, or with axes resized by sizes alone; None for others."""
    name = "Upsample" if "scales" in attrs or (len(inputs) == 2 and opset < 10) else "Resize"
    (x, part, scales, extents), attrs = _operands(name, inputs, attrs, opset)
    own = _axes(importer, [x, part, scales, extents], attrs)
    if own is None:
        return None
    emit, mode, rank = importer.bb.emit, attrs.get("mode", b"nearest").decode(), x.ty.ndim
    outside = None
    for axis, each in own.items():
        if each.before > 1 or each.after > 1:
            x = _along(emit, x, axis, each, mode)
        if each.part is not None:
            off = emit(relax.op.reshape(each.outside(), [each.after if at == axis else 1 for at in range(rank)]))
            outside = off if outside is None else emit(relax.op.logical_or(outside, off))
    if outside is None:
        return x
    kind = str(x.ty.dtype)
    filler = relax.const(np.array(attrs.get("extrapolation_value", 0.0)).astype(kind), kind)
    return emit(relax.op.where(outside, filler, x))


def _axes(importer: Any, inputs: Any, attrs: Attributes) -> dict[int, _Axis] | None:
    """What becomes of each axis; None where all is known and TVM's importer, or a product, does it."""
    x, part, scales, extents = inputs
    emit, known, before = importer.bb.emit, [importer._nodes, importer._params], fixed_extents("Resize", x)
    policy = attrs.get("keep_aspect_ratio_policy", resize.STRETCH)
    keeps = extents is not None and policy != resize.STRETCH
    varying = scales is not None and not isinstance(get_constant(scales, known), GenericConst | relax.ShapeExpr)
    axes = [axis % len(before) for axis in attrs.get("axes", range(len(before)))]
    cut = part if attrs.get("coordinate_transformation_mode") == resize.CROPPED else None
    parts = [_part(emit, cut, at, len(axes)) for at in range(len(axes))]
    if not keeps and not varying:
        by_size = attrs.get("coordinate_transformation_mode") in resize.BY_SIZE
        if not by_size or not ("axes" in attrs or attrs.get("antialias")):
            return None
        return {
            each.axis: _Axis(
                emit, _number([each.width / each.before]), each.before, each.after, attrs, _number([each.width]), own
            )
            for each, own in zip(resize.stretches(inputs, attrs, known), parts, strict=True)
        }
    asked = get_constant(extents, known) if keeps else None
    shape = (
        _kept_shape(before, axes, asked.value.numpy(), policy) if isinstance(asked, GenericConst) else importer.shape
    )
    if shape is None:
        raise resize.unsupported("scales or sizes that are computed")
    kept = _kept_ratio(emit, extents, [before[axis] for axis in axes], policy) if keeps else None
    found = {}
    for at, axis in enumerate(axes):
        scale = kept
        if scale is None:
            scale = emit(relax.op.astype(emit(relax.op.strided_slice(scales, [0], [at], [at + 1])), "float64"))
        found[axis] = _Axis(emit, scale, before[axis], shape[axis], attrs, None, parts[at])
    return found


def _part(emit: Emit, part: relax.Expr | None, at: int, count: int) -> tuple[relax.Expr, relax.Expr] | None:
    """Where the part of an axis starts and ends, of an operand that has the starts of all axes first."""
    if part is None:
        return None
    wide = emit(relax.op.astype(part, "float64"))
    start, end = (emit(relax.op.strided_slice(wide, [0], [n], [n + 1])) for n in (at, count + at))
    return start, end


def _operands(name: str, inputs: Any, attrs: Attributes, opset: int) -> tuple[list[Any], Attributes]:
    given, attrs = resize.modern(name, inputs, attrs, opset)
    return [*given, None, None, None][:4], attrs


def _kept_ratio(emit: Emit, extents: relax.Expr, before: list[int], policy: bytes) -> relax.Expr:
    """The one scale of all axes, of which the result is no larger, or no smaller, than asked for."""
    ratios = emit(relax.op.divide(emit(relax.op.astype(extents, "float64")), _number(before)))
    return emit((relax.op.min if policy == b"not_larger" else relax.op.max)(ratios, keepdims=True))


def _kept_shape(before: list[int], axes: list[int], asked: NDArray[np.int64], policy: bytes) -> list[int]:
    """The shape of a result of constant sizes, of which one is kept."""
    ratios = asked / np.array([before[axis] for axis in axes])
    ratio = ratios.min() if policy == b"not_larger" else ratios.max()
    return [int(ratio * extent + 0.5) if axis in axes else extent for axis, extent in enumerate(before)]


def _along(emit: Emit, x: relax.Expr, axis: int, own: _Axis, mode: str) -> relax.Expr:
    if mode == "nearest":
        return emit(relax.op.take(x, own.nearest(), axis))
    kind, last = str(x.ty.dtype), x.ty.ndim - 1
    if not kind.startswith("float"):
        raise resize.unsupported(f"{kind}, and scales that are computed")
    elements, shares = own.matrix(mode)
    order = [at for at in range(last + 1) if at != axis] + [axis]
    x = emit(relax.op.permute_dims(emit(relax.op.take(x, relax.const(elements, "int64"), axis)), order))
    found = emit(relax.op.matmul(x, emit(relax.op.astype(shares, kind))))
    return emit(relax.op.permute_dims(found, np.argsort(order).tolist()))
