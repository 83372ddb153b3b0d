"""Tensor expressions of 3×3 depthwise convolutions on bits or codes, neighbouring rows of which share a 32-bit lane.

A lane of word i holds what stands below one another: rows 2i and 2i + 1 of bits, or 2i to 2i + 3 of codes. Two rows of
the result are made of two words of bits, or of one of codes. CPUs without an instruction widen rows and see no words.

Maps are in blocks of channels, or plain. The rows of plain ones are computed in whole vectors and then cut.
"""

from __future__ import annotations

from typing import Any

from tvm import te

from workers.tvm_backend.dot.bits import BITS, PAIR, widened
from workers.tvm_backend.dot.codes import WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS
from workers.tvm_backend.passes.layout.compute import LANES, padded

KERNEL = 3
"""Rows and columns of the kernel."""
STEP = 2
"""Rows from one word to the next."""
BLOCKED = 5
"""Axes of a map in blocks of channels."""
Padding = tuple[int, int, int, int]


def depthwise_conv2d_pairs(x: te.Tensor, w: te.Tensor, padding: Padding) -> te.Tensor:
    """Convolution of each channel by itself, summed in float32; stride one.

    Args:
        x: bfloat16 [N, CB, H, W, LANES], or [N, C, H, W].
        w: bfloat16 [CB, 3, 2, LANES, 2], or [C, 3, 2, 1, 2]: columns of the kernel, pairs of its rows.
        padding: top, left, bottom, right; the rows of the result are even in number.

    Returns:
        float32 [N, CB, Y, X, LANES], or [N, C, Y, X].
    """
    columns, border = _columns(x, padding)
    return _cut(_summed(_wide_rows(padded(x, border), PAIR), _wide_weights(w)), columns)


def depthwise_conv2d_quads(x: te.Tensor, w: te.Tensor, zero: te.Tensor, padding: Padding) -> te.Tensor:
    """The same of codes.

    Args:
        x: codes [N, CB, H, W, LANES], or [N, C, H, W]. The border is the code of zero.
        w: int8 [CB, 3, LANES, 4], or [C, 3, 1, 4].

    Returns:
        float32 [N, CB, Y, X, LANES], or [N, C, Y, X]; whole numbers.
    """
    columns, (top, left, bottom, right) = _columns(x, padding)
    source = padded(x, (top, left, bottom + STEP, right), zero().astype("int32").astype(x.dtype))
    return _cut(_summed(_wide_rows(source, GROUPS[WEIGHTS], STEP), _wide_weights(w)), columns)


def _columns(x: te.Tensor, padding: Padding) -> tuple[int, Padding]:
    """Columns of the result, and the padding with which plain rows of it are whole vectors."""
    top, left, bottom, right = padding
    columns = int(x.shape[3]) + left + right - (KERNEL - 1)
    beyond = 0 if len(x.shape) == BLOCKED else -columns % LANES
    return columns, (top, left, bottom, right + beyond)


def _cut(full: te.Tensor, columns: int) -> te.Tensor:
    n, blocks, rows, wide, *lanes = (int(d) for d in full.shape)
    if columns == wide:
        return full
    return te.compute((n, blocks, rows, columns, *lanes), lambda *at: full(*at), name="cut")


def _wide_rows(source: te.Tensor, share: int, beyond: int = 0) -> te.Tensor:
    """Rows as float32, read from words in which ``share`` of them stand; the last ``beyond`` rows fill words only."""
    n, blocks, height, width, *lanes = (int(d) for d in source.shape)
    words = te.compute(
        (n, blocks, (height - beyond) // STEP, width, *lanes, share),
        lambda b, o, i, x, *rest: source(b, o, STEP * i + rest[-1], x, *rest[:-1]),
        name="row_words",
    )
    return te.compute(
        (n, blocks, height - beyond, width, *lanes),
        lambda b, o, y, x, *lane: _as_float(words(b, o, y // STEP, x, *lane, y % STEP), source.dtype),
        name="wide",
    )


def _wide_weights(w: te.Tensor) -> te.Tensor:
    """[CB, 3, 2, LANES, 2] or [CB, 3, LANES, 4] as float32 [CB, 3, 3, LANES], rows first; of one lane as [C, 3, 3]."""
    blocks, columns, *_, lanes, share = (int(d) for d in w.shape)

    def value(o: Any, ky: Any, kx: Any, *of_block: Any) -> Any:
        (lane,) = of_block or (0,)
        return _as_float(w(o, kx, lane, ky) if share > KERNEL else w(o, kx, ky // share, lane, ky % share), w.dtype)

    plain = (blocks, KERNEL, columns)
    return te.compute(plain if lanes == 1 else (*plain, lanes), value, name="wide_weights")


def _summed(source: te.Tensor, weights: te.Tensor) -> te.Tensor:
    n, blocks, height, width, *lanes = (int(d) for d in source.shape)
    ky, kx = (te.reduce_axis((0, KERNEL), name) for name in ("ky", "kx"))

    def value(b: Any, o: Any, y: Any, x: Any, *lane: Any) -> Any:
        return te.sum(source(b, o, y + ky, x + kx, *lane) * weights(o, ky, kx, *lane), axis=[ky, kx])

    return te.compute((n, blocks, height - KERNEL + 1, width - KERNEL + 1, *lanes), value, name="depthwise_words")


def _as_float(value: Any, dtype: Any) -> Any:
    return widened(value) if str(dtype) == BITS else value.astype("float32")
