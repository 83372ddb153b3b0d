"""Default schedules on CPUs: what runs in parallel without a search, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from run_once import compiled

from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm import te, topi  # noqa: E402
from tvm.tirx import For, ForKind  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.design_space import replay  # noqa: E402
from workers.tvm_backend.passes import extract_tasks  # noqa: E402

pytestmark = pytest.mark.parallel

Make = Callable[[Any], Any]
SHARE = 1 << 14
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
MAKERS: dict[str, Make] = {
    "relu": topi.nn.relu,
    "turn": lambda x: topi.transpose(x, list(reversed(range(len(x.shape))))),
    "flat": lambda x: topi.reshape(x, (int(np.prod([int(n) for n in x.shape])),)),
    "twice": lambda x: topi.concatenate([x, x], 0),
    "framed": lambda x: topi.nn.relu(topi.nn.pad(x, [1] * len(x.shape), [1] * len(x.shape))),
}


def target(cores: int) -> Any:
    return tir.tvm_target(Target({**TARGET, "num-cores": cores}))


def program(shape: Sequence[int], make: Make) -> tvm.IRModule:
    x = te.placeholder(tuple(shape), name="x")
    return tvm.IRModule({"main": te.create_prim_func([x, make(x)]).with_attr("global_symbol", "main")})


def default(mod: tvm.IRModule, cores: int = 2) -> tvm.IRModule:
    return replay.default(mod, target(cores))


def parallel_extents(mod: tvm.IRModule) -> list[int]:
    loops: list[Any] = []
    tvm_ffi.structural_walk(mod["main"].body, (For, loops.append))
    return [int(loop.extent) for loop in loops if loop.kind == ForKind.PARALLEL]


def untouched(mod: tvm.IRModule, cores: int = 2) -> bool:
    return bool(tvm_ffi.structural_equal(default(mod, cores), mod))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("shape", [(16, 48, 64), (1, 1, 60_000), (3, 20_000)])
def test_a_large_copy_runs_in_parallel(name: str, shape: tuple[int, ...]) -> None:
    extents = parallel_extents(default(program(shape, MAKERS[name])))
    assert extents
    assert all(extent >= 2 for extent in extents)


@pytest.mark.parametrize(
    ("shape", "make"),
    [
        ((8, 16, 16), topi.nn.relu),
        ((2 * SHARE - 1,), topi.nn.relu),
        ((40_009,), topi.nn.relu),
        ((256, 256), lambda x: topi.sum(x, 1)),
        ((256, 256), lambda x: topi.nn.softmax(x, 1)),
    ],
    ids=["small", "almost", "prime", "sum", "softmax"],
)
def test_what_is_small_or_sums_up_stays_as_it_is(shape: tuple[int, ...], make: Make) -> None:
    assert untouched(program(shape, make))


def test_more_cores_need_more_values_and_one_has_none_to_share() -> None:
    mod = program((64, 1024), topi.nn.relu)
    assert untouched(mod, 1)
    assert not untouched(mod, 4)
    assert untouched(mod, 8)


def test_what_has_a_schedule_keeps_it() -> None:
    mod = program((64, 1024), topi.nn.relu)
    assert untouched(tvm.IRModule({"main": mod["main"].with_attr("tirx.is_scheduled", True)}))


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    rows=st.lists(st.integers(1, 48), max_size=3),
    last=st.integers(1, 3000),
    name=st.sampled_from(sorted(MAKERS)),
)
def test_it_computes_what_the_plain_program_does(rows: list[int], last: int, name: str) -> None:
    shape = [*rows, max(1, min(last, (1 << 18) // int(np.prod(rows, initial=1))))]
    mod = program(shape, MAKERS[name])
    _, result = extract_tasks.arguments(mod) or ()
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = []
    for each in (mod, default(mod)):
        out = tvm.runtime.tensor(np.full(result.shape, np.nan, np.float32))
        compiled(each, TARGET)["main"](tvm.runtime.tensor(x), out)
        found.append(out.numpy())
    np.testing.assert_array_equal(*found)
