"""What a compiler made of a program, as columns for a ranker: counts of instructions in x86 assembly text.

The static model knows what a schedule asks for. Whether LLVM kept accumulators in registers, gathered elements one by
one or left a loop scalar is only in its code. The text is what LLVM prints (AT&T syntax); nothing is run. Of other
processors nothing is known, and all columns are NaN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.analysis.rows import PLACE as ROW
from tunesmith.analysis.rows import STATIC

Floats32 = NDArray[np.float32]

VERSION = "code/1"
"""Version of the columns: counts of another one mean something else."""

COUNTS = (
    "instructions",
    "products",
    "product_lanes",
    "loads",
    "stores",
    "stack",
    "gathered",
    "scattered",
    "shuffles",
    "spread",
    "scalar",
    "lanes",
    "calls",
    "jumps",
    "divided",
)
"""What is counted. ``lanes`` are elements of all arithmetic, ``product_lanes`` those of multiply-adds. ``stack`` are
accesses to it among the loads and stores, ``spread`` loads of one value for all lanes. Gathers, scatters, divisions and
roots count by their elements."""
AT = {name: place for place, name in enumerate(COUNTS)}
COLUMNS = (
    *(f"hot.{name}" for name in (*COUNTS, "depth")),
    *(f"all.{name}" for name in COUNTS),
    *(f"loops.{name}" for name in ("all", "inner", "depth")),
)
"""Counts of the innermost loop with most multiply-adds, and of the whole code; its loops."""

PLACE = {name: at for at, name in enumerate(COLUMNS)}
CYCLES = ("hot.cycles", "hot.product_cycles", "hot.lane_cycles")
AGAINST = ("static.products", "static.lanes")
FEATURES = (
    *(f"code.hot.{name}" for name in COUNTS),
    "code.hot.depth",
    *(f"code.{name}" for name in CYCLES),
    *(f"code.all.{name}" for name in COUNTS),
    *(f"code.{name}" for name in ("size", *COLUMNS[-3:])),
    *(f"code.{name}" for name in AGAINST),
)
"""What a ranker sees of counts. They are given for each element of arithmetic. Beside them are the cycles of the
hottest loop by a rule of thumb, in all and for each multiply-add and element. Last comes what all the work would take
at the hottest loop's rate, over the static model's estimate."""

REGISTERS = (("%zmm", 16), ("%ymm", 8), ("%xmm", 4))
"""Vector registers by their names, and the float32 elements that they hold."""
NARROW = (("vdpbf16", 2), ("vpdp", 4))
"""Instructions for products of narrow types, and how many products they make in a float32's place."""
SHUFFLES = (
    *("vperm", "vshuf", "vunpck", "vinsert", "vextract", "vmovddup", "vmovshdup", "vmovsldup", "vpunpck", "vblend"),
    *("valign", "vpalign", "vexpand", "vcompress", "vmovlhps", "vmovhlps", "vpbroadcast", "vbroadcast", "vpshuf"),
)
SIMPLE = ("vadd", "vsub", "vmul", "vmax", "vmin")
SLOW = ("vdiv", "vsqrt")
SINGLE = ("vmovss", "vinsertps")
COMPARES = ("cmp", "test", "vcomis", "vucomis")
NO_ACCESS = ("lea", "nop", "prefetch")

FUNCTION = re.compile(r"^\s*\.type\s+(\S+?),\s*@function")
LABEL = re.compile(r"^([^\s:]+):")
INSTRUCTION = re.compile(r"^\s+([a-z][a-z0-9]*)\b\s*(.*?)\s*(?:#.*)?$")
HELPERS = ("__trunc", "__extend", "__tvm_ffi", "__tvm_module")
"""Functions of LLVM and TVM that every library has."""


@dataclass(frozen=True)
class _Loop:
    """Instructions from ``first`` to ``last``, which jumps back."""

    first: int
    last: int

    def within(self, other: _Loop) -> bool:
        return other.first <= self.first and self.last <= other.last


def code_row(assembly: str) -> Floats32:
    """The columns of a program, float32 [columns]; NaN where the text has no x86 vector or scalar float arithmetic."""
    total, hot = np.zeros(len(COUNTS)), np.zeros(len(COUNTS) + 1)
    loops, innermost, deepest = 0, 0, 0
    for counts, found in _functions(assembly):
        total += counts[-1]
        loops += len(found)
        for loop in found:
            depth = sum(loop.within(other) for other in found)
            deepest = max(deepest, depth)
            if any(other != loop and other.within(loop) for other in found):
                continue
            innermost += 1
            hot = max(hot, np.append(counts[loop.last + 1] - counts[loop.first], depth), key=_heat)
    if not total[AT["lanes"]] and not total[AT["loads"]]:
        return np.full(len(COLUMNS), np.nan, dtype=np.float32)
    return np.concatenate([hot, total, [loops, innermost, deepest]]).astype(np.float32)


def features(counts: Floats32, rows: Floats32) -> Floats32:
    """What a ranker sees of programs' machine code, next to their decision rows, float32 [n, features].

    Args:
        counts: float32 [n, columns].
        rows: float32 [n, columns of ``tunesmith.analysis.rows``].
    """
    width = len(COUNTS)
    hot, every = counts[:, :width], counts[:, width + 1 : 2 * width + 1]
    lanes, products = (np.maximum(hot[:, AT[name]], 1.0) for name in ("lanes", "product_lanes"))
    cycles = _cycles(hot)
    made = np.maximum(every[:, AT["lanes"]], 1.0)[:, np.newaxis]
    work = rows[:, ROW["work.operations"]] + rows[:, ROW["parallel.uneven"]] - rows[:, ROW[STATIC]]
    parts = (
        hot / lanes[:, np.newaxis],
        counts[:, width],
        np.stack([cycles, cycles / products, cycles / lanes], axis=1),
        every / made,
        every[:, AT["instructions"]],
        counts[:, -3:],
        work + np.log2(cycles / products),
        work + np.log2(cycles / lanes),
    )
    return np.column_stack(parts).astype(np.float32)


def _cycles(counts: Floats32) -> Floats32:
    """Cycles of straight code by the usual limits of a core, float32 [n]; elements that are gathered come singly."""
    column = {name: counts[:, at] for name, at in AT.items()}
    limits = (
        column["products"] / 2 + (column["lanes"] - column["product_lanes"]) / 32,
        column["loads"] / 2,
        column["stores"],
        column["instructions"] / 5,
        column["shuffles"],
        np.full(len(counts), 0.5),
    )
    apart = column["gathered"] + column["scattered"] + 20 * column["calls"] + 0.7 * column["divided"]
    return np.asarray(np.maximum.reduce(limits) + apart, dtype=np.float32)


def _heat(counts: NDArray[np.float64]) -> tuple[float, ...]:
    """By what the hottest loop is found, as no trip counts are known."""
    return tuple(float(counts[AT[name]]) for name in ("product_lanes", "lanes", "instructions"))


def _functions(assembly: str) -> Iterator[tuple[NDArray[np.float64], Sequence[_Loop]]]:
    """A function's counts up to each instruction, float64 [instructions + 1, counts], and its loops."""
    named: set[str] = set()
    counts: list[NDArray[np.float64]] = []
    jumps: list[tuple[int, str]] = []
    labels: dict[str, int] = {}
    taken = False
    for line in assembly.splitlines():
        if found := FUNCTION.match(line):
            named.add(found[1])
        elif found := LABEL.match(line):
            if found[1] in named:
                yield _summed(counts), _loops(jumps, labels)
                counts, jumps, labels, taken = [], [], {}, not found[1].startswith(HELPERS)
            labels[found[1]] = len(counts)
        elif taken and (found := INSTRUCTION.match(line)):
            if found[1].startswith("j"):
                jumps.append((len(counts), found[2]))
            counts.append(_counted(found[1], found[2]))
    yield _summed(counts), _loops(jumps, labels)


def _summed(counts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.cumsum(np.stack([np.zeros(len(COUNTS)), *counts]), axis=0)


def _loops(jumps: Sequence[tuple[int, str]], labels: dict[str, int]) -> list[_Loop]:
    """Jumps to a label before them."""
    return sorted(
        {_Loop(labels[to], at) for at, to in jumps if labels.get(to, at + 1) <= at},
        key=lambda each: (each.first, each.last),
    )


def _counted(name: str, operands: str) -> NDArray[np.float64]:
    """What one instruction adds to the counts."""
    out = np.zeros(len(COUNTS))
    out[AT["instructions"]] = 1
    lanes = next((size for register, size in REGISTERS if register in operands), 0)
    if name.startswith(("vgather", "vscatter")):
        out[AT["gathered" if name.startswith("vgather") else "scattered"]] = lanes
    elif name.startswith("call"):
        out[AT["calls"]] = 1
    elif name.startswith("j"):
        out[AT["jumps"]] = 1
    else:
        _accesses(out, name, operands)
        _arithmetic(out, name, lanes)
    return out


def _accesses(out: NDArray[np.float64], name: str, operands: str) -> None:
    """The last operand is what is written."""
    if "(" not in operands:
        out[AT["shuffles"]] = name.startswith(SHUFFLES)
        return
    if name.startswith(NO_ACCESS):
        return
    stores = operands.endswith(")") and not name.startswith(COMPARES)
    out[AT["stores" if stores else "loads"]] = 1
    out[AT["stack"]] = "(%rsp" in operands or "(%rbp" in operands
    spread = "{1to" in operands or "broadcast" in name
    out[AT["spread"]] = spread
    out[AT["shuffles"]] = name.startswith(SHUFFLES) and not spread


def _arithmetic(out: NDArray[np.float64], name: str, lanes: int) -> None:
    narrow = next((times for start, times in NARROW if name.startswith(start)), 0)
    product = bool(narrow) or name.startswith(("vfm", "vfnm"))
    out[AT["scalar"]] = name in SINGLE
    if not (product or (name.startswith((*SIMPLE, *SLOW)) and name.endswith(("ps", "ss")))):
        return
    scalar = name.endswith("ss")
    elements = 1 if scalar else lanes * max(1, narrow)
    out[AT["scalar"]], out[AT["lanes"]] = scalar, elements
    if product:
        out[AT["products"]], out[AT["product_lanes"]] = 1, elements
    if name.startswith(SLOW):
        out[AT["divided"]] = elements
