"""Texts of the intrinsics of a matrix unit: what clears a tile, adds a product to it, and writes it to memory.

One text serves all sizes: numbers take the place of ``{rows}``, ``{steps}``, ``{span}`` and ``{lanes}``. Others stand
for them here that occur nowhere else, because TVM parses no others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import CODES, WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS, SUMS
from workers.tvm_backend.dot.matrix import BLOCK_STEPS, PIXEL_STEPS, STEPS, WINDOWS, Rows
from workers.tvm_backend.dot.unit import COLUMNS, MAX_ROWS, MIN_ROWS

ROWS, DEPTH, SPAN, LANES = 7340033, 9437189, 8388617, 6291469
"""Numbers for a tile's rows, the steps of its reduction, the pixels that its rows read in all, and a pixel's lanes."""
ROW_COUNTS = range(MIN_ROWS, MAX_ROWS + 1)

TILE = f'T.cast(C.elem_offset // ({ROWS} * sc) * (sc // {COLUMNS}) + C.elem_offset % sc // {COLUMNS}, "int8")'
"""Number of a tile: its place in the buffer of accumulators, whose rows are ``sc`` elements apart."""
IS_LEFTMOST = "T.Select(C.elem_offset % sc == 0, 1, 0)"
"""Whether it is the first of its rows: later ones find the rows' operand in the unit."""
HEAD = """
@T.prim_func(s_tir=True)
def main({params}) -> None:
{strides}
{buffers}
    with T.sblock("root"):
        T.reads({reads})
        T.writes({writes})
{body}
"""
EACH = """
        for i in T.serial(0, {rows}):
            for j in T.serial(0, 16):
                with T.sblock("each"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    {statement}
"""
ADDS = """
        for i in T.serial(0, {rows}):
            for j in T.serial(0, 16):
                for k in T.serial(0, {steps}):
                    for p in T.serial(0, {group}):
                        with T.sblock("update"):
                            vi, vj, vk, vp = T.axis.remap("SSRR", [i, j, k, p])
                            C[vi, vj] = C[vi, vj] + {product}
"""
BITS_OF = 'T.reinterpret("float32", T.shift_left(T.cast({}, "uint32"), T.uint32(16)))'
PRODUCTS = {
    BITS: f"{BITS_OF.format('{left}')} * {BITS_OF.format('{right}')}",
    WEIGHTS: 'T.cast({left}, "int32") * T.cast({right}, "int32")',
}
BYTES = {"float32": 4, "int32": 4, BITS: 2, WEIGHTS: 1}


def all_texts() -> dict[str, tuple[str, str, list[dict[str, int]]]]:
    """By the intrinsic's name, with names of sizes in braces: its two texts, and the sizes that there are."""
    found: dict[str, tuple[str, str, list[dict[str, int]]]] = {}
    for weights, left, word in ((BITS, BITS, "bf16"), (WEIGHTS, CODES, "i8")):
        sums = SUMS[weights]
        depths = sorted({*STEPS[weights], *BLOCK_STEPS[weights], *WINDOWS})
        found[f"ts_amx_{sums}_zero_r{{rows}}_k{{steps}}"] = (*_zero(sums), _sizes(depths))
        found[f"ts_amx_{sums}_store_r{{rows}}"] = (*_store(sums), [{"rows": rows} for rows in ROW_COUNTS])
        found[f"ts_amx_{word}_r{{rows}}_k{{steps}}"] = (*_adds(weights, left, word), _sizes(STEPS[weights]))
        for step in PIXEL_STEPS:
            name, texts = (
                f"ts_amx_{word}_block{step if step > 1 else ''}",
                _adds(weights, left, word, Rows.BLOCK, step),
            )
            sizes = [
                {**_span(rows, 1, step), "steps": steps, "lanes": steps * GROUPS[weights]}
                for rows, steps in itertools.product(ROW_COUNTS, BLOCK_STEPS[weights])
            ]
            found[f"{name}_r{{rows}}_k{{steps}}"] = (*texts, sizes)
            name = f"ts_amx_{word}_window{step if step > 1 else ''}"
            texts = _adds(weights, left, word, Rows.WINDOW, step)
            windows = [_span(rows, steps, step) for rows, steps in itertools.product(ROW_COUNTS, WINDOWS)]
            found[f"{name}_r{{rows}}_k{{steps}}"] = (*texts, windows)
    return found


def _sizes(depths: Sequence[int]) -> list[dict[str, int]]:
    return [{"rows": rows, "steps": steps} for rows, steps in itertools.product(ROW_COUNTS, depths)]


def _span(rows: int, steps: int, step: int) -> dict[str, int]:
    """Sizes of a tile whose rows are of pixels; ``span``: pixels that its rows read in all."""
    return {"rows": rows, "steps": steps, "span": (rows - 1) * step + steps}


def with_names(text: str) -> str:
    """A text of TVM's JSON with names for the sizes."""
    names = {"rows": ROWS, "steps": DEPTH, "span": SPAN, "lanes": LANES}
    for name, number in names.items():
        text = text.replace(str(number), f"{{{name}}}")
    return text


def _zero(sums: str) -> tuple[str, str]:
    region = f"C[0:{ROWS}, 0:16]"
    number = "T.float32(0)" if sums == "float32" else "0"
    each = EACH.format(rows=ROWS, statement=f"C[vi, vj] = {number}")
    call = f'T.evaluate(T.call_extern("void", "ts_amx_zero", {TILE}, {ROWS}, {DEPTH}))'
    return _function({"C": sums}, "", region, each), _function({"C": sums}, "", region, call)


def _store(sums: str) -> tuple[str, str]:
    reads, writes = f"C[0:{ROWS}, 0:16]", f"D[0:{ROWS}, 0:16]"
    each = EACH.format(rows=ROWS, statement="D[vi, vj] = C[vi, vj]")
    to = f'T.address_of(D[0, 0]), T.cast(sd * {BYTES[sums]}, "int64")'
    call = f'T.evaluate(T.call_extern("void", "ts_amx_store", {TILE}, {to}))'
    buffers = {"C": sums, "D": sums}
    return _function(buffers, reads, writes, each), _function(buffers, reads, writes, call)


def _adds(weights: str, left: str, word: str, kind: Rows = Rows.LANES, step: int = 1) -> tuple[str, str]:
    depth = DEPTH
    group, size, sums = GROUPS[weights], BYTES[weights], SUMS[weights]
    index, region, shape, strides = {
        Rows.LANES: ("vi, vk, vp", f"0:{ROWS}, 0:{depth}, 0:{group}", f"{ROWS}, {depth}, {group}", f"sa, {group}, 1"),
        Rows.BLOCK: (
            f"vi * {step}, vk * {group} + vp",
            f"0:{SPAN}, 0:{LANES}",
            f"{SPAN}, {LANES}",
            "sa, 1",
        ),
        Rows.WINDOW: (f"vi * {step} + vk, vp", f"0:{SPAN}, 0:{group}", f"{SPAN}, {group}", f"{group}, 1"),
    }[kind]
    pitch = f"{group * step}" if kind is Rows.WINDOW else f"sa * {step}"
    writes = f"C[0:{ROWS}, 0:16]"
    # Weights of a window have the single lane of its pixels between its columns and the outputs.
    lane, of_lane = ("0, ", "1, ") if kind is Rows.WINDOW else ("", "")
    reads = f"{writes}, A[{region}], B[0:{depth}, {'0:1, ' if lane else ''}0:16, 0:{group}]"
    product = PRODUCTS[weights].format(left=f"A[{index}]", right=f"B[vk, {lane}vj, vp]")
    each = ADDS.format(rows=ROWS, steps=depth, group=group, product=product)
    first = "0, 0, 0" if kind is Rows.LANES else "0, 0"
    operands = (
        f'T.address_of(A[{first}]), T.cast({pitch} * {size}, "int64"), '
        f'T.address_of(B[0, {lane}0, 0]), T.cast(sb * {size}, "int64")'
    )
    call = f'T.evaluate(T.call_extern("void", "ts_amx_{word}", {TILE}, {IS_LEFTMOST}, {operands}))'
    buffers = {"A": left, "B": weights, "C": sums}
    shapes = {
        "A": (f"({shape})", strides),
        "B": (f"({depth}, {of_lane}16, {group})", f"sb, {'so, ' if lane else ''}{group}, 1"),
    }
    return (
        _function(buffers, reads, writes, each, shapes),
        _function(buffers, reads, writes, call, shapes),
    )


def _function(
    buffers: dict[str, str],
    reads: str,
    writes: str,
    body: str,
    shapes: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> str:
    """A function over tiles whose rows lie any distance apart.

    Args:
        buffers: types of the parameters, by name; C and D are tiles of sums, in memory of a thread's own.
        shapes: shape and strides of the others.
    """
    sums = {name: (f"({ROWS}, 16)", f"s{name.lower()}, 1") for name in ("C", "D")}
    lines = [
        f'    {name} = T.match_buffer({name.lower()}, {shape}, "{dtype}", strides=[{strides}], offset_factor=1'
        + (', scope="local")' if name in sums else ")")
        for name, dtype in buffers.items()
        for shape, strides in [{**sums, **shapes}[name]]
    ]
    names = [*(f"s{name.lower()}" for name in buffers), *(["so"] if any("so, " in line for line in lines) else [])]
    return HEAD.format(
        params=", ".join(f"{name.lower()}: T.handle" for name in buffers),
        strides="\n".join(f"    {name} = T.int32()" for name in names),
        buffers="\n".join(lines),
        reads=reads,
        writes=writes,
        body=body if body.startswith("\n") else "        " + body,
    )
