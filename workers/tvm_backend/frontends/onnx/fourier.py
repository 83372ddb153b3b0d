"""ONNX's ``DFT`` and ``STFT``, as products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workers.tvm_backend.frontends import fourier, sizes
from workers.tvm_backend.frontends.onnx import computed
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
    """Transform frames ``[batch, frames, length, parts]``.

    A length that depends on inputs is one of those that make the declared shape.
    """
    signal, step, window, length = [*inputs, None, None][:4]
    emit, half = importer.bb.emit, bool(attrs.get("onesided", 1))
    varies = computed.operand(importer, inputs, 3) is not None
    if (varies or computed.operand(importer, inputs, 1) is not None) and importer.shape is None:
        raise unsupported("STFT", "a length or step that depends on the model's inputs", computed.REMEDY)
    known = fixed_extents("STFT", signal)[1] if window is None else fixed_extents("STFT", window)[0]
    lengths = [known if varies else _number("STFT", length, known)]
    if varies and window is None:
        bins = importer.shape[2]
        lengths = [2 * bins - 2, 2 * bins - 1] if half else [bins]
    options = []
    for count in lengths:
        frames = _frames(importer, signal, step, count)
        if frames is None:
            continue
        if window is not None:
            frames = emit(relax.op.multiply(frames, emit(relax.op.reshape(window, (count, 1)))))
        own = relax.op.astype(length, "int64") if varies else computed.whole(count)
        same = emit(relax.op.equal(emit(own), computed.whole(count)))
        options.append((same, _along(emit, frames, 2, count, False, half)))
    if not options:
        raise unsupported("STFT", "a declared shape that no length and step make", "declare the shape that it has")
    return computed.chosen(emit, options)


def _frames(importer: Any, signal: relax.Expr, step: relax.Expr, count: int) -> relax.Expr | None:
    """Frames of ``count`` elements; None where none of such a length are as many as is declared."""
    emit, extent = importer.bb.emit, fixed_extents("STFT", signal)[1]
    rest, known = extent - count, isinstance(step, tvm.ir.GenericConst)
    if rest < 0 or count < 1:
        return None
    if known:
        frames = rest // _number("STFT", step, 0) + 1
    else:
        frames = importer.shape[1]
        longest = rest // (frames - 1) if frames > 1 else rest + 1
        if longest < 1 or rest // longest != frames - 1:
            return None
    if importer.shape is not None and importer.shape[1] != frames:
        return None
    sizes.Unfolding().add("the places of STFT", [frames, count], 64, 0)
    if known:
        begin = computed.whole(np.arange(frames)[:, None] * _number("STFT", step, 0))
    else:
        jump = emit(relax.op.reshape(emit(relax.op.astype(step, "int64")), [1, 1]))
        begin = emit(relax.op.multiply(computed.whole(np.arange(frames)[:, None]), jump))
        begin = emit(relax.op.clip(begin, 0, rest))  # other steps make other shapes, and would read beyond the signal
    return emit(relax.op.take(signal, emit(relax.op.add(begin, computed.whole(np.arange(count)))), 1))


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
