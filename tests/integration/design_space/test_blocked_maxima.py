"""Maxima over windows that keep NaN, of blocks of channels: TVM makes no vectors of their choice, LLVM has to."""

from __future__ import annotations

import numpy as np
import pytest

from tunesmith.analysis.machine_code import PLACE, code_row
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import te  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.build.assembly import assembly_of  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, ordering  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel
TARGETS = ("x86-64-v3", "skylake-avx512", "znver4")


def pool(kernel: int, padding: int) -> Extracted:
    shape = [tvm.tirx.IntImm("int64", extent) for extent in (1, 2, 15, 15, 16)]
    out = (15 + 2 * padding - kernel) // 2 + 1
    x = te.placeholder(shape, "float32", "x")
    made = ordering.max_pool(x, [kernel] * 2, [2] * 2, [padding] * 4, [1] * 2, [1, 2, out, out, 16])
    mod = tvm.IRModule({"main": te.create_prim_func([x, made])})
    arguments = extract_tasks.arguments(mod)
    assert arguments is not None
    return extract_tasks.describe(mod, "pool", arguments)


@pytest.mark.parametrize("mcpu", TARGETS)
def test_each_lane_of_a_window_stays_in_a_register(mcpu: str) -> None:
    for loads, stores in accesses(mcpu, padding=0):
        assert loads == 9 * stores > 0


@pytest.mark.parametrize("mcpu", TARGETS)
def test_padding_is_copied_and_not_read_under_a_condition(mcpu: str) -> None:
    for loads, stores in accesses(mcpu, padding=1):
        assert stores > 0
        assert loads <= 9 * stores + 1  # an address may be loaded, too


def accesses(mcpu: str, padding: int) -> list[tuple[float, float]]:
    """Loads and stores of the hottest loop of some candidates of ours."""
    target, task = Target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2}), pool(3, padding)
    ours = [body for body in space.generate(task.module, target) if not space.is_generated(body)]
    assert ours
    made = space.TraceSpace(task.module, target, ours)
    points, valid = made.resolve(made.space.sample(np.random.default_rng(0), 4))
    counts = [code_row(assembly_of(made, each)) for each in made.space.candidates(points.take(valid))]
    return [(float(row[PLACE["hot.loads"]]), float(row[PLACE["hot.stores"]])) for row in counts]


@pytest.mark.parametrize(("kernel", "padding"), [(3, 0), (3, 1), (2, 0)])
def test_a_window_with_nan_gives_nan(kernel: int, padding: int) -> None:
    here, task = Target(describe().target), pool(kernel, padding)
    x = np.random.default_rng(0).standard_normal((1, 2, 15, 15, 16)).astype("float32")
    x[0, 1, 4, 4, 3] = np.nan
    ours = [body for body in space.generate(task.module, here) if not space.is_generated(body)]
    made = space.TraceSpace(task.module, here, ours)
    points, valid = made.resolve(made.space.sample(np.random.default_rng(0), 6))
    for candidate in made.space.candidates(points.take(valid)):
        sch = Replayer(task.module, here).replay(made.body(candidate), candidate.decisions)
        out = tvm.runtime.tensor(np.zeros([int(e) for e in task.workload.args[-1].shape], "float32"))
        tvm.compile(sch.mod, target=tir.tvm_target(here))["main"](tvm.runtime.tensor(x), out)
        np.testing.assert_array_equal(out.numpy(), expected(x, kernel, padding, out.shape[2]))


def expected(x: np.ndarray, kernel: int, padding: int, out: int) -> np.ndarray:
    """By NumPy, whose maximum keeps NaN."""
    wide = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), axis=(2, 3))[:, :, ::2, ::2]
    return windows.max(axis=(-2, -1))[:, :, :out, :out]
