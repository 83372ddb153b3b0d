"""What a box says of a model, as far as it can be believed: checked for form and size, never for truth."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tunesmith.errors import InvalidInput, MissingDependency, ModelRejected, TunesmithError, from_problem
from tunesmith.types import TensorSpec, Workload

MOST_TASKS = 20_000
MOST_NOTE = 1000
Text = Annotated[str, Field(max_length=1000)]
Extent = Annotated[int, Field(ge=0, lt=1 << 62)]
DataType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
WorkloadHash = Annotated[str, Field(pattern=r"^-?[0-9]{1,20}$")]
Shape = Annotated[list[Extent], Field(max_length=64)]


class _Claim(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskClaim(_Claim):
    """One task."""

    hash: WorkloadHash
    name: Text
    args: Annotated[list[tuple[DataType, Shape]], Field(min_length=1, max_length=10_000)]
    flops: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    family: Text
    weight: Annotated[int, Field(ge=1, lt=1 << 31)]
    alternative_of: WorkloadHash | None
    weights: Annotated[list[Extent], Field(max_length=10_000)]

    def workload(self) -> Workload:
        """The workload that it speaks of."""
        args = tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in self.args)
        return Workload(self.hash, self.name, args, self.flops, self.family)


class SplitClaim(_Claim):
    """A model's inputs, tasks and the bytes of its parameters."""

    inputs: Annotated[list[tuple[Text, DataType, Shape]], Field(max_length=10_000)]
    tasks: Annotated[list[TaskClaim], Field(max_length=MOST_TASKS)]
    params_size: Extent

    def share(self, ending: str) -> float:
        """Part of the model's operations that are in tasks whose family's name has this ending; 0 without any."""
        counted = [(task.weight * task.flops, task.family.endswith(ending)) for task in self.tasks]
        return sum(flops for flops, mine in counted if mine) / (sum(flops for flops, _ in counted) or 1.0)

    def specs(self) -> tuple[TensorSpec, ...]:
        """The inputs."""
        return tuple(TensorSpec(dtype, tuple(shape), name) for name, dtype, shape in self.inputs)


class PrecisionClaim(_Claim):
    """How far a model's outputs in a precision lie from float32's; ``why`` there is no figure."""

    precision: Literal["bf16", "int8"]
    rms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    why: Text


_PRECISIONS = TypeAdapter(Annotated[list[PrecisionClaim], Field(max_length=10)])


class _Error(BaseModel):
    field: Text | None = None
    value: Any = None


class _Problem(BaseModel):
    model_config = ConfigDict(extra="ignore")

    code: Annotated[str, Field(max_length=100)]
    detail: Annotated[str, Field(max_length=4000)]
    errors: Annotated[list[_Error], Field(max_length=1)] = []
    operators: Annotated[dict[Text, int], Field(max_length=1000)] | None = None
    dimensions: Annotated[list[Text], Field(max_length=100)] | None = None


def note(answer: Any) -> str:
    """What a preparation has to say to the user. Raises what :func:`split` raises."""
    done(answer)
    if not isinstance(answer["done"], str):
        raise _refused(TypeError("the note is no text"))
    return answer["done"][:MOST_NOTE]


def split(answer: Any) -> SplitClaim:
    """Raises TunesmithError with the box's reason, or ModelRejected where its answer has another form."""
    done(answer)
    try:
        return SplitClaim.model_validate(answer["done"])
    except ValidationError as error:
        raise _refused(error) from error


def precisions(answer: Any) -> list[PrecisionClaim]:
    """What came of trying precisions. Raises what :func:`split` raises."""
    done(answer)
    try:
        return _PRECISIONS.validate_python(answer["done"])
    except ValidationError as error:
        raise _refused(error) from error


def done(answer: Any) -> None:
    """Raises TunesmithError with the box's reason where the work is not done."""
    if isinstance(answer, dict) and set(answer) == {"done"}:
        return
    try:
        problem = _Problem.model_validate(answer["problem"] if isinstance(answer, dict) else answer)
    except (ValidationError, KeyError) as error:
        raise _refused(error) from error
    found = from_problem(problem.model_dump(exclude_none=True))
    if not isinstance(found, ModelRejected | InvalidInput | MissingDependency):
        raise ModelRejected(problem.detail, field="file")
    if len(str(found.value)) > 1000:
        found.value = None
    raise found


def _refused(error: Exception) -> TunesmithError:
    return ModelRejected(f"what came of the model has no proper form: {str(error)[:300]}", field="file")
