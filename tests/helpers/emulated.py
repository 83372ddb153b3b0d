"""Kernels for CPUs with instructions for narrow products, run on a CPU without: other LLVM code takes their place."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.s_tir import Schedule

from workers.tvm_backend.dot.intrinsics import DPBF16PS

IMPORT = "pragma_import_llvm"
VPDPBUSD, NAME = "llvm.x86.avx512.vpdpbusd.512", "emulated_vpdpbusd"
PAIRS = """
define <16 x float> @ts_dpbf16ps(<16 x float> %c, <16 x i32> %a, <16 x i32> %b) alwaysinline {
  %al = shl <16 x i32> %a, splat (i32 16)
  %bl = shl <16 x i32> %b, splat (i32 16)
  %ah = and <16 x i32> %a, splat (i32 -65536)
  %bh = and <16 x i32> %b, splat (i32 -65536)
  %fal = bitcast <16 x i32> %al to <16 x float>
  %fbl = bitcast <16 x i32> %bl to <16 x float>
  %fah = bitcast <16 x i32> %ah to <16 x float>
  %fbh = bitcast <16 x i32> %bh to <16 x float>
  %l = fmul <16 x float> %fal, %fbl
  %h = fmul <16 x float> %fah, %fbh
  %s = fadd <16 x float> %l, %h
  %r = fadd <16 x float> %c, %s
  ret <16 x float> %r
}
"""
QUADS = (
    f"""
define <16 x i32> @{NAME}(<16 x i32> %c, <64 x i8> %a, <64 x i8> %b) alwaysinline {{
  %x = zext <64 x i8> %a to <64 x i32>
  %y = sext <64 x i8> %b to <64 x i32>
  %p = mul <64 x i32> %x, %y
"""
    + "".join(
        f"  %p{at} = shufflevector <64 x i32> %p, <64 x i32> poison, <16 x i32> <"
        + ", ".join(f"i32 {4 * lane + at}" for lane in range(16))
        + ">\n"
        for at in range(4)
    )
    + """  %s0 = add <16 x i32> %c, %p0
  %s1 = add <16 x i32> %s0, %p1
  %s2 = add <16 x i32> %s1, %p2
  %s3 = add <16 x i32> %s2, %p3
  ret <16 x i32> %s3
}
"""
)


def emulated(mod: tvm.IRModule) -> tvm.IRModule:
    """A scheduled module whose instructions are code that any CPU runs."""
    text = tvm.ir.save_json(mod).replace(json.dumps(DPBF16PS)[1:-1], json.dumps(PAIRS)[1:-1]).replace(VPDPBUSD, NAME)
    made: Any = tvm.ir.load_json(text)
    if NAME in text:
        sch = Schedule(made)
        block = sch.get_child_blocks(sch.get_sblock("root"))[-1]
        sch.annotate(sch.get_loops(block)[0], IMPORT, QUADS)
        return sch.mod
    return made
