"""A job's options. The REST API, the SDK, the command line, the row and the planner take them from this one model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from tunesmith.errors import (
    InvalidInput,
    UnknownAllocator,
    UnknownCostModel,
    UnknownPrecision,
    UnknownSearcher,
    UnknownSpace,
)
from tunesmith.names import (
    AUTO,
    COST_MODELS,
    DEFAULT_ALLOCATOR,
    DEFAULT_COST_MODEL,
    DEFAULT_PRECISION,
    DEFAULT_SEARCHER,
    DEFAULT_SPACE,
    PRECISIONS,
    SPACES,
)
from tunesmith.proposals import DEFAULT_SHARE
from tunesmith.registry import check_name

MIN_PRIORITY, MAX_PRIORITY = -10, 10
DEFAULT_TOLERANCE: Final = 0.01
"""What outputs may differ by with precision auto; see :class:`JobOptions`."""


def _searchers() -> Collection[str]:
    from tunesmith.search.registry import SEARCHERS  # NumPy, which a client does not need

    return SEARCHERS


def _allocators() -> Collection[str]:
    from tunesmith.allocate.registry import ALLOCATORS

    return ALLOCATORS


CHOICES: Final[dict[str, tuple[Callable[[], Collection[str]], type[InvalidInput]]]] = {
    "search": (_searchers, UnknownSearcher),
    "cost_model": (lambda: COST_MODELS, UnknownCostModel),
    "allocator": (_allocators, UnknownAllocator),
    "space": (lambda: SPACES, UnknownSpace),
    "precision": (lambda: (AUTO, *PRECISIONS), UnknownPrecision),
}
"""Options with names as values: which names there are, and the error for another one."""


def choices(field: str) -> list[str]:
    """The names that an option may have, sorted; none of an option that is no name."""
    return sorted(CHOICES[field][0]()) if field in CHOICES else []


def _name(field: str, default: str, description: str) -> Any:
    """An option of ``CHOICES``. Its names are in the API's document; :meth:`JobOptions.check_values` refuses others."""

    def list_names(schema: JsonDict) -> None:
        schema["enum"] = [*choices(field)]

    return Field(default, max_length=60, description=description, json_schema_extra=list_names)


class JobOptions(BaseModel):
    """How a job is tuned. A new option is a field here, a column of the jobs' table, and the code that obeys it."""

    model_config = ConfigDict(frozen=True)

    search: str = _name("search", DEFAULT_SEARCHER, "Search strategy.")
    cost_model: str = _name("cost_model", DEFAULT_COST_MODEL, "Cost model.")
    allocator: str = _name("allocator", DEFAULT_ALLOCATOR, "How tasks share the budget.")
    priority: int = Field(0, ge=MIN_PRIORITY, le=MAX_PRIORITY, description="Higher runs first.")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the search.")
    warm_start: bool = Field(True, description="Start from what earlier jobs found, and from the shipped ranker.")
    verify: bool = Field(True, description="Compile the model at the end, check its outputs and time it.")
    fast_math: bool = Field(
        True, description="Allow polynomials for exp, log, erf, tanh and sigmoid if the target benefits."
    )
    winograd: bool = Field(True, description="Allow Winograd's algorithm for convolutions where it is faster.")
    space: str = _name(
        "space", DEFAULT_SPACE, "Design space; `tvm` is what TVM's own generator makes of the model as TVM prepares it."
    )
    precision: str = _name(
        "precision",
        DEFAULT_PRECISION,
        "Types of the model's arithmetic; `bf16` multiplies numbers that are rounded to bfloat16, `int8` a quantised "
        "model's bytes (CPUs); `auto` is the fastest whose outputs stay close to float32's.",
    )
    tolerance: float = Field(
        DEFAULT_TOLERANCE,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="With precision auto: how far outputs may lie from float32's, the root mean square of the "
        "difference as a part of theirs.",
    )

    proposal_share: float = Field(
        DEFAULT_SHARE,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Part of each batch, and of the rounds, that candidates proposed from outside may have; 0 refuses "
        "them.",
    )

    def values(self) -> dict[str, Any]:
        """The options by name, without the further fields of a subclass."""
        return self.model_dump(include=set(JobOptions.model_fields))

    def check_values(self) -> None:
        """Refuse names that no registry knows, and a tolerance that is none or that nothing is held against.

        Raises:
            UnknownSearcher, UnknownCostModel, UnknownAllocator, UnknownSpace, UnknownPrecision: naming what there is.
            InvalidInput: the tolerance.
        """
        for field, (_, error) in CHOICES.items():
            check_name(field, getattr(self, field), choices(field), error)
        if not 0 < self.tolerance <= 1:
            raise InvalidInput(
                f"tolerance {self.tolerance:g} is no part of the outputs: give a number above 0, such as 0.01, up to 1",
                field="tolerance",
                value=self.tolerance,
            )
        if self.precision != AUTO and self.tolerance != DEFAULT_TOLERANCE:
            raise InvalidInput(
                f"tolerance is for precision auto, which chooses by it, and the precision is {self.precision}: ask for "
                "precision auto, or leave the tolerance out",
                field="tolerance",
                value=self.tolerance,
            )
