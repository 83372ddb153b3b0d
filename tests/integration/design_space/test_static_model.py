from __future__ import annotations

import functools

import numpy as np
import pytest
from effort import THOROUGH
from marked_nests import MEASURED

from benchmarks.harness.operators import load
from benchmarks.replay.workloads import load_all
from tunesmith.analysis.nest import Kind
from tunesmith.analysis.shape import Shape, values_of
from tunesmith.operators import parse_operator
from tunesmith.search.construction import construct
from tunesmith.targets import Target
from tunesmith.testing.replay import Recording
from workers.tvm_backend.warm import warm

warm("llvm")

from benchmarks.replay.static import Judged, judge, learned, report, report_learned, spearman  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.rules.machine import cpu_model_of  # noqa: E402
from workers.tvm_backend.design_space.static_model import prior_of  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel

FLOORS = {
    "gemm:256x256x256": (0.8, 1.25),
    "gemm:64x768x512": (0.7, 1.1),
    "bmm:12x64x64x64": (0.8, 1.1),
    "conv2d:1x256x14x14,128x256x1x1,s1,p0": (0.75, 1.25),
    "conv2d:1x64x28x28,64x64x3x3,s1,p1": (0.7, 1.25),
}
"""Of the rank correlation, and the most that the best of the first ten may be over the optimum: with some room."""
PARTLY = {
    "layernorm:128x768": (0.5, 1.2),
    "softmax:64x1000": (0.5, 1.25),
    "depthwise:1x128x28x28,k3,s1,p1": (0.55, 1.25),
}
"""The same of spaces of which the model may not know every point."""
CPU = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


@functools.cache
def recordings() -> dict[str, Recording]:
    return {recording.name: recording for recording in load_all()}


@functools.cache
def judged(name: str) -> Judged:
    found = judge(recordings()[name])
    assert found is not None, "the rules that made the recorded sketches have changed"
    return found


@pytest.mark.parametrize("name", FLOORS)
def test_the_model_ranks_what_was_measured(name: str) -> None:
    found, (correlation, first) = judged(name), FLOORS[name]
    assert found.known == 1.0
    assert found.correlation >= correlation
    assert found.first <= first
    assert found.first < found.chance
    assert found.refused < 0.2


@pytest.mark.parametrize("name", PARTLY if THOROUGH else ["depthwise:1x128x28x28,k3,s1,p1"])
def test_the_model_ranks_what_it_knows(name: str) -> None:
    found, (correlation, first) = judged(name), PARTLY[name]
    assert found.known > 0.7
    assert found.correlation >= correlation
    assert found.first <= first
    assert found.refused < 0.2


def test_the_report_has_a_line_for_each() -> None:
    rows = report([judged(name) for name in FLOORS], {}).rows
    assert [row[0] for row in rows] == list(FLOORS)


def test_a_cost_model_that_has_its_promise_ranks_better() -> None:
    seeds = 3 if THOROUGH else 2
    trials = learned([judged(name) for name in FLOORS], sizes=(32,), seeds=seeds)
    plain, wiser = (
        [t.metrics.pairwise for t in trials if t.model == name] for name in ("xgboost", "xgboost + static model")
    )
    assert len(plain) == len(wiser) == seeds * len(FLOORS)
    assert np.mean(wiser) > np.mean(plain) + 0.02
    assert [row[0] for row in report_learned(trials, {}).rows] == ["xgboost", "xgboost + static model"]


def test_rank_correlation() -> None:
    a = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(a, a**3) == pytest.approx(1.0)
    assert spearman(a, -a) == pytest.approx(-1.0)
    assert spearman(a, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(0.8944, abs=1e-3)  # 4 / sqrt(5 * 4)
    assert spearman(a, np.ones(4)) == 0.0


def test_ten_constructed_products_are_full_kernels_of_a_packed_sketch_too() -> None:
    """A product of 1024 has millions of schedules; those that are constructed use whole registers and no more."""
    product = import_model.operator_module(parse_operator("gemm:1024x1024x1024"))
    (task,) = extract_tasks.extract_tasks(pipeline.prepare(product).module)
    bodies = space.generate(task.module, CPU)
    traces = space.TraceSpace(task.module, CPU, bodies)
    prior = prior_of(traces, CPU, None)
    assert prior is not None
    made = construct(traces.space, prior, np.random.default_rng(0), 10)
    own = {body.hash: body for body in bodies if not body.postprocs}
    packed = [(at, own[str(c.sketch)]) for at, c in enumerate(traces.space.candidates(made)) if c.sketch in own]
    assert len(packed) >= 2
    for at, body in packed:
        nest = traces.nests.nest(body.hash, ())
        assert nest is not None
        (update,) = [block for block in nest.blocks if block.update]
        shape = Shape.make(nest, update, values_of(nest, body.knobs, made.choice[at : at + 1]), 1)
        tile = [
            extent
            for loop, (extent,) in zip(shape.block.loops, shape.extents, strict=True)
            if loop.kind is Kind.UNROLLED and not loop.reduction
        ]
        assert 12 <= np.prod(tile) <= 32, "accumulators, of 32 registers"


def test_the_device_is_described_by_its_target_and_its_calibration() -> None:
    known, guessed = cpu_model_of(CPU, MEASURED), cpu_model_of(CPU)
    assert (
        (known.cores, known.vector_bytes, known.registers)
        == (2, 64, 32)
        == (guessed.cores, guessed.vector_bytes, guessed.registers)
    )
    assert known.peak_flops == 5e11
    assert [cache.size for cache in known.caches] == list(MEASURED.cache_sizes)
    assert prior_of(None, Target({"kind": "cuda", "arch": "sm_80"}), None) is None  # type: ignore[arg-type]


def test_tiles_that_fill_sixteen_registers_are_near_the_limit() -> None:
    """6x2 and 4x3: a CPU without AVX-512 spreads a value over a register just before it multiplies."""
    target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    operator = load("gemm:384x768x768", target)
    ours = [body for body in operator.bodies.values() if not space.is_generated(body)]
    made = space.TraceSpace(operator.task.module, target, ours)
    prior = prior_of(made, target, None)
    assert prior is not None
    points = made.space.sample(np.random.default_rng(0), 2000)
    excess = prior.excess(points)
    best = [excess[points.sketch == sketch].min() for sketch in np.unique(points.sketch)]
    assert len(best) == len(ours)
    assert max(best) < 1.4
