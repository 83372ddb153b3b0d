"""Kernels for CPUs with instructions for narrow products, run on a CPU without: other LLVM code takes their place."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.s_tir import Schedule

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import WEIGHTS
from workers.tvm_backend.dot.intrinsics import DPBF16PS, ROUND
from workers.tvm_backend.dot.matrix import helper

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


UNIT = """
@rows = internal thread_local global i32 0
@steps = internal thread_local global i32 0
@sums = internal thread_local global [6 x [16 x <16 x i32>]] zeroinitializer
@left = internal thread_local global [16 x [16 x i32]] zeroinitializer
define void @ts_amx_zero(i8 %t, i32 %r, i32 %s) {
  store i32 %r, ptr @rows
  store i32 %s, ptr @steps
  %n = zext i8 %t to i64
  %at = getelementptr [6 x [16 x <16 x i32>]], ptr @sums, i64 0, i64 %n
  store [16 x <16 x i32>] zeroinitializer, ptr %at
  ret void
}
define void @ts_amx_store(i8 %t, ptr %c, i64 %stride) {
  %n = zext i8 %t to i64
  %rows32 = load i32, ptr @rows
  %all = zext i32 %rows32 to i64
  br label %row
row:
  %r = phi i64 [0, %0], [%next, %row]
  %from = getelementptr [6 x [16 x <16 x i32>]], ptr @sums, i64 0, i64 %n, i64 %r
  %value = load <16 x i32>, ptr %from
  %by = mul i64 %r, %stride
  %to = getelementptr i8, ptr %c, i64 %by
  store <16 x i32> %value, ptr %to, align 4
  %next = add i64 %r, 1
  %more = icmp ult i64 %next, %all
  br i1 %more, label %row, label %done
done:
  ret void
}
define void @FUNCTION(i8 %t, i32 %first, ptr %a, i64 %as, ptr %b, i64 %bs) {
  %n = zext i8 %t to i64
  %rows32 = load i32, ptr @rows
  %all = zext i32 %rows32 to i64
  %steps32 = load i32, ptr @steps
  %depth = zext i32 %steps32 to i64
  %bytes = mul i64 %depth, 4
  %fresh = icmp ne i32 %first, 0
  br i1 %fresh, label %load, label %row
load:
  %l = phi i64 [0, %0], [%lnext, %load]
  %lby = mul i64 %l, %as
  %lfrom = getelementptr i8, ptr %a, i64 %lby
  %lto = getelementptr [16 x [16 x i32]], ptr @left, i64 0, i64 %l
  call void @llvm.memcpy.p0.p0.i64(ptr %lto, ptr %lfrom, i64 %bytes, i1 false)
  %lnext = add i64 %l, 1
  %lmore = icmp ult i64 %lnext, %all
  br i1 %lmore, label %load, label %row
row:
  %r = phi i64 [0, %0], [0, %load], [%rnext, %rend]
  %sum = getelementptr [6 x [16 x <16 x i32>]], ptr @sums, i64 0, i64 %n, i64 %r
  br label %step
step:
  %k = phi i64 [0, %row], [%knext, %step]
  %xat = getelementptr [16 x [16 x i32]], ptr @left, i64 0, i64 %r, i64 %k
  %x = load i32, ptr %xat
  %x0 = insertelement <16 x i32> poison, i32 %x, i32 0
  %xs = shufflevector <16 x i32> %x0, <16 x i32> poison, <16 x i32> zeroinitializer
  %kby = mul i64 %k, %bs
  %yat = getelementptr i8, ptr %b, i64 %kby
  %ys = load <16 x i32>, ptr %yat, align 1
  %before = load <16 x i32>, ptr %sum
PRODUCT
  store <16 x i32> %after, ptr %sum
  %knext = add i64 %k, 1
  %kmore = icmp ult i64 %knext, %depth
  br i1 %kmore, label %step, label %rend
rend:
  %rnext = add i64 %r, 1
  %rmore = icmp ult i64 %rnext, %all
  br i1 %rmore, label %row, label %done
done:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
PRODUCTS = {
    BITS: """  %f = bitcast <16 x i32> %before to <16 x float>
  %g = call <16 x float> @ts_dpbf16ps(<16 x float> %f, <16 x i32> %xs, <16 x i32> %ys)
  %after = bitcast <16 x float> %g to <16 x i32>""",
    WEIGHTS: f"""  %xb = bitcast <16 x i32> %xs to <64 x i8>
  %yb = bitcast <16 x i32> %ys to <64 x i8>
  %after = call <16 x i32> @{NAME}(<16 x i32> %before, <64 x i8> %xb, <64 x i8> %yb)""",
}
UNITS = {
    helper(BITS): PAIRS + UNIT.replace("FUNCTION", "ts_amx_bf16").replace("PRODUCT", PRODUCTS[BITS]),
    helper(WEIGHTS): QUADS + UNIT.replace("FUNCTION", "ts_amx_i8").replace("PRODUCT", PRODUCTS[WEIGHTS]),
}
"""Matrix units, by the text of the real one."""


ROUNDED = """
define <16 x i16> @ts_bf16_round(<16 x float> %x) alwaysinline {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %high = lshr <16 x i32> %bits, splat (i32 16)
  %odd = and <16 x i32> %high, splat (i32 1)
  %half = add <16 x i32> %odd, splat (i32 32767)
  %sum = add <16 x i32> %bits, %half
  %near = lshr <16 x i32> %sum, splat (i32 16)
  %quiet = or <16 x i32> %high, splat (i32 64)
  %none = fcmp uno <16 x float> %x, zeroinitializer
  %r = select <16 x i1> %none, <16 x i32> %quiet, <16 x i32> %near
  %b = trunc <16 x i32> %r to <16 x i16>
  ret <16 x i16> %b
}
"""
"""Without AVX-512 LLVM calls a function that not every C library has."""


def emulated(mod: tvm.IRModule) -> tvm.IRModule:
    """A scheduled module whose instructions are code that any CPU runs."""
    text = tvm.ir.save_json(mod)
    for real, code in {DPBF16PS: PAIRS, ROUND: ROUNDED, **UNITS}.items():
        text = text.replace(json.dumps(real)[1:-1], json.dumps(code)[1:-1])
    text = text.replace(VPDPBUSD, NAME)
    made: Any = tvm.ir.load_json(text)
    if NAME in text:
        sch = Schedule(made)
        block = sch.get_child_blocks(sch.get_sblock("root"))[-1]
        sch.annotate(sch.get_loops(block)[0], IMPORT, QUADS)
        return sch.mod
    return made
