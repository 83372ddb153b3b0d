"""What an event of each kind says.

An event is stored as its kind and a JSON object. The classes below are the only way to make one: their fields are the
members of that object, and their docstrings say when it happens (``docs/reference/events.md`` is made of them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar

from typing_extensions import dataclass_transform

from tunesmith.event_kinds import EventKind


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class EventData:
    """What an event says; each kind of it is a frozen dataclass."""

    kind: ClassVar[EventKind]

    def __init_subclass__(cls, *, kind: EventKind | None = None) -> None:
        if kind is not None:
            cls.kind = kind
        dataclass(frozen=True)(cls)

    def to_json(self) -> dict[str, Any]:
        """The object that is stored next to the kind."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "kind":
                continue
            if each.metadata.get("merged"):
                found |= value
            elif value is not None or not each.metadata.get("optional"):
                found[member(each)] = value
        return found


def member(each: Field[Any]) -> str:
    """A field's name in JSON."""
    return str(each.metadata.get("name", each.name))


_OPTIONAL = {"optional": True}  # left out where it is None
_MERGED = {"merged": True}  # a mapping whose members are the object's own
_FROM = {"name": "from"}


class StateChanged(EventData):
    """A row became another state.

    Attributes:
        kind: see :func:`kind_of`.
        preparation: preparation of a model's variant.
        more: what the step knows, such as ``problem``.
    """

    kind: EventKind  # type: ignore[misc]
    id: int | str
    preparation: str | None = field(metadata=_OPTIONAL)
    old: str = field(metadata=_FROM)
    to: str
    more: Mapping[str, Any] = field(default_factory=dict, metadata=_MERGED)


class Retried(EventData):
    """Work is handed out again; ``kind``: see :func:`kind_of`."""

    kind: EventKind  # type: ignore[misc]
    id: int | str
    preparation: str | None = field(metadata=_OPTIONAL)
    attempt: int
    reason: str


def kind_of(noun: str, what: str) -> EventKind:
    """The kind of a change to a state, or of ``retried``, of a noun such as ``cost_model``."""
    return EventKind(f"{noun}_{what}")


class ChallengerRejected(EventData, kind=EventKind.CHALLENGER_REJECTED):
    """A finalist was measured again and did not become champion; `reason` is `not_faster`, `overtaken`,
    `unchecked` or a failure such as `wrong_result`."""

    task: int
    name: str
    batch: int
    record: int
    reason: str
    seconds: float | None
    champion_seconds: float | None
    p_value: float | None
    error: float | None
    tolerance: float | None


class ChampionAdopted(EventData, kind=EventKind.CHAMPION_ADOPTED):
    """Another job found a faster schedule for a shared task, and this job adopted it."""

    task: int
    name: str
    seconds: float
    before: float | None
    record: int
    found_by: str | None


class ChampionRevoked(EventData, kind=EventKind.CHAMPION_REVOKED):
    """A task's best schedule was revoked, and the next best replaced it."""

    task: int
    name: str
    before: float | None
    seconds: float | None
    record: int | None
    reason: str


class ClockMoved(EventData, kind=EventKind.CLOCK_MOVED):
    """The database's clock was set forward or back by `seconds`; deadlines and budgets moved with it."""

    seconds: float


class CostModelQueued(EventData, kind=EventKind.COST_MODEL_QUEUED):
    """Enough new records are there to fit a cost model."""

    id: str
    number: int


class DeviceHealthChanged(EventData, kind=EventKind.DEVICE_HEALTH):
    """A device began to drift, went into quarantine or to rest, left it, or its worker cannot read messages."""

    name: str
    old: str = field(metadata=_FROM)
    to: str
    drift: float | None
    reason: str | None = field(default=None, metadata=_OPTIONAL)


class DeviceJoined(EventData, kind=EventKind.DEVICE_JOINED):
    """A device registered, or came back."""

    name: str
    host: str
    device_classes: Sequence[str]


class DeviceLeft(EventData, kind=EventKind.DEVICE_LEFT):
    """A device signed off."""

    name: str
    host: str
    device_classes: Sequence[str]


class EvaluationQueued(EventData, kind=EventKind.EVALUATION_QUEUED):
    """Tuning is over; the compiled model is about to be checked and timed."""

    device_class: str


class JobChanged(EventData, kind=EventKind.JOB_CHANGED):
    """Priority, budget, name, tags or comment were changed; the new values are members, too."""

    id: str
    values: Mapping[str, Any] = field(metadata=_MERGED)


class JobClockStarted(EventData, kind=EventKind.JOB_CLOCK_STARTED):
    """The job's clock runs again: a device is available."""

    id: str


class JobClockStopped(EventData, kind=EventKind.JOB_CLOCK_STOPPED):
    """The job's clock stopped: the job waits for a device."""

    id: str


class JobDeleted(EventData, kind=EventKind.JOB_DELETED):
    """A job was deleted; its records stay."""

    id: str


class JobQueued(EventData, kind=EventKind.JOB_QUEUED):
    """A job was submitted; or its precision was chosen, and its model is imported in that (`from` preparing)."""

    id: str
    to: str
    model: str
    target: str


class MessageUnreadable(EventData, kind=EventKind.MESSAGE_UNREADABLE):
    """A worker of another version could not read a message, and takes no more."""

    id: int | str
    noun: str
    worker: str
    message: str
    speaks: int
    version: int
    reason: str


class ModelDeleted(EventData, kind=EventKind.MODEL_DELETED):
    """A model was deleted."""

    id: str
    name: str


class ModelImporting(EventData, kind=EventKind.MODEL_IMPORTING):
    """A model was uploaded, or a job needs it prepared in another way."""

    id: str
    preparation: str
    name: str


class NewBest(EventData, kind=EventKind.NEW_BEST):
    """A task has a faster schedule, confirmed against the former one; or its schedule, measured again, is faster than
    before."""

    task: int
    name: str
    seconds: float | None
    before: float | None
    record: int | None
    batch: int


class PrecisionChosen(EventData, kind=EventKind.PRECISION_CHOSEN):
    """The precision of a job that asked for `auto` was chosen."""

    id: str
    precision: str
    reason: str


class ProposalSetQueued(EventData, kind=EventKind.PROPOSAL_SET_QUEUED):
    """Somebody proposed candidates of a task."""

    id: int
    task: int
    name: str
    source: str
    author: str
    candidates: int


class RecordImportQueued(EventData, kind=EventKind.RECORD_IMPORT_QUEUED):
    """A user sent a file of records."""

    id: str
    size: int


class RecordsRevoked(EventData, kind=EventKind.RECORDS_REVOKED):
    """Records were revoked."""

    records: int
    champions: int
    tasks: int
    reason: str


class ReportRefused(EventData, kind=EventKind.REPORT_REFUSED):
    """A measure worker's report was refused, and nothing of it was stored ([reasons](../explanation/reports.md)); at
    most 40 among the newest 2000 events."""

    reason: str
    detail: str
    worker: str | None
    message: str
    row: int | str | None


class RoundOpened(EventData, kind=EventKind.ROUND_OPENED):
    """The allocator chose a task."""

    id: int
    number: int
    task: int
    name: str
    size: int
    reason: str


class TaskExhausted(EventData, kind=EventKind.TASK_EXHAUSTED):
    """Nothing more is proposed for a task; where its space, its search or its candidates fail, a `problem` says so."""

    task: int
    name: str
    problem: Mapping[str, Any] | None = field(default=None, metadata=_OPTIONAL)


class WorkerEnrolled(EventData, kind=EventKind.WORKER_ENROLLED):
    """A measure worker was enrolled."""

    id: str
    name: str
    by: str


class WorkerRevoked(EventData, kind=EventKind.WORKER_REVOKED):
    """A measure worker was revoked."""

    id: str
    name: str
    by: str
