"""The default schedule's program in a quicker order: the same sums."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from rule_checks import dense, here, operator, run_schedule
from tvm import te
from tvm.s_tir import Schedule
from tvm.tirx import ForKind

from workers.tvm_backend import tir
from workers.tvm_backend.design_space.reference_schedule import quicker

pytestmark = pytest.mark.parallel

TASKS = {
    "gemm": lambda: operator("gemm:37x29x53:float32"),
    "batches": lambda: operator("bmm:3x17x19x23:float32"),
    "dense and what follows": lambda: dense((5, 7), 24, 33, "gelu", residual=True),
    "convolution": lambda: operator("conv2d:1x5x13x11,7x5x3x3,s2,p1:float32"),
    "depthwise": lambda: operator("depthwise:1x6x9x9,k3,s1,p1:float32"),
    "rows": lambda: operator("softmax:3x5x31:float32"),
    "normalisation": lambda: operator("layernorm:9x48:float32"),
}


@pytest.mark.parametrize("name", TASKS)
def test_outputs_are_those_of_the_plain_program(name: str) -> None:
    task = TASKS[name]()
    plain = tir.load_module(task.module)
    # A compiler may contract a product and a sum in one of the two alone.
    np.testing.assert_allclose(
        run_schedule(quicker(plain), task, here()), run_schedule(plain, task, here()), rtol=1e-5, atol=1e-6
    )


def loops(mod: tvm.IRModule) -> list[tuple[int, bool]]:
    """Extent of each loop around the only sum, and whether it is parallel."""
    sch = Schedule(mod)
    sums = [
        block
        for block in sch.get_child_blocks(sch.get_sblock("root"))
        if any(int(axis.iter_type) == axis.CommReduce for axis in sch.get(block).iter_vars)
    ]
    found = [sch.get(loop) for loop in sch.get_loops(sums[-1])]
    return [(int(loop.extent), int(loop.kind) == int(ForKind.PARALLEL)) for loop in found]


def test_rows_are_parallel_and_columns_innermost_where_they_lie_so() -> None:
    assert loops(quicker(tir.load_module(TASKS["gemm"]().module))) == [(37, True), (53, False), (29, False)]


def test_columns_that_lie_apart_stay_outside() -> None:
    a, b, k = te.placeholder((8, 16)), te.placeholder((24, 16)), te.reduce_axis((0, 16))
    product = te.compute((8, 24), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k))
    mod = tvm.IRModule({"main": te.create_prim_func([a, b, product])})
    assert loops(quicker(mod)) == [(8, True), (24, False), (16, False)]


def test_a_program_that_is_not_understood_stays_as_it_is() -> None:
    a = te.placeholder((8, 16))
    two = te.compute((8, 16), lambda i, j: (a[i, j], -a[i, j]))  # two outputs
    mod = tvm.IRModule({"main": te.create_prim_func([a, *two])})
    tvm.ir.assert_structural_equal(quicker(mod), mod)
