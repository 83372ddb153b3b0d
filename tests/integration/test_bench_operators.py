from __future__ import annotations

import numpy as np
import pytest

from benchmarks.models import contest, operators, torch_onnx, tuning
from benchmarks.models.contest import Entry
from tunesmith.client import JobTask
from tunesmith.errors import InvalidInput, InvalidOperator
from tunesmith.operators import parse_operator
from workers.peers import onnxruntime
from workers.peers.comparison import Result
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.deploy import local_target

SPECS = ("gemm:8x16x32", "bmm:2x8x4x16", "dense:4x8x16", "conv2d:1x4x9x9,8x4x3x3,s2,p1", "depthwise:1x8x9x9,k3,s1,p1",
         "softmax:2x3x16", "layernorm:4x16")  # fmt: skip


@pytest.mark.parametrize("text", SPECS)
def test_an_operator_as_a_model_computes_the_same_on_every_runtime(text, tmp_path):
    path = operators.write_operator(text, tmp_path / "operator.onnx")
    spec = parse_operator(text)
    inputs = {t.name: random_array(t, at) for at, t in enumerate(spec.inputs) if t.name not in operators.CONSTANT}
    (first,), (second,) = (peer.prepare(str(path), inputs, 1)() for peer in (onnxruntime, torch_onnx))
    assert first.shape == spec.output.shape
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


def test_operators_that_runtimes_cannot_compare_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="float32"):
        operators.write_operator("gemm:8x8x8:float16", tmp_path / "x.onnx")
    with pytest.raises(InvalidOperator):
        operators.write_operator("gemm:8x8", tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()


def test_with_candidates_counted_tunesmith_gets_the_time_of_the_sooner_metaschedule():
    names = ("tunesmith", "metaschedule-64", "metaschedule-16", "onnxruntime")
    plan = contest.Plan(names, local_target("cpu:1"), 900.0, 0.1, 2, 0, trials=128)
    assert plan.order == (*names[1:], "tunesmith")
    entries = {name: Entry(Result(name), 128, seconds) for name, seconds in (("metaschedule-64", 70.0),
                                                                             ("metaschedule-16", 90.0))}  # fmt: skip
    assert contest._timed(plan, "tunesmith", entries).seconds == 70.0
    assert contest._timed(plan, "metaschedule-16", entries).seconds == 900.0
    assert contest._timed(plan, "tunesmith", {}).seconds == 900.0


def test_kernels_are_summed_by_weight_and_the_first_ten_candidates_count_for_each_task():
    tasks = [JobTask(id=1, name="conv", weight=2, flops=10.0, best_latency=1.0),
             JobTask(id=2, name="pool", weight=1, flops=5.0, untuned_latency=4.0)]  # fmt: skip
    trials = [{"task": 2, "sketch": None, "latency": 4.0}]
    trials += [{"task": 1, "sketch": "s", "latency": 12.0 - at} for at in range(12)]
    trials += [{"task": 1, "sketch": "s", "latency": None}]
    found = tuning.kernels_of(tasks, trials)
    assert found == tuning.Kernels(total=6.0, first=2 * 3.0 + 4.0, largest=2.0, flops=20.0)
    assert tuning.kernels_of(tasks, trials[1:]) is None  # nothing of the second task was measured


def test_of_a_pair_the_kernel_in_use_counts_with_the_operations_of_the_direct_one():
    tasks = [JobTask(id=1, name="conv", weight=2, flops=10.0, best_latency=3.0, workload="a", in_use=False),
             JobTask(id=2, name="winograd", weight=2, flops=4.0, best_latency=1.0, workload="b", alternative_of="a"),
             JobTask(id=3, name="pool", weight=1, flops=15.0, best_latency=4.0, workload="c"),
             JobTask(id=4, name="winograd", weight=1, workload="d", alternative_of="c", in_use=False)]  # fmt: skip
    found = ((1, 3.0), (2, 1.5), (2, 1.0), (3, 4.0))
    trials = [{"task": key, "sketch": "s", "latency": latency} for key, latency in found]
    assert tuning.kernels_of(tasks, trials) == tuning.Kernels(total=6.0, first=6.0, largest=2.0, flops=20.0)
