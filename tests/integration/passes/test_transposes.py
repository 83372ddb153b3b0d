"""Transposes of what a product of few rows reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from run_once import compiled

from tunesmith.preparation import Preparation
from tunesmith.targets import Target
from workers.tvm_backend.host import describe
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel

BLOCKED = Preparation(blocked=True, fast_math=True)
KEYS = (0, 2, 3, 1)
"""From [batch, token, head, value] to what the scores of each head are a product with."""


def model(left: tuple[int, ...], right: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    args = [relax.Var(name, relax.TensorType(shape, dtype)) for name, shape in (("x", left), ("x1", right))]
    with builder.function("main", args, {"num_input": 2, "input_names": '["x", "x1"]'}):
        with builder.dataflow():
            turned = builder.emit(relax.op.permute_dims(args[1], list(axes)))
            out = builder.emit_output(relax.op.matmul(args[0], turned))
        builder.emit_func_output(out)
    return builder.get()


def tasks(mod: tvm.IRModule, preparation: Preparation = BLOCKED) -> list[Extracted]:
    return extract_tasks.extract_tasks(pipeline.prepare(mod, preparation).module)


def run(found: Extracted, *inputs: NDArray[Any]) -> NDArray[Any]:
    out = tvm.runtime.tensor(np.zeros(found.workload.args[-1].shape, "float32"))
    mod = tir.load_module(found.module)
    compiled(mod, Target(describe().target).to_json())["main"](*map(tvm.runtime.tensor, inputs), out)
    return out.numpy()


@pytest.mark.parametrize(
    ("left", "right", "axes", "family"),
    [
        pytest.param((2, 3, 1, 64), (2, 9, 3, 64), KEYS, "batch_matmul", id="keys of all heads"),
        pytest.param((2, 8, 64), (2, 30, 64), (0, 2, 1), "batch_matmul", id="several queries"),
        pytest.param((2, 3, 1, 9), (2, 9, 3, 32), (0, 2, 1, 3), "batch_matmul", id="values of all heads"),
        pytest.param((4, 48), (10, 48), (1, 0), "matmul", id="a layer whose weights are an input"),
        pytest.param((2, 2, 48), (10, 48), (1, 0), "matmul", id="a sequence"),
    ],
)
def test_few_rows_read_the_operand_as_it_lies(
    left: tuple[int, ...], right: tuple[int, ...], axes: tuple[int, ...], family: str
) -> None:
    (found,) = tasks(model(left, right, axes))
    assert found.workload.family == family
    rng = np.random.default_rng(0)
    a, b = (rng.normal(0, 1, shape).astype("float32") for shape in (left, right))
    np.testing.assert_allclose(run(found, a, b), a @ np.transpose(b, axes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("left", "right", "axes", "preparation"),
    [
        pytest.param((2, 3, 128, 64), (2, 9, 3, 64), KEYS, BLOCKED, id="many rows"),
        pytest.param((2, 3, 1, 40), (2, 9, 3, 40), KEYS, BLOCKED, id="a part of a vector"),
        pytest.param((2, 3, 1, 9), (2, 9, 3, 20), (0, 2, 1, 3), BLOCKED, id="a part of a vector of columns"),
        pytest.param((2, 3, 1, 64), (64, 2, 9, 3), (1, 3, 0, 2), BLOCKED, id="neither lies together"),
        pytest.param((2, 3, 1, 64), (2, 9, 3, 64), KEYS, Preparation(fast_math=True), id="not for a CPU"),
        pytest.param(
            (2, 3, 1, 64), (2, 9, 3, 64), KEYS, Preparation(blocked=True, fast_math=True, bf16=True), id="narrow"
        ),
    ],
)
def test_other_products_keep_the_transpose(
    left: tuple[int, ...], right: tuple[int, ...], axes: tuple[int, ...], preparation: Preparation
) -> None:
    assert len(tasks(model(left, right, axes), preparation)) == 2
