"""Write ``tunesmith/templates/intrinsics.json`` anew: ``python -m tools.intrinsics``, for another TVM, say."""

from __future__ import annotations

import json
from typing import Any

from tunesmith import metaschedule
from workers.tvm_backend.dot.intrinsics import BY_NAME, NATIVE, Dot
from workers.tvm_backend.warm import warm

FUNCTION = """
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer((2,), "{left}", offset_factor=1),
    B: T.Buffer(({lanes}, 2), "uint16", offset_factor=1),
    C: T.Buffer(({lanes},), "float32", offset_factor=1, scope="local"),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:{lanes}], A[0:2], B[0:{lanes}, 0:2])
        T.writes(C[0:{lanes}])
{body}
"""
COMPUTES = """
        for i in T.serial(0, {lanes}):
            for k in T.serial(0, 2):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + {value} * T.reinterpret(
                        "float32", T.shift_left(T.cast(B[vi, vk], "uint32"), T.uint32(16))
                    )
"""
BY_INSTRUCTION = """
        C[T.ramp(0, 1, 16)] = T.call_pure_extern(
            "float32x16",
            "ts_dpbf16ps",
            C.vload([0], "float32x16"),
            T.broadcast(T.reinterpret("int32", A.vload([0], "uint16x2")), 16),
            T.reinterpret("int32x16", B.vload([0, 0], "uint16x32")),
        )
"""
WIDENED = 'T.reinterpret("float32", T.shift_left(T.cast(A[vk], "uint32"), T.uint32(16)))'
PRODUCT = 'T.broadcast(A[{at}], {{lanes}}) * T.reinterpret("float32x{{lanes}}", {half})'
B = 'T.reinterpret("uint32x{lanes}", B.vload([0, 0], "uint16x{both}"))'
HALVES = (
    f"T.shift_left({B}, T.broadcast(T.uint32(16), {{lanes}}))",
    f"T.bitwise_and({B}, T.broadcast(T.uint32(0xFFFF0000), {{lanes}}))",
)
"""The first value of a pair is the lower half of its lane; the second one is the lane without it."""


def main() -> None:
    """The command."""
    metaschedule.INTRINSICS.write_text(json.dumps(as_texts(), separators=(",", ":")) + "\n", encoding="utf-8")


def as_texts() -> dict[str, list[str]]:
    """TVM's JSON of each intrinsic: what it computes, and how."""
    warm("llvm")
    return {name: [_json(dot, COMPUTES), _json(dot, _implementation(dot))] for name, dot in BY_NAME.items()}


def _implementation(dot: Dot) -> str:
    if dot is NATIVE:
        return BY_INSTRUCTION
    products = (PRODUCT.format(at=at, half=half) for at, half in enumerate(HALVES))
    return '\n        C[T.ramp(0, 1, {lanes})] = C.vload([0], "float32x{lanes}") + ' + " + ".join(products)


def _json(dot: Dot, body: str) -> str:
    import tvm
    from tvm.script import from_source

    left, value = ("uint16", WIDENED) if dot is NATIVE else ("float32", "A[vk]")
    sizes = {"lanes": dot.lanes, "both": 2 * dot.lanes, "left": left, "value": value}
    function: Any = from_source(FUNCTION.format(body=body.format(**sizes), **sizes))
    return json.dumps(json.loads(tvm.ir.save_json(function)), separators=(",", ":"))


if __name__ == "__main__":
    main()
