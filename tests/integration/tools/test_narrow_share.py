"""Reading the assembly of a library: what belongs to a function, and what its products run on."""

from __future__ import annotations

import pair_tasks
import rule_checks

import tvm  # isort: skip

from tools.narrow import NARROW, functions, multiply_adds
from tunesmith.targets import Target
from workers.tvm_backend import tir

SAPPHIRE = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})


def test_a_function_has_the_code_of_its_threads_and_no_others() -> None:
    task = pair_tasks.dense((64,), 4, 32)
    mods = [mod for mod in rule_checks.scheduled(task, SAPPHIRE, 1) if "ts_amx" in str(tvm.ir.save_json(mod))]
    plain = tir.load_module(task.module)["main"]
    made = {"ours": mods[0]["main"], "plain": plain}
    both = tvm.IRModule({name: made[name].with_attr("global_symbol", name) for name in made})
    text = str(tvm.compile(both, target=tir.tvm_target(SAPPHIRE)).mod.inspect_source("asm"))
    found = {name: bool(NARROW.search(code)) for name, code in functions(text)}
    assert found == {"ours": True, "plain": False}


def test_multiply_adds_are_those_of_the_reductions() -> None:
    task = pair_tasks.dense((64,), 4, 32)
    assert multiply_adds(tir.load_module(task.module)) == 64 * 4 * 16 * 32 * 2
