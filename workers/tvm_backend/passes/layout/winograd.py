"""Convolution of 3×3 with fewer multiplications: Winograd's minimal filtering on tiles of a feature map.

F(m×m, 3×3) makes m × m outputs of (m + 2)² products for each pair of channels instead of 9 m²: 2.25 times fewer for
m = 2, 4 times fewer for m = 4 (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016). The products
of all tiles are (m + 2)² matrix products of their own; what stands before and behind them is a few additions.

Rounding: on normal data and 64 to 256 channels, the largest error is 3e-7 to 6e-7 (m = 2) or 4e-6 to 1e-5 (m = 4)
of the largest output, where a direct kernel's is 9e-7 to 2e-6. Tests bound it by 2e-6 and 2e-5. In bfloat16 transformed
inputs and weights are rounded, sums and what is transformed back are not: 0.40 % in the root mean square with m = 2,
where direct products have 0.17 %, and 1.4 % with m = 4, which is too much. Tests bound it by 0.5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.arithmetic import NARROW
from tunesmith.names import BF16
from workers.tvm_backend.dot.bits import BITS, rounded, widened
from workers.tvm_backend.passes.layout.compute import LANES, multiplied, padded
from workers.tvm_backend.passes.layout.conv_problem import Convolution
from workers.tvm_backend.passes.layout.cook_toom import TAPS, filtering

TILES = (2, 4)
"""Sizes of an output tile that are considered; rounding errors grow fast beyond them."""
TILE_OF_PAIRS = 2
"""The same in bfloat16."""
OWN = {"schedule_rule": "None"}
"""Keeps TVM's generator off a stage: of six in a row it makes sketches that take a quarter of a second to replay."""


def fits(conv: Convolution, blocked: bool, cpu: CpuModel) -> int | None:
    """The size m of the output tile with which Winograd's algorithm may pay; None where it cannot.

    It takes 3×3 kernels of one group with stride and dilation 1. An estimate decides, in multiply-adds: those of the
    products, what transforms take, and the weights, (m + 2)² / 9 times as many, as memory brings them.

    Args:
        blocked: the input lies in blocks; a plain one is put into them first, and its channels have to fill them.
    """
    if not _is_filtering(conv) or not (blocked or conv.source[1] % LANES == 0):
        return None
    return _best(conv, TILES, cpu, 0.0 if blocked else cpu.gather_macs, cpu.transform_macs)


def fits_pairs(conv: Convolution, cpu: CpuModel) -> bool:
    """The same in bfloat16, with output tiles of ``TILE_OF_PAIRS``, where the input lies in blocks.

    What is transformed costs as many more multiply-adds as these are faster. Weights have half of the bytes, in the
    time of which as many are done as in that of all of float32's.
    """
    price = NARROW[BF16].speed * cpu.transform_macs
    return _is_filtering(conv) and _best(conv, (TILE_OF_PAIRS,), cpu, 0.0, price) is not None


def _is_filtering(conv: Convolution) -> bool:
    """Whether it is a convolution of 3×3 whose channels fill a block."""
    _, channels, *kernel = conv.weight.shape
    plain = conv.stride == (1, 1) and conv.dilation == (1, 1) and kernel == [TAPS, TAPS] and conv.groups == 1
    return plain and str(conv.weight.dtype) == "float32" and channels == conv.source[1] >= LANES


def _best(conv: Convolution, sizes: Sequence[int], cpu: CpuModel, gather: float, transform: float) -> int | None:
    """The size with the least estimate, where it earns a try next to a direct convolution.

    Args:
        gather, transform: multiply-adds in the time in which a value is put into a block, or transformed.
    """
    inputs, outputs = (-(-count // LANES) * LANES for count in (conv.source[1], len(conv.weight)))
    high, wide = (size + sum(conv.padding[at::2]) - TAPS + 1 for at, size in enumerate(conv.source[2:]))
    direct = inputs * outputs * TAPS**2 * (conv.source[0] * high * wide + 4 * cpu.byte_macs)
    gathered = gather * inputs * conv.source[0] * high * wide
    costs = {}
    for m in sizes:
        count = conv.source[0] * tiles(high, m) * columns(wide, m, cpu)
        each = inputs * outputs * (count + 4 * cpu.byte_macs) + transform * count * (inputs + outputs)
        costs[m] = gathered + each * (m + TAPS - 1) ** 2
    best = min(costs, key=costs.__getitem__)
    return best if costs[best] < cpu.winograd_gain * direct else None


def conv2d_winograd(x: te.Tensor, u: te.Tensor, padding: tuple[int, int, int, int], m: int, cols: int) -> te.Tensor:
    """Convolution of 3×3, stride 1, one group.

    Args:
        x: [N, CB, H, W, LANES], or a plain map [N, C, H, W, 1] whose channels fill blocks.
        u: [OB, m + 2, m + 2, CB, LANES, LANES], from ``packing.winograd_weight``.
        padding: top, left, bottom, right.
        m: size of an output tile, 2 or 4.
        cols: tiles of a row, see ``columns``.

    Returns:
        [N, OB, Y, X, LANES].
    """
    return _convolved(x, u, padding, m, cols, "conv2d_winograd_blocked")


def conv2d_winograd_pairs(x: te.Tensor, u: te.Tensor, padding: tuple[int, int, int, int], cols: int) -> te.Tensor:
    """The same of bfloat16, with output tiles of ``TILE_OF_PAIRS``; sums are float32.

    Args:
        x: bfloat16 [N, CB, H, W, LANES].
        u: bfloat16 [OB, m + 2, m + 2, CB, LANES / 2, LANES, 2], from ``packing.winograd_pairs``.
        padding, cols: see :func:`conv2d_winograd`.

    Returns:
        float32 [N, OB, Y, X, LANES].
    """
    return _convolved(x, u, padding, TILE_OF_PAIRS, cols, "conv2d_winograd_pairs")


def _convolved(
    x: te.Tensor, u: te.Tensor, padding: tuple[int, int, int, int], m: int, cols: int, name: str
) -> te.Tensor:
    n, _, height, width, _ = (int(d) for d in x.shape)
    outs, _, _, blocks, *_ = (int(d) for d in u.shape)
    lanes, in_pairs = LANES, str(u.dtype) == BITS
    size, top, left = m + TAPS - 1, padding[0], padding[1]
    out_h, out_w = height + top + padding[2] - TAPS + 1, width + left + padding[3] - TAPS + 1
    rows = tiles(out_h, m)
    high, wide = rows * m + TAPS - 1, cols * m + TAPS - 1
    d = _source(x, (top, left, high - top - height, wide - left - width))
    read = widened if in_pairs else _same
    half = te.compute(
        (n, blocks, rows, size, wide, lanes),
        lambda b, c, ty, i, z, lane: _evaluated(i, [read(d[b, c, ty * m + r, z, lane]) for r in range(size)]),
        name="winograd_input_rows",
        attrs=OWN,
    )
    v = te.compute(
        (n, rows, size, size, blocks, cols, lanes),
        lambda b, ty, i, j, c, tx, lane: _evaluated(j, [half[b, c, ty, i, tx * m + s, lane] for s in range(size)]),
        name="winograd_input",
        attrs=OWN,
    )
    if in_pairs:
        values = v
        bits = te.compute(values.shape, lambda *at: rounded(values(*at)), name="winograd_bits", attrs=OWN)
        v = te.compute(bits.shape, lambda *at: widened(bits(*at)), name="winograd_wide", attrs=OWN)
    products = _products(v, u)
    part = te.compute(
        (n, outs, rows, cols, m, size, lanes),
        lambda b, o, ty, tx, k, j, lane: _interpolated(k, [products[b, o, i, j, ty, tx, lane] for i in range(size)]),
        name="winograd_output_rows",
        attrs=OWN,
    )
    whole = te.compute(
        (n, outs, rows, m, cols, m, lanes),
        lambda b, o, ty, k, tx, q, lane: _interpolated(q, [part[b, o, ty, tx, k, j, lane] for j in range(size)]),
        name="winograd_output",
        attrs=OWN,
    )
    return te.compute(
        (n, outs, out_h, out_w, lanes),
        lambda b, o, y, z, lane: whole[b, o, y // m, y % m, z // m, z % m, lane],
        name=name,
        attrs=OWN,
    )


def tiles(extent: int, m: int) -> int:
    """Tiles that cover the rows of an output."""
    return -(-extent // m)


def columns(extent: int, m: int, cpu: CpuModel) -> int:
    """Tiles of a row: as many as cover it, or a few more that make groups for the registers."""
    count, most = tiles(extent, m), cpu.max_winograd_tiles
    while count > most and not any(count % group == 0 for group in range(cpu.min_winograd_tiles, most + 1)):
        count += 1
    return count


def _source(x: te.Tensor, padding: tuple[int, int, int, int]) -> te.Tensor:
    """[N, CB, H, W, LANES] with zeros around it; a plain map is put into blocks on the way."""
    n, channels, height, width, inner = (int(d) for d in x.shape)
    if inner == LANES:
        return padded(x, padding)
    top, left, bottom, right = padding

    def value(b: Any, c: Any, y: Any, z: Any, lane: Any) -> Any:
        inside = tirx.all(y >= top, y < height + top, z >= left, z < width + left)
        return tirx.if_then_else(inside, x[b, c * LANES + lane, y - top, z - left, 0], tirx.const(0, x.dtype))

    shape = n, channels // LANES, height + top + bottom, width + left + right, LANES
    return te.compute(shape, value, name="winograd_blocked", attrs=OWN)


def _products(v: te.Tensor, u: te.Tensor) -> te.Tensor:
    """Products of each element of a tile with its weights, summed over input channels: [N, OB, i, j, rows, columns,
    lane]."""
    n, rows, size, _, blocks, cols, _ = (int(d) for d in v.shape)
    outs, _, _, _, inner, lanes, *group = (int(d) for d in u.shape)
    sizes = zip((blocks, inner, *group), ("c", "ci", "s"), strict=False)
    c, ci, *s = (te.reduce_axis((0, size), axis) for size, axis in sizes)

    def value(b: Any, o: Any, i: Any, j: Any, ty: Any, tx: Any, lane: Any) -> Any:
        place = o, i, j, c, ci, lane, *s
        transformed = v[b, ty, i, j, c, tx, ci * group[0] + s[0] if group else ci]
        return te.sum(multiplied(transformed, u[place]), axis=[c, ci, *s])

    return te.compute((n, outs, size, size, rows, cols, lanes), value, name="winograd_products", attrs=OWN)


def _same(value: Any) -> Any:
    return value


def _evaluated(i: Any, d: Sequence[Any]) -> Any:
    """Row i of ``Filtering.data`` times d.

    The rows of opposite points p and -p are the same except for the signs of odd columns, so that compilers share both
    halves.
    """
    found = filtering(len(d) - TAPS + 1)
    last, pairs = len(found.points), {row: float(p) for row, p in enumerate(found.points) if p}
    halves: list[list[tuple[Any, Any]]] = [[], []]
    for at, each in enumerate(d):
        column = {row: found.data[row, at] / p ** (at % 2) for row, p in pairs.items()}
        if any(column.values()):
            halves[at % 2].append((_choice(i, column), each))
    middle = _sum(halves[0]) + _choice(i, pairs) * _sum(halves[1])
    ends = [
        _sum([(float(factor), each) for factor, each in zip(found.data[row], d, strict=True) if factor])
        for row in (0, last)
    ]
    return _select(i, {0: ends[0], last: ends[1]}, middle)


def _interpolated(k: Any, v: Sequence[Any]) -> Any:
    """Row k of ``Filtering.out`` times v: ``p ** k`` for point p, those of p and -p taken together."""
    found = filtering(len(v) - TAPS + 1)
    powers = range(len(found.out))
    sign = _choice(k, {row: (-1.0) ** row for row in powers})
    terms = [
        (_choice(k, {row: float(p**row) for row in powers}), v[at] + sign * v[at + 1])
        for at, p in enumerate(found.points)
        if p > 0
    ]
    common = _sum(terms)
    return _select(k, {0: v[0] + common, powers[-1]: common + v[-1]}, common)


def _choice(row: Any, values: dict[int, float]) -> Any:
    """A number that depends on the row; one that does not is a plain float."""
    *others, (_, last) = values.items()
    if all(each == last for _, each in others):
        return float(last)
    return _select(
        row, {at: tirx.const(float(each), "float32") for at, each in others}, tirx.const(float(last), "float32")
    )


def _select(row: Any, cases: dict[int, Any], otherwise: Any) -> Any:
    """One of some values; nothing is left of the others where ``row`` is unrolled."""
    for at, value in reversed(cases.items()):
        otherwise = tirx.Select(row.equal(at), value, otherwise)
    return otherwise


def _sum(terms: Sequence[tuple[Any, Any]]) -> Any:
    """Sum of factors times values; a factor of 1 is left out."""
    found = [value if isinstance(factor, float) and factor == 1.0 else value * factor for factor, value in terms]
    total = found[0]
    for each in found[1:]:
        total = total + each
    return total
