"""ONNX's ``MelWeightMatrix``, computed while the program runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from workers.tvm_backend.frontends.onnx.attention import Attributes, Emit
from workers.tvm_backend.frontends.onnx.casts import kind_of
from workers.tvm_backend.frontends.onnx.special import Convert
from workers.tvm_backend.frontends.refusals import unsupported

FLOAT = 1
SCALE, CORNER = 2595 / math.log(10), 700.0
"""Factors of the mel scale: of the logarithm, and in hertz."""
REMEDY = "export the model with a constant one, or with a declared shape of the result"


def _matrix(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Triangles over the places of a spectrum, one a column; each begins at the top of the one before."""
    emit = importer.bb.emit
    columns = _size(importer, inputs[0], "num_mel_bins", 1)
    rows = _size(importer, inputs[1], "dft_length", 0)
    places = _places(emit, [emit(relax.op.reshape(x, [1])) for x in inputs[1:]], columns + 2)
    low, top, high = (emit(relax.op.strided_slice(places, [0], [at], [at + columns])) for at in range(3))
    place = _const(np.arange(rows)[:, None])

    def ramp(begin: relax.Expr, end: relax.Expr) -> relax.Expr:
        width = emit(relax.op.maximum(emit(relax.op.subtract(end, begin)), _const(1)))
        return emit(relax.op.divide(emit(relax.op.subtract(place, begin)), width))

    rising = emit(relax.op.where(emit(relax.op.equal(low, top)), _const(1), ramp(low, top)))
    falling = emit(relax.op.subtract(_const(1), ramp(top, high)))
    before = emit(relax.op.less_equal(place, top))
    inside = emit(relax.op.logical_and(emit(relax.op.greater_equal(place, low)), emit(relax.op.less(place, high))))
    inside = emit(relax.op.logical_or(inside, emit(relax.op.equal(place, top))))
    found = emit(relax.op.where(inside, emit(relax.op.where(before, rising, falling)), _const(0)))
    return relax.op.astype(found, kind_of(attrs.get("output_datatype", FLOAT)))


def _places(emit: Emit, given: list[relax.Expr], count: int) -> relax.Expr:
    """Places in the spectrum of ``count`` frequencies that are evenly apart on the mel scale."""
    length, rate, *edges = (emit(relax.op.astype(x, "float64")) for x in given)
    first, last = (
        emit(
            relax.op.multiply(
                emit(relax.op.log(emit(relax.op.add(emit(relax.op.divide(x, _const(CORNER))), _const(1))))),
                _const(SCALE),
            )
        )
        for x in edges
    )
    step = emit(relax.op.divide(emit(relax.op.subtract(last, first)), _const(count)))
    mels = emit(relax.op.add(emit(relax.op.multiply(_const(np.arange(count)), step)), first))
    powers = emit(relax.op.exp(emit(relax.op.divide(mels, _const(SCALE)))))
    hertz = emit(relax.op.multiply(emit(relax.op.subtract(powers, _const(1))), _const(CORNER)))
    scaled = emit(relax.op.multiply(emit(relax.op.add(length, _const(1))), hertz))
    return emit(relax.op.floor(emit(relax.op.divide(scaled, rate))))


def _size(importer: Any, x: relax.Expr, what: str, axis: int) -> int:
    """An extent of the result, from a constant operand or else from the declared shape."""
    known = get_constant(x, [importer._nodes, importer._params])
    if isinstance(known, GenericConst):
        value = int(known.value.numpy().item())
        return value // 2 + 1 if axis == 0 else value
    if importer.shape is None:
        raise unsupported("MelWeightMatrix", f"a {what} that depends on the model's inputs", REMEDY)
    return int(importer.shape[axis])


def _const(value: object) -> relax.Expr:
    return relax.const(np.asarray(value, np.float64), "float64")


CONVERTED: Mapping[str, Convert] = {"MelWeightMatrix": _matrix}
"""How it is converted, by its name."""
