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
    A: T.Buffer((2,), "uint16", offset_factor=1),
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
                    C[vi] = C[vi] + T.reinterpret(
                        "float32", T.shift_left(T.cast(A[vk], "uint32"), T.uint32(16))
                    ) * T.reinterpret("float32", T.shift_left(T.cast(B[vi, vk], "uint32"), T.uint32(16)))
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
A, B = (
    'T.broadcast(T.reinterpret("uint32", A.vload([0], "uint16x2")), {lanes})',
    'T.reinterpret("uint32x{lanes}", B.vload([0, 0], "uint16x{both}"))',
)
LOW, HIGH = (
    "T.shift_left({}, T.broadcast(T.uint32(16), {{lanes}}))",
    "T.bitwise_and({}, T.broadcast(T.uint32(0xFFFF0000), {{lanes}}))",
)
"""The first value of a pair is the lower half of its lane; the second one is the lane without it."""


def main() -> None:
    """The command."""
    warm("llvm")
    texts = {name: [_json(dot, COMPUTES), _json(dot, _implementation(dot))] for name, dot in BY_NAME.items()}
    metaschedule.INTRINSICS.write_text(json.dumps(texts, separators=(",", ":")) + "\n", encoding="utf-8")


def _implementation(dot: Dot) -> str:
    if dot is NATIVE:
        return BY_INSTRUCTION
    products = (
        " * ".join('T.reinterpret("float32x{lanes}", ' + half.format(side) + ")" for side in (A, B))
        for half in (LOW, HIGH)
    )
    return '\n        C[T.ramp(0, 1, {lanes})] = C.vload([0], "float32x{lanes}") + ' + " + ".join(products)


def _json(dot: Dot, body: str) -> str:
    import tvm
    from tvm.script import from_source

    sizes = {"lanes": dot.lanes, "both": 2 * dot.lanes}
    function: Any = from_source(FUNCTION.format(body=body.format(**sizes), **sizes))
    return json.dumps(json.loads(tvm.ir.save_json(function)), separators=(",", ":"))


if __name__ == "__main__":
    main()
