from __future__ import annotations

import math

import onnx
import pytest

from benchmarks.yardstick.figures import SAME, report
from benchmarks.yardstick.measure import MODELS, SHAPES, TunedModel, onnx_of
from tunesmith.answers.jobs import JobBody as Job
from tunesmith.answers.jobs import Latency
from tunesmith.answers.jobs import ReferenceBody as Reference


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_models_are_valid_and_keep_every_value(model: str, shape: tuple[int, ...]) -> None:
    made = onnx.load_from_string(onnx_of(model, shape))
    onnx.checker.check_model(made, full_check=True)
    (result,) = made.graph.output
    count = math.prod(d.dim_value for d in result.type.tensor_type.shape.dim)
    assert count == math.prod(shape) * (2 if model == "Concat" else 1)


def outcome(seed: int, verdict: str, speedup: float, schedules: int, ratio: float | None) -> TunedModel:
    job = Job.model_construct(
        latency=Latency.model_construct(verdict=verdict, speedup=speedup, schedules=schedules),
        reference=None if ratio is None else Reference.model_construct(ratio=ratio),
    )
    return TunedModel("Relu", (2, 3), seed, job)


def test_a_table_counts_verdicts_and_keeps_the_order_of_seeds() -> None:
    found = [outcome(2, "faster", 1.25, 1, None), outcome(1, SAME, 1.0, 0, 0.5)]
    made = report(found, {})
    assert made.rows == [("Relu", "2×3", "1 of 2", "0, 1", "1.00, 1.25", "0.50, –")]
    assert "1 of 2 jobs say so" in made.summary
