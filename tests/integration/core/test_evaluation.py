"""The check of a finished model, from message to message."""

from __future__ import annotations

import core_flow
import pytest
import sqlalchemy as sa
from core_flow import evaluate, row

from db.models import (
    Evaluation,
    Event,
    Job,
)
from tunesmith.messages import (
    ReferenceTiming,
)
from tunesmith.states import JobState, WorkState
from tunesmith.types import FailureKind
from workers.core.context import Context

pytestmark = pytest.mark.parallel


def test_wrong_outputs_fail_the_job(sqlite_context: Context) -> None:
    core_flow.import_and_prepare(sqlite_context)
    evaluate(sqlite_context, error=0.5)
    job = row(sqlite_context, Job, "j1")
    assert job.state is JobState.FAILED
    assert job.error["code"] == "measurement_failed"
    assert "0.5" in job.error["detail"]
    evaluation = row(sqlite_context, Evaluation)
    assert (evaluation.output_error, evaluation.output_tolerance) == (0.5, 0.01)


def test_outputs_may_jump_as_the_untuned_models_do(sqlite_context: Context) -> None:
    core_flow.import_and_prepare(sqlite_context)
    evaluate(sqlite_context, error=0.5, tolerance=0.6)
    assert row(sqlite_context, Job, "j1").state is JobState.SUCCEEDED
    assert row(sqlite_context, Evaluation).output_tolerance == 0.6


def test_a_check_without_a_signal_ends_the_job_and_says_so(sqlite_context: Context) -> None:
    core_flow.import_and_prepare(sqlite_context)
    timing = ReferenceTiming(runtime="onnxruntime", version="1.31.1", samples=[0.002] * 5)
    evaluate(sqlite_context, signal=1e-9, references=[timing])
    assert row(sqlite_context, Evaluation).references == [timing.model_dump(mode="json")]
    assert row(sqlite_context, Job, "j1").state is JobState.SUCCEEDED
    assert row(sqlite_context, Evaluation).output_signal == 1e-9
    with sqlite_context.readers() as session:
        done = session.scalars(sa.select(Event).where(Event.kind == "evaluation_done")).one()
    assert done.data["check"] == "nothing_checked"


def test_an_evaluation_that_loses_its_device_is_tried_again(sqlite_context: Context) -> None:
    core_flow.import_and_prepare(sqlite_context)
    evaluate(
        sqlite_context,
        failure=FailureKind.DEVICE_LOST,
        message="gone",
        untuned_samples=[],
        tuned_samples=[],
        error=None,
    )
    evaluation = row(sqlite_context, Evaluation)
    assert (evaluation.state, evaluation.attempt) == (WorkState.QUEUED, 2)
    assert row(sqlite_context, Job, "j1").state is JobState.FINISHING
