"""Compiled models fetch weights ahead: exactly the next panel, at no cost to sums, with equal results."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import quick

from tunesmith import metaschedule
from tunesmith.options import JobOptions
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax, te, tirx  # noqa: E402
from tvm.s_tir import SBlockRealize  # noqa: E402
from tvm.script import from_source  # noqa: E402

from workers.core.unmeasured_model import records, schedules  # noqa: E402
from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.build.builder import fetching_ahead  # noqa: E402
from workers.tvm_backend.build.local_model import LocalModel, default_preparation  # noqa: E402
from workers.tvm_backend.export import script  # noqa: E402

pytestmark = pytest.mark.parallel

PREFETCH = script().PREFETCH
LINE = 64
NARROW = Target(quick({"mcpu": "znver4", "num-cores": 2}))
PLAIN = Target(quick({"mcpu": "x86-64-v3", "num-cores": 2}))
LARGE = (
    ("conv2d:1x128x14x14,256x128x3x3,s1,p1:bf16", NARROW),
    ("conv2d:1x512x14x14,512x512x1x1,s1,p0:int8", NARROW),
    ("gemm:128x1024x1024:bf16", NARROW),
)


DIRECT = JobOptions(winograd=False)
"""Weights between Winograd's transforms are not fetched ahead."""
PANELS = """
@T.prim_func(s_tir=True)
def main(
    x: T.Buffer((8, 512), "float32"), w: T.Buffer((16, 512, 16), "float32"), y: T.Buffer((8, 256), "float32")
):
    T.func_attr({"tirx.is_scheduled": True})
    last = T.sblock_alloc_buffer((1,), "int32")
    with T.sblock("last"):
        T.reads()
        T.writes(last[0])
        last[0] = 511
    for panel in T.parallel(16):
        for row, step, lane in T.grid(8, 512, 16):
            with T.sblock("product"):
                i, k, j = T.axis.remap("SRS", [row, step, lane])
                p = T.axis.spatial(16, panel)
                T.reads(x[i, last[0] - k], last[0], w[p, k, j])
                T.writes(y[i, p * 16 + j])
                with T.init():
                    y[i, p * 16 + j] = T.float32(0.0)
                y[i, p * 16 + j] = y[i, p * 16 + j] + x[i, last[0] - k] * w[p, k, j]
"""


def scheduled(spec: str, target: Target, folder: Path) -> tuple[LocalModel, Any]:
    """An operator with the schedules that are chosen without a measurement."""
    local = LocalModel(spec, {}, folder, default_preparation(spec, target, DIRECT))
    metaschedule.write_database(folder / "database", records(schedules(local.module, target, None), target))
    mod, tuned, _ = script().apply_schedules(tir.load_module(local.module), tir.tvm_target(target), folder / "database")
    assert tuned
    return local, mod


def main_of(mod: Any) -> Any:
    """The function that fetches; no other one does."""
    changed = PREFETCH["with_prefetches"](mod, tvm.target.Target("llvm"))
    (found,) = [each for each in changed.functions.values() if PREFETCH["HELPER"] in str(each)]
    return found


def fetches(stmt: Any, loops: list[Any]) -> Any:
    """The addresses that a function fetches, each with the loops around it."""
    if isinstance(stmt, tirx.For):
        yield from fetches(stmt.body, [*loops, stmt])
    elif isinstance(stmt, tirx.SeqStmt):
        for each in stmt.seq:
            yield from fetches(each, loops)
    elif isinstance(stmt, SBlockRealize) and not stmt.block.iter_vars:
        yield from fetches(stmt.block.body, loops)
    elif isinstance(stmt, tirx.Evaluate) and PREFETCH["HELPER"] in str(stmt):
        yield stmt.value.args[-1].args[0], loops


def lines_by_panel(function: Any) -> dict[int, set[int]]:
    """By number of a block: the lines behind it that are fetched while the panel before it is in use."""
    found: dict[int, set[int]] = {}
    for load, loops in fetches(function.body, []):
        first, *_, last = (str(index) for index in load.indices)
        item = tvm.DataType(str(load.source.dtype)).bits // 8
        code = compile(f"({first}, {last})", "indices", "eval")
        for at in itertools.product(*(range(int(loop.extent)) for loop in loops)):
            names = {str(loop.loop_var): value for loop, value in zip(loops, at, strict=True)}
            block, value = eval(code, {"T": SimpleNamespace(int64=int, min=min), **names})  # indices of TVM's own
            found.setdefault(block, set()).add(value * item // LINE)
    return found


@pytest.mark.parametrize(("spec", "target"), LARGE)
def test_tiles_of_a_panel_fetch_the_next_one(spec: str, target: Target, tmp_path: Path) -> None:
    _, mod = scheduled(spec, target, tmp_path)
    function = main_of(mod)
    (weights,) = {load.source for load, _ in fetches(function.body, [])}
    item = tvm.DataType(str(weights.dtype)).bits // 8
    blocks = int(weights.shape[0])
    block_lines = int(np.prod([int(extent) for extent in weights.shape[1:]])) * item // LINE
    found = lines_by_panel(function)
    panel = min(found)
    assert blocks % panel == 0
    assert sorted(found) == list(range(panel, blocks + 1, panel))
    for lines in found.values():
        wanted = set(range(panel * block_lines))
        assert wanted <= lines
        assert len(lines - wanted) <= len(wanted) / 4, "beyond the panel's end, since tiles fetch whole lines"


def test_sums_stay_in_registers(tmp_path: Path) -> None:
    spec, target = LARGE[0]
    local, mod = scheduled(spec, target, tmp_path)
    changed = PREFETCH["with_prefetches"](mod, tir.tvm_target(target))
    plain, ahead = (assembly(each, local, target) for each in (mod, changed))
    assert "prefetcht1" in ahead
    assert "prefetcht1" not in plain
    stores = re.compile(r"vmovu?a?p[sd]\s+%[yz]mm\d+, [^%\n]*\(")
    assert len(stores.findall(ahead)) == len(stores.findall(plain))


def assembly(mod: Any, local: LocalModel, target: Target) -> str:
    """The code of a module's functions."""
    made = built(script().bind_params(mod, local.params), tir.tvm_target(target))
    return str(made.mod.imports[0].inspect_source("asm"))


def test_results_are_equal(tmp_path: Path) -> None:
    local, mod = scheduled("conv2d:1x512x14x14,512x512x1x1,s1,p0:bf16", PLAIN, tmp_path)
    bound = script().bind_params(mod, local.params)
    target = tir.tvm_target(PLAIN)
    ahead = PREFETCH["with_prefetches"](bound, target)
    assert PREFETCH["HELPER"] in str(ahead)
    x = np.random.default_rng(0).standard_normal((1, 512, 14, 14)).astype("float32")
    np.testing.assert_array_equal(*(run(built(each, target), x) for each in (bound, ahead)))


def run(executable: Any, x: Any) -> Any:
    return relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()


def built(mod: Any, target: Any) -> Any:
    """The module compiled as it is."""
    return relax.build(mod, target=target, relax_pipeline=relax.get_pipeline("default_build"))


def test_a_function_may_begin_with_anything() -> None:
    mod = tvm.IRModule({"main": from_source(PANELS)})
    ahead = PREFETCH["with_prefetches"](mod, tir.tvm_target(PLAIN))
    assert PREFETCH["HELPER"] in str(ahead)
    x, w = (np.random.default_rng(0).standard_normal(each).astype("float32") for each in ((8, 512), (16, 512, 16)))
    y = tvm.runtime.tensor(np.zeros((8, 256), "float32"))
    tvm.compile(ahead, target=tir.tvm_target(PLAIN))["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w), y)
    np.testing.assert_allclose(y.numpy(), x[:, ::-1] @ w.transpose(1, 0, 2).reshape(512, 256), rtol=1e-4, atol=1e-3)


def test_fixed_extents_alone_are_understood() -> None:
    x, w = te.placeholder((te.var("n", "int64"), 512)), te.placeholder((16, 512, 16))
    k = te.reduce_axis((0, 512))
    y = te.compute((x.shape[0], 16, 16), lambda i, p, j: te.sum(x[i, k] * w[p, k, j], axis=k))
    function = te.create_prim_func([x, w, y])
    assert PREFETCH["prefetching"](function, tir.tvm_target(PLAIN)).same_as(function)


def test_small_weights_and_other_processors_are_left_alone(tmp_path: Path) -> None:
    _, small = scheduled("conv2d:1x64x14x14,64x64x1x1,s1,p0:bf16", NARROW, tmp_path)
    changed = PREFETCH["with_prefetches"](small, tir.tvm_target(NARROW))
    assert PREFETCH["HELPER"] not in str(changed)
    _, large = scheduled(*LARGE[0], tmp_path)
    arm = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"})
    assert PREFETCH["HELPER"] not in str(PREFETCH["with_prefetches"](large, arm))


def test_candidates_fetch_ahead_without_a_mark_of_a_database(tmp_path: Path) -> None:
    _, mod = scheduled(*LARGE[0], tmp_path)
    function = next(each for var, each in mod.functions.items() if "conv2d_pairs" in str(var.name_hint))
    replayed = tvm.IRModule({"main": function.without_attr("tirx.is_scheduled")})
    target = tir.tvm_target(NARROW)
    assert PREFETCH["HELPER"] not in str(PREFETCH["with_prefetches"](replayed, target))
    assert PREFETCH["HELPER"] in str(fetching_ahead(replayed, target))
