"""Reading messages that may come from another version of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from tunesmith.messages import (
    VERSION,
    EvaluateModel,
    ImportRecords,
    IngestModel,
    JudgeProposals,
    ListProgram,
    MeasureBatch,
    Message,
    PrepareJob,
    ProposeRound,
    TrainCostModel,
    Unreadable,
)

Kind = TypeVar("Kind", bound=Message)
ROWS: Final[Mapping[type[Message], str]] = {
    IngestModel: "model_id",
    ImportRecords: "import_id",
    PrepareJob: "job_id",
    ProposeRound: "round_id",
    ListProgram: "listing_id",
    JudgeProposals: "set_id",
    TrainCostModel: "cost_model_id",
    MeasureBatch: "batch_id",
    EvaluateModel: "evaluation_id",
}
"""The field of each message about work that names its row. It and ``attempt`` are the same in all versions."""
MAX_REASON = 300


class UnreadableError(Exception):
    """A message about work that another version of the service wrote; ``found`` says which and why."""

    def __init__(self, found: Unreadable) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        """The reason."""
        return self.found.reason


def read(kind: type[Kind], body: object) -> Kind:
    """The message that ``body`` holds.

    Raises:
        UnreadableError: it names a row and an attempt, and another version wrote it.
        ValidationError: it is no such message at all.
    """
    version = body.get("version") if isinstance(body, Mapping) else None
    if version == VERSION:
        try:
            return kind.model_validate(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            found = _unreadable(kind, body, reason)
            if found is None:
                raise
            raise UnreadableError(found) from error
    found = _unreadable(kind, body, f"it has version {version}, and this worker reads version {VERSION}")
    if found is None or type(version) is not int:
        return kind.model_validate(body)  # which says what is wrong with it
    raise UnreadableError(found)


def _unreadable(kind: type[Message], body: Any, reason: str) -> Unreadable | None:
    """None where the body does not even say which work it is about: then nobody's version is to blame."""
    row = body.get(ROWS[kind]) if kind in ROWS and isinstance(body, Mapping) else None
    attempt = body.get("attempt") if isinstance(body, Mapping) else None
    if not isinstance(row, str | int) or type(attempt) is not int or len(str(row)) > MAX_REASON:
        return None
    about = f"{kind.task} of row {row} cannot be read: {reason}"[:MAX_REASON]
    return Unreadable(message=kind.task, row=str(row), attempt=attempt, reason=about)
