"""One error tree. Each class carries a stable ``code`` (problem+json, CLI ``--json``) and an HTTP status."""

from __future__ import annotations

from typing import Any, ClassVar

from tunesmith.resources import problem_url


class TunesmithError(Exception):
    """Base of everything that Tunesmith raises on purpose.

    Args:
        detail: one sentence that names the field, the value and the remedy.
        field: the offending input field, when there is one.
        value: what was given.
        **extra: further members of the problem object.
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(
        cls, *, code: str = "", title: str = "", status: int | None = None, exit_code: int | None = None
    ) -> None:
        """What a class does not give is its base's; a new ``code`` makes a new title."""
        if code:
            cls.code, cls.title = code, title or code.replace("_", " ").capitalize()
        cls.status = cls.status if status is None else status
        cls.exit_code = cls.exit_code if exit_code is None else exit_code

    def __init__(self, detail: str, *, field: str | None = None, value: Any = None, **extra: Any) -> None:
        super().__init__(detail)
        self.detail, self.field, self.value, self.extra = detail, field, value, extra

    def problem(self) -> dict[str, Any]:
        """The RFC 9457 problem object."""
        body: dict[str, Any] = {
            "type": problem_url(self.code),
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.field is not None:
            body["errors"] = [{"field": self.field, "value": self.value, "detail": self.detail}]
        body.update(self.extra)
        return body


class InvalidInput(TunesmithError, code="invalid_input", status=422, exit_code=2):
    """A request or an argument is invalid."""


class InvalidUsage(InvalidInput, code="usage", status=400):
    """A command line with unknown or missing arguments."""


class InvalidBudget(InvalidInput, code="invalid_budget"):
    """Zero, negative or absurd trials or seconds."""


class UnknownSearcher(InvalidInput, code="unknown_searcher"):
    """No searcher of that name."""


class UnknownAllocator(InvalidInput, code="unknown_allocator"):
    """No allocator of that name."""


class UnknownCostModel(InvalidInput, code="unknown_cost_model"):
    """No cost model of that name."""


class UnknownSpace(InvalidInput, code="unknown_space", title="Unknown design space"):
    """No design space of that name."""


class UnknownPrecision(InvalidInput, code="unknown_precision"):
    """No precision of that name."""


class PrecisionUnavailable(InvalidInput, code="precision_unavailable"):
    """The precision is not for this target, space or operator."""


class UnknownTarget(InvalidInput, code="unknown_target"):
    """The target is neither a short name, a TVM tag nor a valid target JSON."""


class TargetUnavailable(InvalidInput, code="target_unavailable"):
    """The target is real, but this host cannot run it and no other device can be asked."""


class InvalidOperator(InvalidInput, code="invalid_operator"):
    """An operator spec that does not parse."""


class InvalidProposal(InvalidInput, code="invalid_proposal"):
    """A proposed candidate that is malformed; subclasses say why."""


class UnknownSketch(InvalidProposal, code="unknown_sketch"):
    """The task's design space has no such sketch."""


class UnknownKnob(InvalidProposal, code="unknown_knob"):
    """The sketch has no knob of that name."""


class MissingKnob(InvalidProposal, code="missing_knob"):
    """A proposed candidate says nothing of one of its sketch's knobs."""


class KnobOutOfRange(InvalidProposal, code="knob_out_of_range", title="Knob outside its range"):
    """The value of a knob is none of its choices."""


class ModelRejected(TunesmithError, code="model_rejected", status=422):
    """A model that cannot be imported; subclasses say why."""


class NotAModel(ModelRejected, code="not_a_model", exit_code=2):
    """The file is not an ONNX model, a torch.export archive or TVM JSON."""


class TruncatedModel(ModelRejected, code="truncated_model"):
    """The file starts like a model but is truncated."""


class UnsupportedOperator(ModelRejected, code="unsupported_operator"):
    """TVM's importer lacks operators that the model uses (``operators``: name to count)."""


class DynamicShape(ModelRejected, code="dynamic_shape", title="Dynamic dimension", exit_code=2):
    """An input has a dynamic dimension and no ``--input`` fixes it."""


class NothingToTune(TunesmithError, code="nothing_to_tune", status=422):
    """The model has no task with a decision to tune."""


class MissingDependency(TunesmithError, code="missing_dependency", status=501):
    """An optional package or tool is needed; the detail names the extra to install."""


class NotFound(TunesmithError, code="not_found", status=404):
    """It does not exist, or the key may not see it."""


class Conflict(TunesmithError, code="conflict", status=409):
    """The object's current state does not allow this."""


class IllegalTransition(Conflict, code="illegal_transition", title="Illegal state change"):
    """A state change that the state machine forbids."""


class DuplicateProposal(Conflict, code="duplicate_proposal"):
    """The candidate is proposed, being measured or measured already."""


class ProposalsRefused(Conflict, code="proposals_refused"):
    """The job or the task takes no proposals, or has too many that wait."""


class IdempotencyMismatch(InvalidInput, code="idempotency_mismatch", title="Idempotency key reused"):
    """The same Idempotency-Key came with a different body."""


class PayloadTooLarge(TunesmithError, code="payload_too_large", status=413):
    """The upload exceeds the limit."""


class StorageQuotaExceeded(PayloadTooLarge, code="storage_quota_exceeded"):
    """The user already stores as many models, or bytes of them, as the server allows."""


class Unauthorized(TunesmithError, code="unauthorized", status=401):
    """No valid bearer key."""


class NotEnrolled(TunesmithError, code="not_enrolled", status=403):
    """A measure worker without a key of its own."""


class RateLimited(TunesmithError, code="rate_limited", status=429, title="Too many requests"):
    """Too many requests; see ``Retry-After``."""


class QuotaExceeded(TunesmithError, code="quota_exceeded", status=429):
    """The user already has as many unfinished jobs as the server allows."""


class Unavailable(TunesmithError, code="unavailable", status=503):
    """The database is unreachable, or too busy to write; nothing was changed. See ``Retry-After``."""


class DiskFull(TunesmithError, code="disk_full", status=507):
    """The disk, or the database's disk, is full; nothing was changed. See ``Retry-After``."""


class ServerUnreachable(TunesmithError, code="server_unreachable", status=503):
    """No coordinator answers at the given URL."""


class JobFailed(TunesmithError, code="job_failed"):
    """A job that a command followed ended without success."""


class StackFailed(TunesmithError, code="stack_failed", title="Embedded stack failed"):
    """A process of the embedded stack would not start or keep running."""


class InvalidCandidate(TunesmithError, code="invalid_candidate"):
    """A candidate whose trace does not apply, or that a postprocessor refuses."""


class MeasurementFailed(TunesmithError, code="measurement_failed"):
    """The compiled model could not be built, run or verified."""


class DeviceLost(MeasurementFailed, code="device_lost", status=503):
    """The device, its RPC server or the tracker stopped answering; the work is retried."""


class SchemaMismatch(TunesmithError, code="schema_mismatch", status=503, exit_code=78):
    """The database has the schema of another version; the process stops, and starting it again does not help."""


def catalogue() -> dict[str, type[TunesmithError]]:
    """Every error class by its code; of a class and those derived from it that share its code, the class itself."""
    found: dict[str, type[TunesmithError]] = {}
    todo: list[type[TunesmithError]] = [TunesmithError]
    while todo:
        cls = todo.pop()
        found.setdefault(cls.code, cls)
        todo += cls.__subclasses__()
    return found


def from_problem(body: dict[str, Any]) -> TunesmithError:
    """The exception that a problem object stands for; unknown codes become ``TunesmithError``."""
    cls = catalogue().get(str(body.get("code")), TunesmithError)
    errors = body.get("errors") or [{}]
    known = {"type", "title", "status", "detail", "code", "errors", "instance", "request_id"}
    error = cls(
        str(body.get("detail", "")),
        field=errors[0].get("field"),
        value=errors[0].get("value"),
        **{k: v for k, v in body.items() if k not in known},
    )
    return error


def first_line(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__
