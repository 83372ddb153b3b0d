"""Attention as one operator: onnxruntime's, of one product or of three operands, and ONNX's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.refusals import unsupported

LOW = -10000.0
"""What onnxruntime adds where a mask takes a key away, if the model does not say."""
PREFIX = "com.microsoft."
Attributes = dict[str, Any]
Emit = Callable[[relax.Expr], relax.Expr]


@dataclass(frozen=True)
class _Scores:
    """What becomes of queries times keys.

    Attributes:
        scale: they are multiplied by; None: 1 over the root of a key's width.
        low: in their place where a row's key comes later; None where later keys count like all.
        added: to them afterwards, as wide as they are but for axes of 1.
    """

    scale: float | None
    low: float | None
    added: Sequence[relax.Expr]


def _by_one_product(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """onnxruntime's ``Attention``: queries, keys and values are made by one product."""
    x, weight, bias, mask, past, added = (inputs[at] for at in range(6))
    if past is not None or attrs.get("do_rotary"):
        raise unsupported("Attention", "keys and values of the past, or rotary embedding")
    emit = importer.bb.emit
    made = emit(relax.op.matmul(x, weight))
    made = made if bias is None else emit(relax.op.add(made, bias))
    sizes = attrs.get("qkv_hidden_sizes") or [int(made.ty.shape[-1]) // 3] * 3
    return _of_three("Attention", emit, _parts(emit, made, sizes), attrs, mask, added)


def _by_three(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """onnxruntime's ``MultiHeadAttention``."""
    query, key, value, bias, mask, added = (inputs[at] for at in range(6))
    if key is None or value is None or any(each is not None for each in inputs[6:]) or key.ty.ndim != 3:
        raise unsupported("MultiHeadAttention", "operands that are packed, or keys and values of the past")
    emit, parts = importer.bb.emit, [query, key, value]
    if bias is not None:
        shifts = _parts(emit, bias, [int(part.ty.shape[-1]) for part in parts])
        parts = [emit(relax.op.add(part, shift)) for part, shift in zip(parts, shifts, strict=True)]
    return _of_three("MultiHeadAttention", emit, parts, attrs, mask, added)


def _of_three(
    name: str, emit: Emit, parts: Sequence[relax.Expr], attrs: Attributes, mask: relax.Expr | None,
    added: relax.Expr | None,
) -> relax.Expr:  # fmt: skip
    """Of queries, keys and values, each [batch, rows, width]; ``mask``: 1 where a key counts."""
    low = attrs.get("mask_filter_value", LOW)
    more = [each for each in (_away(name, emit, mask, low), added) if each is not None]
    scores = _Scores(attrs.get("scale") or None, low if attrs.get("unidirectional") else None, more)
    heads = int(attrs["num_heads"])
    query, key, value = (_split(emit, part, heads) for part in parts)
    return _joined(emit, _attended(emit, query, key, value, scores))


def _away(name: str, emit: Emit, mask: relax.Expr | None, low: float) -> relax.Expr | None:
    """What is added to products of heads for a mask of whole numbers, [batch, keys] or [batch, rows, keys]."""
    if mask is None:
        return None
    if mask.ty.ndim not in (2, 3):
        raise unsupported(name, "a mask that is neither [batch, keys] nor [batch, rows, keys]")
    left = emit(relax.op.subtract(relax.const(1.0, "float32"), emit(relax.op.astype(mask, "float32"))))
    wide = emit(relax.op.expand_dims(left, [1, 2] if mask.ty.ndim == 2 else [1]))
    return emit(relax.op.multiply(wide, relax.const(low, "float32")))


def _onnx(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """ONNX's ``Attention``: operands [batch, rows, width], or with an axis of heads; several heads may share keys."""
    more = attrs.get("softcap") or attrs.get("qk_matmul_output_mode") or attrs["tvm_custom"]["num_outputs"] > 1
    if more or any(each is not None for each in inputs[4:]):
        raise unsupported("Attention", "a softcap, results beside the first, or keys and values of the past")
    emit, (query, key, value), mask = importer.bb.emit, inputs[:3], inputs[3]
    flat = query.ty.ndim == 3
    if flat:
        heads = int(attrs["q_num_heads"]), *[int(attrs["kv_num_heads"])] * 2
        query, key, value = (_split(emit, part, n) for part, n in zip((query, key, value), heads, strict=True))
    shared = int(query.ty.shape[1]) // int(key.ty.shape[1])
    if shared > 1:
        key, value = (emit(relax.op.repeat(part, shared, 1)) for part in (key, value))
    if mask is not None and str(mask.ty.dtype) == "bool":
        zero, never = (relax.const(number, "float32") for number in (0.0, -math.inf))
        mask = emit(relax.op.where(mask, zero, never))
    low = -math.inf if attrs.get("is_causal") else None
    found = _attended(emit, query, key, value, _Scores(attrs.get("scale"), low, [] if mask is None else [mask]))
    return _joined(emit, found) if flat else found


def _attended(emit: Emit, query: relax.Expr, key: relax.Expr, value: relax.Expr, scores: _Scores) -> relax.Expr:
    """Softmax of queries times keys, times values; each [batch, heads, rows, width]."""
    kind = str(query.ty.dtype)
    scale = scores.scale or 1.0 / math.sqrt(int(query.ty.shape[-1]))
    found = emit(relax.op.matmul(query, emit(relax.op.permute_dims(key, [0, 1, 3, 2]))))
    found = emit(relax.op.multiply(found, relax.const(scale, kind)))
    if scores.low is not None:
        rows, keys = (int(extent) for extent in list(found.ty.shape)[-2:])
        later = np.triu(np.ones((rows, keys), bool), 1)
        found = emit(relax.op.where(relax.const(later), relax.const(scores.low, kind), found))
    for each in scores.added:
        found = emit(relax.op.add(found, each))
    return emit(relax.op.matmul(emit(relax.op.nn.softmax(found)), value))


def _parts(emit: Emit, x: relax.Expr, sizes: Sequence[int]) -> list[relax.Expr]:
    """Of the last axis."""
    ends = np.cumsum(sizes).tolist()
    return [emit(relax.op.strided_slice(x, [x.ty.ndim - 1], [end - size], [end]))
            for size, end in zip(sizes, ends, strict=True)]  # fmt: skip


def _split(emit: Emit, x: relax.Expr, heads: int) -> relax.Expr:
    """[batch, rows, width] to [batch, heads, rows, width of a head]."""
    batch, rows, width = (int(extent) for extent in x.ty.shape)
    return emit(relax.op.permute_dims(emit(relax.op.reshape(x, (batch, rows, heads, width // heads))), [0, 2, 1, 3]))


def _joined(emit: Emit, x: relax.Expr) -> relax.Expr:
    """What :func:`_split` split."""
    batch, heads, rows, width = (int(extent) for extent in x.ty.shape)
    return emit(relax.op.reshape(emit(relax.op.permute_dims(x, [0, 2, 1, 3])), (batch, rows, heads * width)))


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr]] = {
    "Attention": _onnx, PREFIX + "Attention": _by_one_product, PREFIX + "MultiHeadAttention": _by_three,
}  # fmt: skip
"""How each is converted, by its name with its domain."""
