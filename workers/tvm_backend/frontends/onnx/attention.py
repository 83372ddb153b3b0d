"""Attention as one operator: onnxruntime's, of one product or of three operands, and ONNX's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax

from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.refusals import unsupported

LOW = -10000.0
"""What onnxruntime adds where a mask takes a key away, if the model does not say."""
PREFIX = "com.microsoft."
KNOWN = frozenset(
    {
        "is_causal",
        "kv_num_heads",
        "q_num_heads",
        "qk_matmul_output_mode",
        "scale",
        "softcap",
        "softmax_precision",
        "left_window_size",
        "right_window_size",
        "tvm_custom",
    }
)
"""Attributes of ONNX's that are regarded, and the importer's own; softmax is as precise as its operands."""
Attributes = dict[str, Any]
Emit = Callable[[relax.Expr], relax.Expr]


@dataclass(frozen=True)
class _Scores:
    """What becomes of queries times keys.

    Attributes:
        scale: they are multiplied by; None: 1 over the root of a key's width.
        added: to them, as wide as they are except for axes of 1.
        kept: which of them count, bool, likewise; None: all.
        low: in the place of those that do not.
        empty: a row may have none that counts, and is zeros then.
        cap: they are drawn below, before anything is added; 0 for none.
    """

    scale: float | None = None
    added: Sequence[relax.Expr] = ()
    kept: relax.Expr | None = None
    low: float = -math.inf
    empty: bool = False
    cap: float = 0.0


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
    name: str,
    emit: Emit,
    parts: Sequence[relax.Expr],
    attrs: Attributes,
    mask: relax.Expr | None,
    added: relax.Expr | None,
) -> relax.Expr:
    """Attention over queries, keys and values, each [batch, rows, width]; ``mask``: 1 where a key counts."""
    low, heads = attrs.get("mask_filter_value", LOW), int(attrs["num_heads"])
    query, key, value = (_split(emit, part, heads) for part in parts)
    kept = _window(query, key, 0, -1, 0) if attrs.get("unidirectional") else None
    more = [each for each in (_away(name, emit, mask, low), added) if each is not None]
    scores = _Scores(attrs.get("scale") or None, more, None if kept is None else relax.const(kept), low)
    return _joined(emit, _attended(emit, query, key, value, scores)[0])


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
    emit, (query, key, value), mask, past = importer.bb.emit, inputs[:3], inputs[3], inputs[4:6]
    if inputs[6] is not None or attrs.keys() - KNOWN:
        raise unsupported("Attention", ", ".join(sorted(attrs.keys() - KNOWN)) or "nonpad_kv_seqlen")
    flat = query.ty.ndim == 3
    if flat:
        heads = int(attrs["q_num_heads"]), *[int(attrs["kv_num_heads"])] * 2
        query, key, value = (_split(emit, part, n) for part, n in zip((query, key, value), heads, strict=True))
    before = int(past[0].ty.shape[2]) if past[0] is not None else 0
    if before:
        key, value = (emit(relax.op.concat(pair, 2)) for pair in zip(past, (key, value), strict=True))
    present, shared = [key, value], int(query.ty.shape[1]) // int(key.ty.shape[1])
    if shared > 1:
        key, value = (emit(relax.op.repeat(part, shared, 1)) for part in present)
    right = 0 if attrs.get("is_causal") else attrs.get("right_window_size", -1)
    scores = _masked(emit, mask, _window(query, key, before, attrs.get("left_window_size", -1), right), attrs)
    found, *stages = _attended(emit, query, key, value, scores)
    results = [_joined(emit, found) if flat else found, *present, stages[attrs.get("qk_matmul_output_mode", 0)]]
    count = attrs["tvm_custom"]["num_outputs"]
    return results[0] if count == 1 else relax.Tuple(results[:count])


def _masked(emit: Emit, mask: relax.Expr | None, window: NDArray[np.bool_] | None, attrs: Attributes) -> _Scores:
    """By a mask of truth values or of numbers that are added, and by places."""
    kept = None if window is None else relax.const(window)
    scores = _Scores(attrs.get("scale"), cap=attrs.get("softcap", 0.0))
    if mask is not None and str(mask.ty.dtype) == "bool":
        both = mask if kept is None else emit(relax.op.logical_and(mask, kept))
        return replace(scores, kept=both, empty=True)
    empty = window is not None and not window.any(axis=1).all()
    return replace(scores, kept=kept, empty=empty, added=() if mask is None else (mask,))


def _window(query: relax.Expr, key: relax.Expr, before: int, left: int, right: int) -> NDArray[np.bool_] | None:
    """Which keys each row sees, bool [rows, keys]; None where it is all of them.

    Args:
        before: keys in front of the first row's own.
        left, right: how many keys a row sees besides its own; -1 for all.
    """
    rows, keys = (int(each.ty.shape[2]) for each in (query, key))
    sizes.Unfolding().add("a mask of attention", [rows, keys], 64, 0)
    apart = np.arange(keys) - (np.arange(rows)[:, None] + before)
    seen = ((apart >= -left) | (left < 0)) & ((apart <= right) | (right < 0))
    return None if seen.all() else seen


def _attended(emit: Emit, query: relax.Expr, key: relax.Expr, value: relax.Expr, scores: _Scores) -> list[relax.Expr]:
    """Softmax of queries times keys, times values, each [batch, heads, rows, width]; and the stages on the way."""
    kind = str(query.ty.dtype)
    scale = scores.scale or 1.0 / math.sqrt(int(query.ty.shape[-1]))
    plain = emit(relax.op.matmul(query, emit(relax.op.permute_dims(key, [0, 1, 3, 2]))))
    plain = found = emit(relax.op.multiply(plain, relax.const(scale, kind)))
    if scores.cap:
        cap = relax.const(scores.cap, kind)
        found = emit(relax.op.multiply(emit(relax.op.tanh(emit(relax.op.divide(found, cap)))), cap))
    capped = found
    if scores.kept is not None:
        found = emit(relax.op.where(scores.kept, found, relax.const(scores.low, kind)))
    for each in scores.added:
        found = emit(relax.op.add(found, each))
    shares = emit(relax.op.nn.softmax(found))
    if scores.empty:
        shares = emit(relax.op.where(scores.kept, shares, relax.const(0.0, kind)))
    return [emit(relax.op.matmul(shares, value)), plain, capped, found, shares]


def _parts(emit: Emit, x: relax.Expr, sizes: Sequence[int]) -> list[relax.Expr]:
    """Split the last axis into parts."""
    ends = np.cumsum(sizes).tolist()
    return [
        emit(relax.op.strided_slice(x, [x.ty.ndim - 1], [end - size], [end]))
        for size, end in zip(sizes, ends, strict=True)
    ]


def _split(emit: Emit, x: relax.Expr, heads: int) -> relax.Expr:
    """[batch, rows, width] to [batch, heads, rows, width of a head]."""
    batch, rows, width = (int(extent) for extent in x.ty.shape)
    return emit(relax.op.permute_dims(emit(relax.op.reshape(x, (batch, rows, heads, width // heads))), [0, 2, 1, 3]))


def _joined(emit: Emit, x: relax.Expr) -> relax.Expr:
    """What :func:`_split` split."""
    batch, heads, rows, width = (int(extent) for extent in x.ty.shape)
    return emit(relax.op.reshape(emit(relax.op.permute_dims(x, [0, 2, 1, 3])), (batch, rows, heads * width)))


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr]] = {
    "Attention": _onnx,
    PREFIX + "Attention": _by_one_product,
    PREFIX + "MultiHeadAttention": _by_three,
}
"""How each is converted, by its name with its domain."""
