"""Which records a request means: the same members in every route."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

from db.queries.dataset import ANY_FAILURE, VALID, RecordFilter
from services.coordinator.cursors import Cursor, Limit
from tunesmith.answers.base import Body
from tunesmith.dataset.manifest import UNSTATED
from tunesmith.names import PRECISIONS
from tunesmith.types import CacheState, FailureKind, Origin


def _text(value: Any) -> Any:
    """Pydantic takes the seconds since 1970, too, which the document does not offer."""
    if isinstance(value, int | float) or (isinstance(value, str) and "T" not in value.upper() and "-" not in value[1:]):
        raise ValueError("write a time such as 2026-01-31T12:00:00Z")
    return value


Time = Annotated[dt.datetime, BeforeValidator(_text)]
FAMILY = "Operator, such as `conv2d` or `matmul`."
SIMULATED = "Invented by a simulated device, or measured."
TARGET = "Target hash, device class or tag."
Failure = Annotated[
    str, StringConstraints(pattern=f"^({'|'.join((VALID, ANY_FAILURE, *(kind.value for kind in FailureKind)))})$")
]
Precision = Annotated[str, StringConstraints(pattern=f"^({'|'.join(sorted(PRECISIONS))})$")]


class RecordQuery(Body):
    """Which records are meant; absent members leave it open."""

    workload: str | None = Field(None, max_length=64, description="Hash of a workload.")
    family: str | None = Field(None, max_length=100, description=FAMILY)
    target: str | None = Field(None, max_length=200, description=TARGET)
    processor: str | None = Field(None, max_length=100, description="Name of a processor.")
    precision: Precision | None = Field(None, description="Precision of the job that measured them.")
    failure: Failure | None = Field(None, description="A failure kind, `none` (those that ran) or `any`.")
    simulated: bool | None = Field(None, description=SIMULATED)
    cache: CacheState | None = Field(None, description="Where timed runs found the weights.")
    job: str | None = Field(None, max_length=40, description="Id of a job of the caller's.")
    origin: Origin | None = Field(None, description="Measured here, or imported: claims that nothing here confirmed.")
    since: Time | None = Field(None, description="Stored at this time or later; UTC where it has no zone.")
    until: Time | None = Field(None, description="Stored before this time.")

    def wanted(self, revoked: bool | None = None) -> RecordFilter:
        """The members as queries take them; with ``revoked`` False without records that are believed no longer."""
        values = {name: getattr(self, name) for name in RecordQuery.model_fields}
        return RecordFilter(**{**values, "since": _utc(self.since), "until": _utc(self.until), "revoked": revoked})


class RecordExport(RecordQuery):
    """Which records a dataset file gets, and what it says of its licence."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"family": "conv2d", "licence": "CC-BY-4.0"}]})

    simulated: bool | None = Field(None, strict=True, description=SIMULATED)
    format: Literal["parquet", "metaschedule"] = Field(
        "parquet",
        description="`metaschedule`: a zip with a MetaSchedule database of the best schedules of one target; it takes "
        "`workload`, `family`, `target` and `cache` alone.",
    )
    licence: str = Field(UNSTATED, min_length=1, max_length=200, description="Such as `CC-BY-4.0`; kept in the file.")


class RecordPage(RecordQuery):
    """A page of records."""

    sort: Literal["id", "-id", "latency"] = Field(
        "-id",
        description="`-id`: newest first. `latency`: fastest first, of one workload, which must be named.",
    )
    limit: Limit = 50
    cursor: Cursor = None


def _utc(time: dt.datetime | None) -> dt.datetime | None:
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=dt.timezone.utc)
