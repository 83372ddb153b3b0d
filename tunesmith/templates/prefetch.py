"""Weights of a model come from memory in each run. Here scheduled functions get instructions that fetch them ahead.

A kernel computes tile after tile with one panel of weights: those of some blocks of output channels. Its first tile
waits for the panel, all others find it in a cache. With these instructions each tile also fetches a part of the next.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

LEAST_BYTES = 1 << 18
"""Smaller weights stay in a cache from one run to the next."""
LINE_BYTES = 64
MAX_LINES_AT_ONCE = 16
"""Lines that are fetched one right after the other, at most: a core has some dozens of fetches under way."""
MOST_STEPS = 4096
"""Most steps of a loop that goes from panel to panel: each step is looked at."""
IMPORT = "pragma_import_llvm"
HELPER = "tunesmith_prefetch"
# LLVM's own intrinsic is said to read memory: sums would go from registers to memory before each one.
TEXT = f"""
define void @{HELPER}(ptr %p) alwaysinline {{
  call void asm sideeffect "prefetcht1 ($0)", "r"(ptr %p) nounwind willreturn memory(inaccessiblemem: readwrite)
  ret void
}}
"""


class Panel(NamedTuple):
    """What a tile of a kernel fetches.

    Attributes:
        weights: the parameter.
        next: number of the next panel's first block.
        tile: number of the tile among those of its panel.
        lines: how many lines of the next panel each tile fetches.
    """

    weights: Any
    next: Any
    tile: Any
    lines: int


def with_prefetches(mod: Any, target: Any) -> Any:
    """The module whose scheduled functions fetch weights ahead, see :func:`prefetching`."""
    import tvm

    functions = dict(mod.functions.items())
    for var, function in mod.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and function.attrs and "tirx.is_scheduled" in function.attrs:
            functions[var] = prefetching(function, target)
    return tvm.IRModule(functions, attrs=mod.attrs)


def _is_x86(target: Any) -> bool:
    machine = str(target.attrs.get("mtriple", "")).partition("-")[0] or platform.machine()
    return "gpu" not in target.keys and machine in ("x86_64", "AMD64")


def prefetching(function: Any, target: Any) -> Any:
    """A scheduled function that fetches weights ahead; the same one where it has no panels of weights.

    Args:
        target: another processor than an x86 leaves the function as it is.
    """
    if not _is_x86(target):
        return function
    found = next(_reductions(function.body, []), None)
    if found is None:
        return function
    realize, loops = found
    if any(_value(loop.extent) is None for loop in loops):
        return function
    inside = _first_of_reduction(realize, loops)
    panels = [
        (_bytes(region.source), panel)
        for region in realize.block.reads
        if any(region.source.same_as(param) for param in function.params) and _bytes(region.source) >= LEAST_BYTES
        if (panel := _panel(region, realize, loops[:inside], loops[inside:])) is not None
    ]
    if not panels:
        return function
    _, panel = max(panels, key=lambda each: each[0])
    placed = _placed(panel, loops, inside)
    return function if placed is None else function.with_body(_rebuilt(function.body, loops[0], *placed))


def _reductions(stmt: Any, loops: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Blocks of a scheduled function that sum something up, with the loops around each, outermost first."""
    from tvm import tirx
    from tvm.s_tir import SBlockRealize

    if isinstance(stmt, tirx.For):
        yield from _reductions(stmt.body, [*loops, stmt])
    elif isinstance(stmt, tirx.SeqStmt):
        for each in stmt.seq:
            yield from _reductions(each, loops)
    elif isinstance(stmt, SBlockRealize) and not stmt.block.iter_vars:
        yield from _reductions(stmt.block.body, loops)
    elif isinstance(stmt, SBlockRealize) and _summed(stmt):
        yield stmt, loops


def _summed(realize: Any) -> list[Any]:
    """Values of a block's axes that are summed over."""
    from tvm.tirx import IterVar

    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return [value for axis, value in pairs if axis.iter_type == IterVar.CommReduce]


def _first_of_reduction(realize: Any, loops: Sequence[Any]) -> int:
    """How many loops are around the reduction."""
    summed = [var for value in _summed(realize) for var in _variables(value)]
    return next((at for at, loop in enumerate(loops) if _is_among(loop.loop_var, summed)), len(loops))


def _panel(region: Any, realize: Any, outer: Sequence[Any], inner: Sequence[Any]) -> Panel | None:
    """A region of weights as panels of whole blocks, which some loops of ``outer`` go through; None if it is not."""
    from tvm.sym import Analyzer

    bound = [(axis.var, value) for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)]
    first, *rest = (_with(each.min, bound) for each in region.region)
    around = [loop.loop_var for loop in outer if _value(loop.extent) != 1]
    if any(_is_among(var, around) for each in rest for var in _variables(each)):
        return None  # not whole blocks
    simplify = Analyzer().simplify
    start = simplify(_with(first, [(loop.loop_var, _number(0)) for loop in inner]))
    last = simplify(_with(first, [(loop.loop_var, loop.extent - 1) for loop in inner]))
    moved = [var for var in _variables(start) if _is_among(var, around)]
    steps = [at for at, loop in enumerate(outer) if _is_among(loop.loop_var, moved)]
    blocks = _value(simplify(last - start + region.region[0].extent))
    if not steps or blocks is None:
        return None
    loop, within = outer[steps[-1]], outer[steps[-1] + 1 :]
    if int(loop.extent) > MOST_STEPS:
        return None
    others = [(each.loop_var, _number(0)) for each in outer if not each.same_as(loop)]
    starts = [simplify(_with(start, [(loop.loop_var, _number(at)), *others])) for at in range(int(loop.extent))]
    run = _run([_value(each) for each in starts], blocks)
    if run is None:
        return None
    tile = loop.loop_var % run
    for each in within:
        tile = tile * each.extent + each.loop_var
    tiles = run * math.prod(int(each.extent) for each in within)
    lines = -(-blocks * _bytes(region.source) // int(region.source.shape[0]) // (tiles * LINE_BYTES))
    return Panel(region.source, simplify(_with(start, [(loop.loop_var, loop.loop_var + run)])), tile, lines)


def _run(starts: Sequence[int | None], blocks: int) -> int | None:
    """After how many steps of a loop the next panel begins; None where it does not go from panel to panel."""
    run = next((at for at, start in enumerate(starts) if start != starts[0]), None)
    if run is None or None in starts:
        return None
    pairs = list(zip(starts, starts[run:], strict=False))
    return run if all(there in (0, (here or 0) + blocks) for here, there in pairs) else None


def _placed(panel: Panel, loops: Sequence[Any], inside: int) -> tuple[Any, Any] | None:
    """A loop, and what comes at the end of its body; None where a tile cannot fetch its lines in small bursts.

    The end, since LLVM keeps sums in registers only if nothing that it does not know comes before they are stored.
    """
    from tvm import tirx

    at, steps, step = inside - 1, 1, _number(0)
    while -(-panel.lines // steps) > MAX_LINES_AT_ONCE or at < 0:
        at += 1
        if at == len(loops) or loops[at].kind != tirx.ForKind.SERIAL:
            return None
        steps, step = steps * int(loops[at].extent), step * loops[at].extent + loops[at].loop_var
    burst = -(-panel.lines // steps)
    lines = [step * burst + number for number in range(burst)]
    if steps * burst > panel.lines:
        lines = [tirx.min(line, _number(panel.lines - 1)) for line in lines]
    fetches = [_fetch(panel, panel.tile * panel.lines + line) for line in lines]
    return loops[at], tirx.SeqStmt(fetches) if len(fetches) > 1 else fetches[0]


def _fetch(panel: Panel, line: Any) -> Any:
    """The instruction for a line of the next panel."""
    from tvm import tirx

    values = LINE_BYTES // _item_bytes(panel.weights)
    inner = [_number(0)] * (len(panel.weights.shape) - 2)
    address = tirx.address_of(tirx.BufferLoad(panel.weights, [panel.next, *inner, line * values]))
    return tirx.Evaluate(tirx.call_extern("void", HELPER, address))


def _rebuilt(body: Any, outermost: Any, loop: Any, end: Any) -> Any:
    """A body in which ``loop`` has another end, and the outermost loop brings LLVM's text for it."""
    import tvm_ffi
    from tvm import tirx

    def rebuilt(each: Any) -> Any:
        if not _is_among(each.loop_var, (loop.loop_var, outermost.loop_var)):
            return each
        known = dict((each.annotations or {}).items())
        if each.loop_var.same_as(outermost.loop_var):
            known[IMPORT] = str(known.get(IMPORT, "")) + TEXT
        inner = tirx.SeqStmt([each.body, end]) if each.loop_var.same_as(loop.loop_var) else each.body
        return tirx.For(each.loop_var, each.min, each.extent, each.kind, inner, each.thread_binding, known)

    return tvm_ffi.structural_map(body, [(tirx.For, rebuilt)], order="post")


def _variables(expr: Any) -> list[Any]:
    import tvm_ffi
    from tvm.ir import Var

    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (Var, found.append))
    return found


def _is_among(variable: Any, others: Sequence[Any]) -> bool:
    return any(variable.same_as(other) for other in others)


def _with(expr: Any, values: Sequence[tuple[Any, Any]]) -> Any:
    """An expression with values in the places of variables."""
    import tvm_ffi
    from tvm.ir import Var

    def value(var: Any) -> Any:
        return next((new for old, new in values if old.same_as(var)), var)

    return tvm_ffi.structural_map(expr, [(Var, value)], order="post")


def _number(value: int) -> Any:
    from tvm import tirx

    return tirx.const(value, "int64")


def _value(expr: Any) -> int | None:
    """The number that an expression is; None where it is none."""
    value = getattr(expr, "value", None)
    return value if isinstance(value, int) else None


def _item_bytes(buffer: Any) -> int:
    import tvm

    return int(tvm.DataType(str(buffer.dtype)).bits) // 8


def _bytes(buffer: Any) -> int:
    """The size of a parameter; 0 where it is not known."""
    extents = [_value(extent) or 0 for extent in buffer.shape]
    return math.prod(extents) * _item_bytes(buffer)
