"""Bodies of requests."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic.config import JsonDict

from services.coordinator.access import Scope
from tunesmith.answers.base import Body
from tunesmith.answers.jobs import BudgetBody
from tunesmith.dataset.collecting import MAX_PER_TASK, MAX_SHARDS, JobKind
from tunesmith.dataset.workloads import MAX_OPERATORS
from tunesmith.job_tags import MAX_COMMENT, MAX_LENGTH, MAX_TAGS, PATTERN
from tunesmith.names import DEFAULT_SAMPLER, NO_COST_MODEL
from tunesmith.operators import FORMS
from tunesmith.options import MAX_PRIORITY, MIN_PRIORITY, JobOptions

Spec = Annotated[str, StringConstraints(max_length=500)]
COLLECTING: Final = {"search": DEFAULT_SAMPLER, "allocator": "even", "cost_model": NO_COST_MODEL}
"""Options of collecting jobs that say nothing else."""
PUBLIC_KEY = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
"""The first of RFC 8032, section 7.1."""
Line = Annotated[str, StringConstraints(min_length=1, max_length=100)]
TAGS: Final = f"Up to {MAX_TAGS}, of up to {MAX_LENGTH} letters, digits and `. _ : / = + -`."
TAG_LIST: JsonDict = {"items": {"type": "string", "pattern": PATTERN}, "maxItems": MAX_TAGS}
NOTHING: JsonDict = {"type": "null"}
TUNES: JsonDict = {"kind": {"const": "tune"}, "per_task": NOTHING, "shard": {"const": 0}, "shards": {"const": 1}}
COLLECTS: JsonDict = {"kind": {"const": "collect"}, "per_task": {"type": "integer"}}


def _one_of(source: str, kind: JsonDict, *required: str) -> JsonDict:
    """A request whose only source is ``source``."""
    given = {name: NOTHING for name in ("model_id", "operator", "operators") if name != source}
    return {"required": [source, *required], "properties": {**given, source: {"not": NOTHING}, **kind}}


ONE_SOURCE: JsonDict = {
    "examples": [
        {"operator": "gemm:1024x1024x1024:float32", "target": "cpu", "budget": {"trials": 64}},
        {"operators": ["softmax:64x1000:float32"], "kind": "collect", "per_task": 16, "target": "llvm-znver4-16"},
    ],
    "oneOf": [
        *(_one_of(source, TUNES) for source in ("model_id", "operator")),
        *(_one_of(source, COLLECTS, "kind", "per_task") for source in ("model_id", "operator", "operators")),
    ],
}


def _example(**values: Any) -> ConfigDict:
    """A body that the OpenAPI document shows."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class JobSource(Body):
    """What to do with which programs, for which target and for how long."""

    kind: JobKind = Field(
        JobKind.TUNE, description="`tune` looks for the fastest programs; `collect` labels programs for the dataset."
    )
    per_task: int | None = Field(
        None,
        description="Of collecting jobs: labels that each task is to have, those of earlier ones included; "
        f"1 to {MAX_PER_TASK}.",
        json_schema_extra={"minimum": 1, "maximum": MAX_PER_TASK},
    )
    shard: int = Field(0, ge=0, lt=MAX_SHARDS, description="Of collecting jobs: which part of each space, from 0.")
    shards: int = Field(1, ge=1, le=MAX_SHARDS, description="Of collecting jobs: in how many parts each space is.")

    model_id: str | None = Field(None, max_length=40)
    operator: str | None = Field(None, max_length=500, description=f"Such as {', '.join(FORMS.values())}.")
    operators: list[Spec] | None = Field(
        None,
        min_length=1,
        max_length=MAX_OPERATORS,
        description="Of collecting jobs: several operators of one precision.",
    )
    target: str | dict[str, Any] = "cpu"
    budget: BudgetBody = Field(default_factory=BudgetBody)


class JobRequest(JobOptions, JobSource):
    """A job to submit: a model (or an operator spec) and a target.

    A collecting job has other defaults: the sampler `uniform`, the allocator `even` and no cost model. It compiles no
    model and starts from no champion.
    """

    model_config = ConfigDict(json_schema_extra=ONE_SOURCE)

    name: str = Field("", max_length=200)
    tags: list[str] = Field([], description=f"Words by which the job is found. {TAGS}", json_schema_extra=TAG_LIST)
    comment: str = Field("", max_length=MAX_COMMENT)

    @model_validator(mode="after")
    def _collecting_defaults(self) -> JobRequest:
        if self.kind is JobKind.TUNE:
            return self
        missing = {name: value for name, value in COLLECTING.items() if name not in self.model_fields_set}
        return self.model_copy(update={**missing, "warm_start": False, "verify": False})


class JobChange(Body):
    """What may be changed; absent members stay. Priority and budget can be changed while the job is under way."""

    model_config = _example(priority=3, budget={"trials": 2000})

    priority: int | None = Field(None, ge=MIN_PRIORITY, le=MAX_PRIORITY)
    budget: BudgetBody | None = None
    name: str | None = Field(None, max_length=200)
    tags: list[str] | None = Field(
        None, description=f"In place of those that it has. {TAGS}", json_schema_extra=TAG_LIST
    )
    comment: str | None = Field(None, max_length=MAX_COMMENT)


class TrainRequest(Body):
    """Which records a ranker is to learn from: those of a target (hash, device class or tag) and a precision."""

    model_config = _example(target="llvm-znver4-16", precision="float32")

    target: str = Field(min_length=1, max_length=200)
    precision: Literal["float32", "bf16", "int8"] = "float32"


class KeyRequest(Body):
    """A key to make."""

    model_config = _example(owner="ann", scopes=["user"])

    owner: str = Field("local", min_length=1, max_length=100)
    scopes: list[Scope] = Field(["user"], min_length=1)


class EnrolRequest(Body):
    """A measure worker and its public key.

    ``public_key`` is the base64 of an Ed25519 public key; ``device_classes`` are those that it may serve, or any.
    """

    model_config = _example(name="lab-4", public_key=PUBLIC_KEY, device_classes=["llvm-znver4-16"])

    name: Line
    public_key: str = Field(min_length=44, max_length=44)
    device_classes: list[Line] = Field([], max_length=1024)


class RevokeRequest(Body):
    """Which champion is believed no longer: on a target (hash, device class or tag), and why."""

    model_config = _example(target="llvm-znver4-16", reason="measured on a busy machine")

    target: str = Field(min_length=1, max_length=200)
    reason: str = Field("", max_length=500)
