"""Products of few rows whose operands both lie along the reduction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rule_checks import AVX2, AVX512, NEON, check, check_vectors, dense, dense_packed, fits, fused, here, operator, own

from tunesmith.targets import Target
from workers.tvm_backend.design_space.rules.inner_product import InnerProduct
from workers.tvm_backend.design_space.rules.machine import cpu_model_of
from workers.tvm_backend.design_space.space import TraceSpace
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.passes.extract_tasks import Extracted

from tvm import topi  # isort: skip

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
CPU = cpu_model_of(here())
LANES, MOST = CPU.lanes(), CPU.inner_product_rows


def deep(rows: int, more: int = 0) -> int:
    """The shortest reduction that the rule takes for so many rows, and some vectors more."""
    return LANES * (-(-CPU.inner_product_steps * rows // LANES) + more)


def scores(batch: int, rows: int, columns: int, depth: int) -> Extracted:
    """The products of attention, with what follows them."""
    return fused(
        [(batch, rows, depth), (batch, columns, depth)],
        lambda b, q, k: b.emit_te(topi.nn.batch_matmul, q, k),
        (columns,),
        "relu",
        (batch, rows, columns),
    )


@FEW
@given(st.integers(2, 20), st.integers(2, 40), st.integers(0, 4))
def test_products_of_few_rows(rows: int, columns: int, more: int) -> None:
    task = operator(f"dense:{rows}x{columns}x{deep(rows, more)}")
    assert check(task) >= fits(InnerProduct(), task, here()) >= 1


@FEW
@given(st.integers(2, 3), st.integers(2, 9), st.integers(2, 20), st.integers(0, 3))
def test_batches_with_what_follows(batch: int, rows: int, columns: int, more: int) -> None:
    task = scores(batch, rows, columns, deep(rows, more))
    assert fits(InnerProduct(), task, here()) >= 1
    assert check(task) >= 1


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(lambda: operator(f"dense:1x48x{4 * LANES}"), id="a single row"),
        pytest.param(lambda: operator(f"dense:{MOST + 1}x48x{deep(MOST + 1)}"), id="many rows"),
        pytest.param(lambda: operator(f"dense:{LANES}x48x{3 * LANES}"), id="a short reduction"),
        pytest.param(lambda: operator(f"dense:8x48x{deep(8) + 1}"), id="a part of a vector"),
        pytest.param(lambda: dense((8,), 48, 4 * LANES), id="columns lie together"),
        pytest.param(lambda: dense_packed((8,), 3, 4 * LANES), id="panels"),
        pytest.param(lambda: operator("conv2d:1x16x8x8,16x16x1x1,s1,p0"), id="a convolution"),
    ],
)
def test_other_products_are_left_to_other_rules(task: Callable[[], Extracted]) -> None:
    assert fits(InnerProduct(), task(), here()) == 0


@pytest.mark.parametrize(("target", "register"), [(AVX512, "zmm"), (AVX2, "ymm"), (NEON, "v")])
def test_the_reduction_is_in_vectors(target: Target, register: str) -> None:
    task = operator("dense:6x30x64")
    assert fits(InnerProduct(), task, target) >= 1
    check_vectors(task, target, register)


def test_the_static_model_prefers_it_to_packing() -> None:
    task = operator("dense:8x512x1024")
    bodies = own(task, AVX512)
    traces = TraceSpace(task.module, AVX512, bodies)
    prior = prior_of(traces, AVX512, None)
    assert prior is not None
    points = traces.space.sample(np.random.default_rng(0), 512)
    seconds, ours = prior(points), np.array(["RFactor" in str(body.trace) for body in bodies])[points.sketch]
    assert ours.any()
    assert np.nanmin(seconds[ours]) < 0.5 * np.nanmin(seconds[~ours])
