"""Texts of the intrinsics of a matrix unit: what clears a tile, adds a product to it, and writes it to memory.

One text serves all sizes: ``compile.py`` puts numbers in the place of ``{rows}`` and ``{steps}``. Numbers stand for
them here that occur nowhere else, because TVM parses no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS, SUMS
from workers.tvm_backend.dot.matrix import BLOCK_STEPS, COLUMNS, MAX_ROWS, MIN_ROWS, STEPS

ROWS, DEPTH = 7340033, 9437189
"""Numbers for the rows of a tile and the steps of its reduction."""

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
    BITS: f"{BITS_OF.format('A[vi, {lane}]')} * {BITS_OF.format('B[vk, vj, vp]')}",
    WEIGHTS: 'T.cast(A[vi, {lane}], "int32") * T.cast(B[vk, vj, vp], "int32")',
}
BYTES = {"float32": 4, "int32": 4, BITS: 2, WEIGHTS: 1}


def all_texts() -> dict[str, tuple[str, str, dict[str, list[int]]]]:
    """By the intrinsic's name with ``{rows}`` and ``{steps}``: its two texts, and the sizes that there are."""
    rows = list(range(MIN_ROWS, MAX_ROWS + 1))
    found: dict[str, tuple[str, str, dict[str, list[int]]]] = {}
    for weights, left, word in ((BITS, BITS, "bf16"), (WEIGHTS, "uint8", "i8")):
        sums, steps = SUMS[weights], list(STEPS[weights])
        both = {"rows": rows, "steps": steps}
        found[f"ts_amx_{sums}_zero_r{{rows}}_k{{steps}}"] = (*_zero(sums), both)
        found[f"ts_amx_{sums}_store_r{{rows}}"] = (*_store(sums), {"rows": rows})
        found[f"ts_amx_{word}_r{{rows}}_k{{steps}}"] = (*_adds(weights, left, word), both)
        for depth in BLOCK_STEPS[weights]:
            found[f"ts_amx_{word}_block_r{{rows}}_k{depth}"] = (*_adds(weights, left, word, depth), {"rows": rows})
    return found


def with_names(text: str) -> str:
    """A text of TVM's JSON with names for the sizes."""
    return text.replace(str(ROWS), "{rows}").replace(str(DEPTH), "{steps}")


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


def _adds(weights: str, left: str, word: str, block: int = 0) -> tuple[str, str]:
    """``block``: steps of a row of one dimension; 0 where what shares a lane has its own."""
    group, size, sums = GROUPS[weights], BYTES[weights], SUMS[weights]
    writes, lane = f"C[0:{ROWS}, 0:16]", f"vk * {group} + vp" if block else "vk, vp"
    depth = block or DEPTH
    steps = f"0:{depth * group}" if block else f"0:{depth}, 0:{group}"
    reads = f"{writes}, A[0:{ROWS}, {steps}], B[0:{depth}, 0:16, 0:{group}]"
    each = ADDS.format(rows=ROWS, steps=depth, group=group, product=PRODUCTS[weights].format(lane=lane))
    at = {"A": "0, 0" if block else "0, 0, 0", "B": "0, 0, 0"}
    operands = ", ".join(f'T.address_of({name}[{at[name]}]), T.cast(s{name.lower()} * {size}, "int64")' for name in at)
    call = f'T.evaluate(T.call_extern("void", "ts_amx_{word}", {TILE}, {IS_LEFTMOST}, {operands}))'
    buffers = {"A": left, "B": weights, "C": sums}
    shape = (f"({ROWS}, {depth * group})", "sa, 1") if block else (f"({ROWS}, {depth}, {group})", f"sa, {group}, 1")
    shapes = {"A": shape, "B": (f"({depth}, 16, {group})", f"sb, {group}, 1")}
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
    return HEAD.format(
        params=", ".join(f"{name.lower()}: T.handle" for name in buffers),
        strides="\n".join(f"    s{name.lower()} = T.int32()" for name in buffers),
        buffers="\n".join(lines),
        reads=reads,
        writes=writes,
        body=body if body.startswith("\n") else "        " + body,
    )
