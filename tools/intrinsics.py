"""Write ``tunesmith/templates/intrinsics.json`` anew: ``python -m tools.intrinsics``, for another TVM, say."""

from __future__ import annotations

import json
from typing import Any

from tools import intrinsics_of_rows, intrinsics_of_tiles
from tunesmith import metaschedule
from workers.tvm_backend.dot.codes import CODES, WEIGHTS
from workers.tvm_backend.dot.intrinsics import (
    ALL,
    HALVED_QUADS,
    PAIRS,
    QUADS,
    ROUNDING,
    ROW_WORDS,
    SUMS,
    TURNED_HALVED_QUADS,
    TURNED_QUADS,
    WIDENED_PAIRS,
    Dot,
)
from workers.tvm_backend.warm import warm

FUNCTION = """
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer(({group},), "{left}", offset_factor=1),
    B: T.Buffer(({lanes}, {group}), "{weights}", offset_factor=1),
    C: T.Buffer(({lanes},), "{sums}", offset_factor=1, scope="local"),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:{lanes}], A[0:{group}], B[0:{lanes}, 0:{group}])
        T.writes(C[0:{lanes}])
{body}
"""
COMPUTES = """
        for i in T.serial(0, {lanes}):
            for k in T.serial(0, {group}):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + {product}
"""
BITS_OF_A = 'T.reinterpret("float32", T.shift_left(T.cast(A[vk], "uint32"), T.uint32(16)))'
BITS_OF_B = 'T.reinterpret("float32", T.shift_left(T.cast(B[vi, vk], "uint32"), T.uint32(16)))'
BYTES = 'T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")'

STORED = '\n        C[T.ramp(0, 1, {lanes})] = C.vload([0], "{sums}x{lanes}") + '
"""To which a sum of products is added."""
PAIRS_BY_INSTRUCTION = """
        C[T.ramp(0, 1, 16)] = T.call_pure_extern(
            "float32x16",
            "ts_dpbf16ps",
            C.vload([0], "float32x16"),
            T.broadcast(T.reinterpret("int32", A.vload([0], "uint16x2")), 16),
            T.reinterpret("int32x16", B.vload([0, 0], "uint16x32")),
        )
"""
WIDE_PRODUCT = 'T.broadcast(A[{at}], {{lanes}}) * T.reinterpret("float32x{{lanes}}", {half})'
WIDE_B = 'T.reinterpret("uint32x{lanes}", B.vload([0, 0], "uint16x{all}"))'
PARTS_OF_PAIRS = (
    f"T.shift_left({WIDE_B}, T.broadcast(T.uint32(16), {{lanes}}))",
    f"T.bitwise_and({WIDE_B}, T.broadcast(T.uint32(0xFFFF0000), {{lanes}}))",
)
"""The first value of a pair is the lower half of its lane; the second one is the lane without it."""

QUAD = 'T.broadcast(T.reinterpret("int32", A.vload([0], "{left}x4")), {lanes})'
BYTES_OF_A, BYTES_OF_B = f'T.reinterpret("{{left}}x{{all}}", {QUAD})', 'B.vload([0, 0], "{weights}x{all}")'
QUADS_BY_INSTRUCTION = """
        C[T.ramp(0, 1, {{lanes}})] = T.call_pure_extern(
            "int32x{{lanes}}",
            "llvm.x86.avx512.vpdpbusd.{{bits}}",
            C.vload([0], "int32x{{lanes}}"),
            {codes},
            {signed},
        )
"""
"""By name: LLVM's numbers of intrinsics differ between its versions. The instruction takes codes first."""
MULTIPLY_PAIRS = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
"""By lanes: the sum of both products of 16-bit numbers, as 32 bits."""
HALF = 'T.call_pure_extern("int32x{{lanes}}", "{{pmadd}}", {a}, {b})'
EIGHT = "T.broadcast(T.int16(8), {halves})"
HALVES_OF_A = f'T.reinterpret("int16x{{halves}}", {QUAD})'
HALVES_OF_B = 'T.reinterpret("int16x{halves}", B.vload([0, 0], "{weights}x{all}"))'


def _halves(quads: str, dtype: str) -> tuple[str, str]:
    """The first and third, and the second and fourth byte of each quad as 16-bit numbers; weights have a sign."""
    if dtype == WEIGHTS:
        return f"T.shift_right(T.shift_left({quads}, {EIGHT}), {EIGHT})", f"T.shift_right({quads}, {EIGHT})"
    second = f'T.shift_right(T.reinterpret("uint16x{{halves}}", {quads}), T.broadcast(T.uint16(8), {{halves}}))'
    return (
        f"T.bitwise_and({quads}, T.broadcast(T.int16(255), {{halves}}))",
        f'T.reinterpret("int16x{{halves}}", {second})',
    )


PLAIN_PRODUCT = 'T.broadcast(T.cast(A[{at}], "int32"), {{lanes}}) * {byte}'


def _byte(at: int, dtype: str) -> str:
    """A byte of each quad of B as a 32-bit number."""
    kind = "int32" if dtype == WEIGHTS else "uint32"
    lanes = f'T.reinterpret("{kind}x{{lanes}}", B.vload([0, 0], "{{weights}}x{{all}}"))'
    left, right = (f"T.broadcast(T.{kind}({by}), {{lanes}})" for by in (24 - 8 * at, 24))
    found = f"T.shift_right(T.shift_left({lanes}, {left}), {right})"
    return found if dtype == WEIGHTS else f'T.reinterpret("int32x{{lanes}}", {found})'


ROUNDS = """
@T.prim_func(s_tir=True)
def main(
    C: T.Buffer(({lanes},), "float32", offset_factor=1, scope="local"),
    D: T.Buffer(({lanes},), "uint16", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:{lanes}])
        T.writes(D[0:{lanes}])
{body}
"""
EACH_ROUNDED = """
        for i in T.serial(0, {lanes}):
            with T.sblock("round"):
                vi = T.axis.spatial({lanes}, i)
                D[vi] = T.Cast("uint16", T.Select(
                    T.uint32(0x7F800000) < T.bitwise_and(T.reinterpret("uint32", C[vi]), T.uint32(0x7FFFFFFF)),
                    T.uint32(0x7FC0),
                    T.shift_right(
                        T.reinterpret("uint32", C[vi])
                        + T.bitwise_and(
                            T.shift_right(T.reinterpret("uint32", C[vi]), T.uint32(16)), T.uint32(1)
                        )
                        + T.uint32(0x7FFF),
                        T.uint32(16),
                    ),
                ))
"""
ALL_ROUNDED = """
        D[T.ramp(0, 1, {lanes})] = T.call_pure_extern(
            "uint16x{lanes}", "ts_bf16_round", C.vload([0], "float32x{lanes}")
        )
"""
BOTH = EACH_ROUNDED, ALL_ROUNDED


def main() -> None:
    """The command."""
    text = json.dumps(as_texts(), separators=(",", ":"))
    short = text.replace(metaschedule.ESCAPED_QUOTE, metaschedule.QUOTE)
    metaschedule.INTRINSICS.write_text(f"{short}\n", encoding="utf-8")


def as_texts() -> dict[str, list[Any]]:
    """TVM's JSON of each intrinsic: what it computes, and how; and the sizes of one that serves several."""
    warm("llvm")
    rows = {dot.name: [_text(each) for each in intrinsics_of_rows.texts(dot)] for dot in ROW_WORDS}
    tiles = {
        name: [*(intrinsics_of_tiles.with_names(_text(each)) for each in texts), sizes]
        for name, (*texts, sizes) in intrinsics_of_tiles.all_texts().items()
    }
    rounds = [_text(ROUNDS.format(lanes=ROUNDING.lanes, body=body.format(lanes=ROUNDING.lanes))) for body in BOTH]
    dots = {dot.name: [_json(dot, COMPUTES), _json(dot, _implementation(dot))] for dot in ALL}
    return _once(dots | rows | {ROUNDING.name: rounds} | tiles)


def _once(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Texts of what is computed, of equal ones all but the first by the name of that."""
    first: dict[str, str] = {}
    return {
        name: [what if (same := first.setdefault(what, name)) == name else same, *rest]
        for name, (what, *rest) in found.items()
    }


def _implementation(dot: Dot) -> str:
    if dot is PAIRS:
        return PAIRS_BY_INSTRUCTION
    codes_first = dot.left == CODES
    if dot in (*QUADS, *TURNED_QUADS):
        codes, signed = (BYTES_OF_A, BYTES_OF_B) if codes_first else (BYTES_OF_B, BYTES_OF_A)
        return QUADS_BY_INSTRUCTION.format(codes=codes, signed=signed)
    if dot in WIDENED_PAIRS:
        products = [WIDE_PRODUCT.format(at=at, half=half) for at, half in enumerate(PARTS_OF_PAIRS)]
    elif dot in (*HALVED_QUADS, *TURNED_HALVED_QUADS):
        halves = zip(_halves(HALVES_OF_A, dot.left), _halves(HALVES_OF_B, dot.weights), strict=True)
        products = [HALF.format(a=a, b=b) for a, b in halves]
    else:
        products = [PLAIN_PRODUCT.format(at=at, byte=_byte(at, dot.weights)) for at in range(dot.group)]
    return STORED + " + ".join(products)


def _product(dot: Dot) -> str:
    if dot.group == 4:
        return BYTES
    return f"{'A[vk]' if dot.widened else BITS_OF_A} * {BITS_OF_B}"


def _json(dot: Dot, body: str) -> str:
    words = {
        "lanes": dot.lanes,
        "halves": 2 * dot.lanes,
        "all": dot.group * dot.lanes,
        "bits": 32 * dot.lanes,
        "group": dot.group,
        "left": dot.left,
        "weights": dot.weights,
        "sums": SUMS[dot.weights],
        "product": _product(dot),
        "pmadd": MULTIPLY_PAIRS.get(dot.lanes, ""),
    }
    return _text(FUNCTION.format(body=body.format(**words), **words))


def _text(source: str) -> str:
    import tvm
    from tvm.script import from_source

    function: Any = from_source(source)
    return json.dumps(json.loads(tvm.ir.save_json(function)), separators=(",", ":"))


if __name__ == "__main__":
    main()
