"""Every part that speaks of a job's options takes them from the one model."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import get_type_hints

import pytest
from pydantic import ValidationError

from db.models import Job
from db.queries.work_parts import RoundSubject
from services.coordinator.requests import JobRequest
from services.coordinator.scheduling.snapshot import JobSnapshot
from tunesmith.answers.jobs import JobBody
from tunesmith.cli import tune
from tunesmith.client import Job as ClientJob
from tunesmith.errors import (
    InvalidInput,
    UnknownAllocator,
    UnknownCostModel,
    UnknownPrecision,
    UnknownSearcher,
    UnknownSpace,
)
from tunesmith.options import MAX_PRIORITY, JobOptions

pytestmark = pytest.mark.parallel

NAMES = set(JobOptions.model_fields)
OTHER = JobOptions(
    search="random",
    cost_model="lightgbm",
    allocator="static",
    priority=MAX_PRIORITY,
    seed=7,
    warm_start=False,
    verify=False,
    fast_math=False,
    winograd=False,
    space="tvm",
    precision="auto",
    tolerance=0.02,
    proposal_share=0.5,
)


@pytest.mark.parametrize("model", [JobRequest, JobBody, ClientJob])
def test_what_is_sent_and_answered_inherits_the_options_and_restates_none(model: type[JobOptions]) -> None:
    assert issubclass(model, JobOptions)
    for parent in model.__mro__[: model.__mro__.index(JobOptions)]:
        assert set(inspect.get_annotations(parent)).isdisjoint(NAMES)


@pytest.mark.parametrize("kind", [JobSnapshot, RoundSubject])
def test_the_planner_and_the_proposals_hold_the_model_itself(kind: type) -> None:
    assert get_type_hints(kind)["options"] is JobOptions
    assert NAMES.isdisjoint(field.name for field in dataclasses.fields(kind))


def test_each_option_is_a_column_with_the_same_default() -> None:
    columns = {name: Job.__table__.columns[name] for name in NAMES}
    for name, field in JobOptions.model_fields.items():
        assert not columns[name].nullable
        assert columns[name].type.python_type is field.annotation
        default = columns[name].default
        assert default is None or default.arg == field.default


def test_each_option_is_one_of_the_command_line_and_none_is_given_by_default() -> None:
    parameters = inspect.signature(tune.tune).parameters
    assert {name: parameters[name].default for name in NAMES} == dict.fromkeys(NAMES)
    assert "options" not in parameters
    assert "options" in inspect.signature(inspect.unwrap(tune.tune)).parameters


def test_a_request_becomes_a_row_and_the_same_options_again() -> None:
    defaults = JobOptions()
    assert all(getattr(OTHER, name) != getattr(defaults, name) for name in NAMES)
    request = JobRequest(operator="gemm:8x8x8:float32", name="x", **OTHER.values())
    assert Job(**request.values()).options == OTHER
    with pytest.raises(ValidationError, match="frozen"):
        OTHER.seed = 1


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("search", UnknownSearcher),
        ("cost_model", UnknownCostModel),
        ("allocator", UnknownAllocator),
        ("space", UnknownSpace),
        ("precision", UnknownPrecision),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_there_are(field: str, error: type[Exception]) -> None:
    OTHER.check_values()
    with pytest.raises(error, match="there are .*" + str(getattr(OTHER, field))):
        OTHER.model_copy(update={field: "magic"}).check_values()


@pytest.mark.parametrize(
    ("precision", "tolerance", "says"),
    [
        ("auto", 0.0, "tolerance 0 is no part of the outputs: give a number above 0, such as 0.01, up to 1"),
        ("auto", -1.0, "tolerance -1 is no part"),
        ("auto", 1.5, "tolerance 1.5 is no part"),
        ("auto", float("nan"), "tolerance nan is no part"),
        ("auto", float("inf"), "tolerance inf is no part"),
        ("bf16", 0.02, "tolerance is for precision auto, which chooses by it, and the precision is bf16: ask for"),
    ],
)
def test_a_tolerance_is_a_number_that_something_is_held_against(precision: str, tolerance: float, says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)) as caught:
        JobOptions.model_construct(precision=precision, tolerance=tolerance).check_values()
    assert caught.value.field == "tolerance"
