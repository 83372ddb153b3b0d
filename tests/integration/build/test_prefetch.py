"""Compiled models fetch weights ahead: exactly the next panel, at no cost to sums, with equal results."""

from __future__ import annotations

import itertools
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import quick

from tunesmith import metaschedule
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax, tirx  # noqa: E402
from tvm.s_tir import SBlockRealize  # noqa: E402

from workers.core.unmeasured_model import records, schedules  # noqa: E402
from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.build.local_model import LocalModel, default_preparation  # noqa: E402
from workers.tvm_backend.export import script  # noqa: E402

pytestmark = pytest.mark.parallel

PREFETCH = runpy.run_path(str(metaschedule.COMPILE_SCRIPT.with_name("prefetch.py")))
LINE = 64
NARROW = Target(quick({"mcpu": "znver4", "num-cores": 2}))
PLAIN = Target(quick({"mcpu": "x86-64-v3", "num-cores": 2}))
LARGE = (
    ("conv2d:1x128x14x14,256x128x3x3,s1,p1:bf16", NARROW),
    ("conv2d:1x512x14x14,512x512x1x1,s1,p0:int8", NARROW),
    ("gemm:128x1024x1024:bf16", NARROW),
)


def scheduled(spec: str, target: Target, folder: Path) -> tuple[LocalModel, Any]:
    """An operator with the schedules that are chosen without a measurement."""
    local = LocalModel(spec, {}, folder, default_preparation(spec, target))
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


def test_small_weights_and_other_processors_are_left_alone(tmp_path: Path) -> None:
    _, small = scheduled("conv2d:1x64x14x14,64x64x1x1,s1,p0:bf16", NARROW, tmp_path)
    changed = PREFETCH["with_prefetches"](small, tir.tvm_target(NARROW))
    assert PREFETCH["HELPER"] not in str(changed)
    _, large = scheduled(*LARGE[0], tmp_path)
    arm = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"})
    assert PREFETCH["with_prefetches"](large, arm).same_as(large)
