from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from run_once import compiled

from tunesmith.preparation import PLAIN, Preparation
from tunesmith.targets import Target
from workers.tvm_backend.host import describe
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline, softmax  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel

FAST = Preparation(fast_math=True)


def model(shape: tuple[int, ...], axis: int = -1, dtype: str = "float32") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x], {"num_input": 1, "input_names": '["x"]'}):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.softmax(x, axis=axis))
        builder.emit_func_output(out)
    return builder.get()


def task(mod: tvm.IRModule, preparation: Preparation = FAST) -> Extracted:
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(mod, preparation).module)
    return found


def is_lengthened(found: Extracted) -> bool:
    return "softmax_padded" in tir.load_module(found.module)["main"].script()


def run(found: Extracted, x: NDArray[Any]) -> NDArray[Any]:
    out = tvm.runtime.tensor(np.zeros_like(x))
    mod = tir.load_module(found.module)
    compiled(mod, Target(describe().target).to_json())["main"](tvm.runtime.tensor(x), out)
    return out.numpy()


@pytest.mark.parametrize("columns", [129, 197, 257, 396])
def test_rows_that_fill_no_vectors_are_lengthened(columns: int) -> None:
    x = np.random.default_rng(0).normal(0, 4, (3, 5, columns)).astype("float32")
    found = task(model(x.shape))
    assert is_lengthened(found)
    powers = np.exp(x.astype("float64") - x.max(-1, keepdims=True))
    np.testing.assert_allclose(run(found, x), powers / powers.sum(-1, keepdims=True), rtol=2e-6, atol=1e-9)


def test_what_is_no_number_comes_out_as_without_longer_rows() -> None:
    x = np.random.default_rng(0).normal(0, 1, (6, 197)).astype("float32")
    x[0] = -np.inf
    x[1, 3] = np.nan
    x[2, 196] = np.inf
    x[3, :190] = -np.inf
    x[4] = np.finfo(np.float32).min
    long, plain = task(model(x.shape)), task(model(x.shape), PLAIN)
    assert is_lengthened(long)
    assert not is_lengthened(plain)
    np.testing.assert_allclose(run(long, x), run(plain, x), rtol=2e-6, atol=1e-9, equal_nan=True)
    assert np.isnan(run(long, x)[0]).all()


@pytest.mark.parametrize(
    ("mod", "preparation"),
    [
        (lambda: model((4, 192)), FAST),
        (lambda: model((4, 77)), FAST),
        (lambda: model((197, 16), axis=0), FAST),
        (lambda: model((4, 197), dtype="float16"), FAST),
        (lambda: model((4, 197)), PLAIN),
    ],
    ids=["whole vectors", "short", "another axis", "float16", "no fast math"],
)
def test_others_stay_as_they_are(mod: Any, preparation: Preparation) -> None:
    assert not is_lengthened(task(mod(), preparation))


@pytest.mark.parametrize(("columns", "wide"), [(197, 208), (257, 272), (1064, 1088), (1000, 1024), (129, 144)])
def test_how_long_a_row_becomes(columns: int, wide: int) -> None:
    assert softmax.lengthened(columns) == wide
