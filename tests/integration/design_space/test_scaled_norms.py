from __future__ import annotations

import numpy as np
import pytest
import rule_checks
from run_once import compiled

from tunesmith.names import TVM_SPACE
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import te, tirx  # noqa: E402
from tvm.s_tir import ScheduleError  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.export import script  # noqa: E402
from workers.tvm_backend.passes import extract_tasks  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel


def scaled_norm(rows: int, width: int) -> Extracted:
    """A layer norm of values with a scale that comes as a tensor: TVM's rules fail at its two sums."""
    x, scale = te.placeholder((rows, width), "float32", "x"), te.placeholder((), "float32", "scale")
    values = te.compute(x.shape, lambda i, j: x[i, j] * scale(), "values")
    k, at = te.reduce_axis((0, width), "k"), te.reduce_axis((0, width), "at")
    total = te.compute((rows,), lambda i: te.sum(values[i, k], k), "total")

    def off(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        return values[i, j] - total[i] / float(width)

    spread = te.compute((rows,), lambda i: te.sum(off(i, at) * off(i, at), at), "spread")
    norm = te.compute(x.shape, lambda i, j: off(i, j) * tirx.rsqrt(spread[i] / float(width) + 1e-5), "norm")
    mod = tvm.IRModule({"main": te.create_prim_func([x, scale, norm])})
    arguments = extract_tasks.arguments(mod)
    assert arguments is not None
    return extract_tasks.describe(mod, "scaled_norm", arguments)


def test_where_tvms_rules_fail_there_are_our_sketches_and_they_are_right() -> None:
    task, here = scaled_norm(6, 64), rule_checks.here()
    with pytest.raises(ScheduleError):
        space.generate(task.module, here, TVM_SPACE)
    bodies = space.generate(task.module, here)
    assert bodies
    assert [body.hash for body in bodies] == [body.hash for body in space.generate_own(task.module, here)]
    expected = run(tir.load_module(task.module), task)
    for mod in rule_checks.scheduled(task, here, 1):
        np.testing.assert_allclose(run(mod, task), expected, rtol=2e-5, atol=2e-5)


def test_an_exported_folder_leaves_what_tvms_rules_fail_at_as_it_is() -> None:
    task, here = scaled_norm(6, 64), rule_checks.here()
    mod, missing = script().apply_forced(tir.load_module(task.module), tir.tvm_target(here))
    assert missing == ["main"]
    assert not script().is_scheduled(mod["main"])


def run(mod: tvm.IRModule, task: Extracted) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    arrays = [tvm.runtime.tensor(random_array(spec, at)) for at, spec in enumerate(task.workload.args)]
    compiled(mod, rule_checks.here().to_json())["main"](*arrays)
    return arrays[-1].numpy()
