"""ONNX's operators that TVM's importer lacks, or that it converts as something else in rare cases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax, topi
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from workers.tvm_backend.frontends.onnx.attention import Attributes, Emit
from workers.tvm_backend.frontends.onnx.casts import kind_of
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

Convert = Callable[[Any, Any, Attributes, int], relax.Expr | None]
LARGEST_MATRIX = 4
"""Rows of a matrix whose determinant is written out."""


def _const(value: Any, like: relax.Expr) -> relax.Expr:
    kind = str(like.ty.dtype)
    return relax.const(np.asarray(value).astype(kind), kind)


def _shifted(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """A shift by the width or more, or by less than none, leaves no bit but the sign's."""
    emit, (x, by) = importer.bb.emit, inputs[:2]
    kind = str(x.ty.dtype)
    width, left = int(kind.lstrip("uint")), attrs["direction"] == b"LEFT"
    few = emit(relax.op.less(by, _const(width, by)))
    if not kind.startswith("u"):
        few = emit(relax.op.logical_and(few, emit(relax.op.greater_equal(by, _const(0, by)))))
    rest = 0 if left or kind.startswith("u") else width - 1
    bounded = emit(relax.op.where(few, by, _const(rest, by)))
    found = emit((relax.op.left_shift if left else relax.op.right_shift)(x, bounded))
    return relax.op.where(few, found, _const(0, x)) if rest == 0 else found


def _remainder(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """By infinity a number is its own remainder, or infinity where their signs differ and the divisor's is taken."""
    x, y = inputs[:2]
    if not str(x.ty.dtype).startswith("float"):
        return None
    emit = importer.bb.emit
    usual = emit(importer.by_tvm("Mod", inputs, attrs, opset))
    whole = x
    if not attrs.get("fmod", 0):
        product = emit(relax.op.multiply(emit(relax.op.sign(x)), emit(relax.op.sign(y))))
        whole = emit(relax.op.where(emit(relax.op.less(product, _const(0, x))), y, x))
    beyond = emit(relax.op.logical_and(emit(relax.op.isinf(y)), emit(relax.op.isfinite(x))))
    return relax.op.where(beyond, whole, usual)


def _is_nan(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    return is_nan(importer.bb.emit, inputs[0])


def is_nan(emit: Emit, x: relax.Expr) -> relax.Expr:
    """TVM has no such operator of bfloat16."""
    return relax.op.isnan(emit(relax.op.astype(x, "float32")) if str(x.ty.dtype) == "bfloat16" else x)


def _is_infinite(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    signs = [-np.inf] * bool(attrs.get("detect_negative", 1)) + [np.inf] * bool(attrs.get("detect_positive", 1))
    if len(signs) == 2:
        return None
    if not signs:
        return relax.op.zeros(inputs[0].ty.shape, "bool")
    return relax.op.equal(inputs[0], _const(signs[0], inputs[0]))


def _identity(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    kind = kind_of(attrs["dtype"]) if "dtype" in attrs else str(inputs[0].ty.dtype)
    rows, columns = fixed_extents("EyeLike", inputs[0])
    return relax.const(np.eye(rows, columns, attrs.get("k", 0)).astype(kind), kind)


def _elu(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """TVM takes float32 alone."""
    emit, x = importer.bb.emit, inputs[0]
    if str(x.ty.dtype) == "float32":
        return None
    less = emit(relax.op.subtract(emit(relax.op.exp(x)), _const(1, x)))
    low = emit(relax.op.multiply(_const(attrs.get("alpha", 1.0), x), less))
    return relax.op.where(emit(relax.op.less(x, _const(0, x))), low, x)


def _depth(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """Channels first, and the places of a block after them."""
    if attrs.get("mode", b"DCR") != b"CRD":
        return None
    emit, size = importer.bb.emit, int(attrs["blocksize"])
    n, c, h, w = fixed_extents("SpaceToDepth", inputs[0])
    parts = emit(relax.op.reshape(inputs[0], [n, c, h // size, size, w // size, size]))
    moved = emit(relax.op.permute_dims(parts, [0, 1, 3, 5, 2, 4]))
    return relax.op.reshape(moved, [n, c * size * size, h // size, w // size])


def _product(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``CumProd`` along a constant axis."""
    emit, x = importer.bb.emit, inputs[0]
    axis = get_constant(inputs[1], [importer._nodes, importer._params])
    assert isinstance(axis, GenericConst)  # others are chosen among before
    place = int(axis.value.numpy().item()) % x.ty.ndim

    def turned(x: relax.Expr) -> relax.Expr:
        return importer.bb.emit_te(topi.flip, x, axis=place) if attrs.get("reverse") else x

    found = emit(relax.op.cumprod(turned(x), place, exclusive=bool(attrs.get("exclusive"))))
    return turned(found)


def _determinant(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Leibniz' sum over the orders of the columns."""
    emit, x = importer.bb.emit, inputs[0]
    *batch, rows, _ = fixed_extents("Det", x)
    if rows > LARGEST_MATRIX:
        raise unsupported("Det", f"matrices of {rows} rows, of which {LARGEST_MATRIX} are the most")
    flat = emit(relax.op.reshape(x, [*batch, rows * rows]))
    cells = [emit(relax.op.take(flat, relax.const(at, "int64"), len(batch))) for at in range(rows * rows)]
    total: relax.Expr | None = None
    for order in itertools.permutations(range(rows)):
        term = cells[order[0]]
        for row in range(1, rows):
            term = emit(relax.op.multiply(term, cells[row * rows + order[row]]))
        odd = sum(order[i] > order[j] for i, j in itertools.combinations(range(rows), 2)) % 2
        if total is None:
            total = term
        else:
            total = emit((relax.op.subtract if odd else relax.op.add)(total, term))
    return total


def _cache(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``TensorScatter``: an update written into a cache from each batch's own place on."""
    emit, (cache, update, starts) = importer.bb.emit, [*inputs, None][:3]
    extents, axis = fixed_extents("TensorScatter", cache), attrs.get("axis", -2) % cache.ty.ndim
    length, count = extents[axis], fixed_extents("TensorScatter", update)[axis]
    places = relax.const(np.arange(length)[None, :], "int64")
    if starts is not None:
        starts = emit(relax.op.expand_dims(emit(relax.op.astype(starts, "int64")), 1))
        places = emit(relax.op.subtract(places, starts))
    if attrs.get("mode", b"linear") == b"circular":
        places = emit(relax.op.floor_mod(places, relax.const(length, "int64")))
    last, zero = relax.const(count - 1, "int64"), relax.const(0, "int64")
    sources = emit(relax.op.minimum(emit(relax.op.maximum(places, zero)), last))
    batch = extents[0] if starts is not None else 1
    shape = [batch if at == 0 else length if at == axis else 1 for at in range(len(extents))]
    inside = emit(relax.op.reshape(emit(relax.op.equal(sources, places)), shape))
    wide = emit(relax.op.broadcast_to(emit(relax.op.reshape(sources, shape)), extents))
    return relax.op.where(inside, emit(relax.op.gather_elements(update, wide, axis)), cache)


def _binarized(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    x = inputs[0]
    above = importer.bb.emit(relax.op.greater(x, _const(attrs.get("threshold", 0.0), x)))
    return relax.op.astype(above, str(x.ty.dtype))


def _features(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Elements of the last axis, which are counted by the second operand."""
    emit, x = importer.bb.emit, inputs[0]
    places = emit(relax.op.reshape(inputs[1], [-1]))
    found = emit(relax.op.take(x, places, x.ty.ndim - 1))
    return emit(relax.op.expand_dims(found, 0)) if x.ty.ndim == 1 else found


def _normalised(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """``BatchNormalization`` by the batch's own statistics, which the running ones follow."""
    if not attrs.get("training_mode"):
        return None
    emit, kinds = importer.bb.emit, [str(each.ty.dtype) for each in inputs]
    wide = "float64" if "float64" in kinds else "float32"
    x, scale, bias, *running = (emit(relax.op.astype(each, wide)) for each in inputs)
    axes = [axis for axis in range(x.ty.ndim) if axis != 1]

    def along(value: relax.Expr) -> relax.Expr:
        return emit(relax.op.reshape(value, [1 if axis in axes else -1 for axis in range(x.ty.ndim)]))

    mean = emit(relax.op.mean(x, axes))
    apart = emit(relax.op.subtract(x, along(mean)))
    variance = emit(relax.op.mean(emit(relax.op.multiply(apart, apart)), axes))
    deviation = emit(relax.op.sqrt(emit(relax.op.add(variance, relax.const(attrs.get("epsilon", 1e-5), wide)))))
    factor = emit(relax.op.divide(scale, deviation))
    y = emit(relax.op.add(emit(relax.op.multiply(apart, along(factor))), along(bias)))
    share = attrs.get("momentum", 0.9)
    kept, added = relax.const(share, wide), relax.const(1 - share, wide)
    found = [y]
    for old, new in zip(running, (mean, variance), strict=True):
        found.append(emit(relax.op.add(emit(relax.op.multiply(old, kept)), emit(relax.op.multiply(new, added)))))
    return relax.Tuple(
        [emit(relax.op.astype(each, kind)) for each, kind in zip(found, (kinds[0], *kinds[3:]), strict=True)]
    )


def _largest(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """TVM sorts no numbers of uint64; with their first bit turned they are in the order of int64."""
    x = inputs[0]
    if str(x.ty.dtype) != "uint64":
        return None
    emit = importer.bb.emit
    first = relax.const(np.array(np.iinfo(np.int64).min), "int64")
    key = emit(relax.op.bitwise_xor(emit(relax.op.astype(x, "int64")), first))
    places = emit(relax.TupleGetItem(emit(importer.by_tvm("TopK", [key, *list(inputs)[1:]], attrs, opset)), 1))
    return relax.Tuple([emit(relax.op.gather_elements(x, places, attrs.get("axis", -1))), places])


def _unsqueezed(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """Along an axis that is one number, as ONNX's own definitions have it; TVM wants a list."""
    if len(inputs) < 2 or not isinstance(inputs[1], GenericConst) or inputs[1].value.shape:
        return None
    return relax.op.expand_dims(inputs[0], int(inputs[1].value.numpy()))


LEARNING = "ai.onnx.ml."
"""ONNX's domain of operators of classical machine learning."""
CONVERTED: Mapping[str, Convert] = {
    f"{LEARNING}ArrayFeatureExtractor": _features,
    f"{LEARNING}Binarizer": _binarized,
    "BatchNormalization": _normalised,
    "BitShift": _shifted,
    "CumProd": _product,
    "Det": _determinant,
    "Elu": _elu,
    "EyeLike": _identity,
    "IsInf": _is_infinite,
    "IsNaN": _is_nan,
    "Mod": _remainder,
    "SpaceToDepth": _depth,
    "TensorScatter": _cache,
    "TopK": _largest,
    "Unsqueeze": _unsqueezed,
}
"""How each is converted; a converter returns None for what TVM's importer does rightly."""
