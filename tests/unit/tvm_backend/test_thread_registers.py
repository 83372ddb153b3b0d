"""What a GPU's thread can keep in registers, before and after a candidate is replayed. No GPU is needed."""

from __future__ import annotations

import cuda_probe
import numpy as np
import pytest
from effort import THOROUGH

from workers.tvm_backend.design_space import space, thread_registers
from workers.tvm_backend.design_space.space import TraceSpace

DRAWN = 96 if THOROUGH else 32


@pytest.fixture(scope="module")
def products() -> dict[str, TraceSpace]:
    """The spaces of two products: sums of the first are each thread's own, those of the second are tensor cores'."""
    target = cuda_probe.target_of("nvidia/nvidia-h100")
    found = {}
    for dtype in ("float32", "float16"):
        task, _ = cuda_probe.product(dtype, dtype)
        found[dtype] = TraceSpace(task.module, target, space.generate(task.module, target))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_decisions_alone_refuse_nothing_that_a_replay_takes(products: dict[str, TraceSpace], dtype: str) -> None:
    traces = products[dtype]
    count = DRAWN if dtype == "float32" else DRAWN // 6
    drawn = traces.space.candidates(traces.space.sample(np.random.default_rng(0), count))
    replayed = [traces._replay(each) is not None for each in drawn]
    refused = [traces._surely_refused(each) for each in drawn]
    assert any(replayed)
    assert not any(one and other for one, other in zip(replayed, refused, strict=True))
    assert sum(refused) > 0.7 * count if dtype == "float32" else not any(refused)


@pytest.mark.parametrize(
    ("rows", "columns", "fits"),
    [
        ((4, 1, 16, 2, 2), (4, 1, 16, 4, 1), True),
        ((1, 16, 16, 1, 1), (4, 1, 16, 4, 1), True),  # virtual threads are one thread's
        ((1, 16, 4, 4, 1), (4, 1, 16, 4, 1), False),
        ((1, 1, 16, 8, 2), (1, 1, 32, 8, 1), True),  # 128 sums, and 65536 registers for 512 threads
        ((1, 1, 16, 4, 4), (1, 1, 16, 4, 4), False),
    ],
)
def test_results_beyond_the_registers_are_refused(
    products: dict[str, TraceSpace], rows: tuple[int, ...], columns: tuple[int, ...], fits: bool
) -> None:
    traces = products["float32"]
    sketch = next(iter(traces._bodies.values()))
    drawn = traces.space.candidates(traces.space.sample(np.random.default_rng(0), DRAWN))
    other = next(each.decisions[3:] for each in drawn if each.sketch == sketch.hash)
    decisions = (rows, columns, (32, 1, 8), *other)
    applied = traces.replayer.apply(sketch, decisions)
    assert thread_registers.fits(applied, traces._target) is fits
    assert thread_registers.Bounds.of(applied, traces._target, decisions).hold(decisions) is fits
