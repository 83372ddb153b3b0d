"""Operators with operands that depend on the model's inputs, where TVM's importer wants constants.

Programs have fixed shapes, so the shape that the file declares for a result (:mod:`.declared`) stands for what the
operand would decide of it. What the operand decides beyond that is computed: as a choice between few results, or as
places that are gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from workers.tvm_backend.frontends.onnx import scaled
from workers.tvm_backend.frontends.onnx.attention import Attributes, Emit
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

Convert = Callable[[Any, Any, Attributes, int], relax.Expr | None]
MOST_CHOICES = 8
"""Results that are computed at most, to choose one of them."""


def operand(importer: Any, inputs: Sequence[Any], at: int) -> relax.Expr | None:
    """An operand that depends on the model's inputs; None for a constant, and for one that is left out."""
    found = inputs[at] if len(inputs) > at else None
    if found is None or isinstance(get_constant(found, [importer._nodes, importer._params]), GenericConst):
        return None
    return None if isinstance(found, relax.ShapeExpr) else found


def whole(value: object) -> relax.Expr:
    """A constant of int64."""
    return relax.const(np.asarray(value, np.int64), "int64")


def _counted(emit: Emit, axes: relax.Expr, rank: int) -> relax.Expr:
    """Axes as int64, counted from the front."""
    axes = emit(relax.op.astype(axes, "int64"))
    return emit(relax.op.where(relax.op.less(axes, whole(0)), relax.op.add(axes, whole(rank)), axes))


def chosen(emit: Emit, options: Sequence[tuple[relax.Expr, relax.Expr]]) -> relax.Expr:
    """The result whose condition, a bool without dimensions, holds; the last one where no other does."""
    found = options[-1][1]
    for condition, result in options[-2::-1]:
        found = emit(relax.op.where(condition, result, found))
    return found


def _of_axes(
    importer: Any, name: str, inputs: Any, attrs: Attributes, opset: int, choices: Any, place: int = 1
) -> relax.Expr:
    """An operator whose operand at ``place`` is one of few lists of axes."""
    if not choices or len(choices) > MOST_CHOICES:
        raise unsupported(name, "axes that depend on the model's inputs", REMEDY)
    emit, axes = importer.bb.emit, inputs[place]
    flat = emit(relax.op.reshape(axes, [-1]))
    counted = emit(relax.op.expand_dims(_counted(emit, flat, inputs[0].ty.ndim), 1))
    options = []
    for choice in choices:
        constant = whole(choice if axes.ty.ndim else choice[0])
        given = type(inputs)([*list(inputs)[:place], constant, *list(inputs)[place + 1 :]])
        result = emit(importer._converted(name, given, attrs, opset))
        same = emit(relax.op.astype(emit(relax.op.equal(counted, whole([choice]))), "int64"))
        options.append((emit(relax.op.equal(emit(relax.op.sum(same)), whole(len(choice)))), result))
    return chosen(emit, options)


REMEDY = "export the model with constants for them, or with a declared shape of the result that leaves one choice"


def _reduction(name: str) -> Convert:
    """Axes that leave a result of the declared shape."""

    def convert(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
        emit, x = importer.bb.emit, inputs[0]
        if str(x.ty.dtype) == "bool":  # the larger and the smaller truth value
            number = type(inputs)([emit(relax.op.astype(x, "int8")), *list(inputs)[1:]])
            return relax.op.astype(emit(importer._converted(name, number, attrs, opset)), "bool")
        if name in EXTREMES and 0 in fixed_extents(name, x) and importer.shape and 0 not in importer.shape:
            kind = str(x.ty.dtype)
            return relax.const(np.full(importer.shape, EXTREMES[name], kind), kind)
        axes = operand(importer, inputs, 1)
        if axes is None:
            return None
        count, extents = fixed_extents(name, axes)[0], fixed_extents(name, inputs[0])
        if count == 0:
            return importer._converted(name, type(inputs)([inputs[0], whole(np.zeros(0))]), attrs, opset)
        left = {
            choice: tuple(
                1 if at in choice else extent
                for at, extent in enumerate(extents)
                if at not in choice or attrs.get("keepdims", 1)
            )
            for choice in itertools.combinations(range(len(extents)), count)
        }
        shape = importer.shape or (next(iter(left.values())) if len(set(left.values())) == 1 else None)
        choices = [choice for choice, each in left.items() if each == shape]
        return _of_axes(importer, name, inputs, attrs, opset, choices)

    return convert


def _parts(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """Parts of which some have no elements; TVM's importer does the others."""
    given = (
        None if len(inputs) < 2 or inputs[1] is None else get_constant(inputs[1], [importer._nodes, importer._params])
    )
    if not isinstance(given, GenericConst) or given.value.numpy().all():
        return None
    counts, axis = given.value.numpy().ravel().tolist(), attrs.get("axis", 0)
    ends = np.cumsum(counts).tolist()
    cut = [relax.op.strided_slice(inputs[0], [axis], [end - n], [end]) for n, end in zip(counts, ends, strict=True)]
    return relax.Tuple([importer.bb.emit(each) for each in cut])


def _accumulation(name: str) -> Convert:
    """Any of the axes."""

    def convert(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
        if operand(importer, inputs, 1) is None:
            return None
        return _of_axes(importer, name, inputs, attrs, opset, [(at,) for at in range(inputs[0].ty.ndim)])

    return convert


def _transform(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """``DFT`` along any axis but that of the parts; a side that is kept alone makes other shapes."""
    if operand(importer, inputs, 2) is None:
        return None
    axes = [(at,) for at in range(inputs[0].ty.ndim - 1)]
    if attrs.get("onesided") or inputs[1] is not None:
        extents = fixed_extents("DFT", inputs[0])
        axes = [each for each in axes if importer.shape and extents[each[0]] != importer.shape[each[0]]]
        axes = axes if len(axes) == 1 else []
    return _of_axes(importer, "DFT", inputs, attrs, opset, axes, 2)


def _range(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """As many numbers as are declared."""
    if all(operand(importer, inputs, at) is None for at in range(3)):
        return None
    if importer.shape is None:
        raise unsupported("Range", "a start, limit or delta that depends on the model's inputs", REMEDY)
    emit, (start, _, delta) = importer.bb.emit, inputs[:3]
    kind = str(start.ty.dtype)
    places = relax.const(np.arange(importer.shape[0]).astype(kind), kind)
    return relax.op.add(start, emit(relax.op.multiply(places, delta)))


def _padded(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """Places of the result that are places of the operand, or of its edge, reflection or repetition."""
    x, pads, value, axes = [*inputs, None, None, None][:4]
    if all(operand(importer, inputs, at) is None for at in (1, 2, 3)):
        return None
    emit, extents = importer.bb.emit, fixed_extents("Pad", x)
    shape, rank = importer.shape, len(extents)
    if shape is None:
        raise unsupported("Pad", "pads that depend on the model's inputs", REMEDY)
    count = fixed_extents("Pad", pads)[0] // 2
    before = emit(relax.op.strided_slice(emit(relax.op.astype(pads, "int64")), [0], [0], [count]))
    if axes is not None:
        hits = emit(relax.op.equal(whole(np.arange(rank)[:, None]), _counted(emit, axes, rank)))
        before = emit(relax.op.sum(emit(relax.op.where(hits, before, whole(0))), [1]))
    mode = attrs.get("mode", b"constant").decode()
    inside = None
    for axis, extent in enumerate(extents):
        begin = emit(relax.op.strided_slice(before, [0], [axis], [axis + 1]))
        places = emit(relax.op.subtract(whole(np.arange(shape[axis])), begin))
        sources, kept = _sources(emit, places, extent, mode)
        x = emit(relax.op.take(x, sources, axis))
        if mode == "constant":
            kept = emit(relax.op.reshape(kept, [shape[axis] if at == axis else 1 for at in range(rank)]))
            inside = kept if inside is None else emit(relax.op.logical_and(inside, kept))
    if inside is None:
        return x
    kind = str(x.ty.dtype)
    filler = relax.const(np.zeros((), kind), kind) if value is None else value
    filler = emit(relax.op.reshape(filler, [1] * rank))
    return relax.op.where(inside, x, filler)


def _sources(emit: Emit, places: relax.Expr, extent: int, mode: str) -> tuple[relax.Expr, relax.Expr]:
    """Places on an axis of ``extent`` elements that are read for places that may be off it, and which are on it."""
    last = whole(extent - 1)
    clamped = emit(relax.op.minimum(emit(relax.op.maximum(places, whole(0))), last))
    kept = emit(relax.op.equal(clamped, places))
    if mode == "reflect":
        period = whole(max(2 * (extent - 1), 1))
        turned = emit(relax.op.floor_mod(places, period))
        return emit(relax.op.minimum(turned, emit(relax.op.subtract(period, turned)))), kept
    if mode == "wrap":
        return emit(relax.op.floor_mod(places, whole(extent))), kept
    return clamped, kept


def _triangle(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """Which elements are kept follows from places and the diagonal."""
    diagonal = operand(importer, inputs, 1)
    if diagonal is None:
        return None
    emit, x = importer.bb.emit, inputs[0]
    rows, columns = fixed_extents("Trilu", x)[-2:]
    apart = whole(np.arange(columns) - np.arange(rows)[:, None])
    bound = emit(relax.op.reshape(emit(relax.op.astype(diagonal, "int64")), [1, 1]))
    kept = (relax.op.greater_equal if attrs.get("upper", 1) else relax.op.less_equal)(apart, bound)
    kind = str(x.ty.dtype)
    return relax.op.where(emit(kept), x, relax.const(np.zeros((), kind), kind))


EXTREMES = {"ReduceMax": -np.inf, "ReduceMin": np.inf}
"""What the extreme of no floating-point numbers is."""
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
CONVERTED: Mapping[str, Convert] = {
    **{f"Reduce{name}": _reduction(f"Reduce{name}") for name in REDUCTIONS},
    "CumSum": _accumulation("CumSum"),
    "CumProd": _accumulation("CumProd"),
    "DFT": _transform,
    "Pad": _padded,
    "Range": _range,
    "Resize": scaled.resized,
    "Split": _parts,
    "Trilu": _triangle,
    "Upsample": scaled.resized,
}
"""How each is converted where an operand depends on inputs; a converter returns None where none does."""
