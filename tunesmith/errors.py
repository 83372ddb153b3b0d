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


class InvalidInput(TunesmithError):
    """A request or an argument is invalid."""

    code, status, title, exit_code = "invalid_input", 422, "Invalid input", 2


class InvalidUsage(InvalidInput):
    """A command line with unknown or missing arguments."""

    code, status, title = "usage", 400, "Usage"


class InvalidBudget(InvalidInput):
    """Zero, negative or absurd trials or seconds."""

    code, title = "invalid_budget", "Invalid budget"


class UnknownSearcher(InvalidInput):
    """No searcher of that name."""

    code, title = "unknown_searcher", "Unknown searcher"


class UnknownAllocator(InvalidInput):
    """No allocator of that name."""

    code, title = "unknown_allocator", "Unknown allocator"


class UnknownCostModel(InvalidInput):
    """No cost model of that name."""

    code, title = "unknown_cost_model", "Unknown cost model"


class UnknownSpace(InvalidInput):
    """No design space of that name."""

    code, title = "unknown_space", "Unknown design space"


class UnknownTarget(InvalidInput):
    """The target is neither a short name, a TVM tag nor a valid target JSON."""

    code, title = "unknown_target", "Unknown target"


class TargetUnavailable(InvalidInput):
    """The target is real, but this host cannot run it and no other device can be asked."""

    code, title = "target_unavailable", "Target unavailable"


class InvalidOperator(InvalidInput):
    """An operator spec that does not parse."""

    code, title = "invalid_operator", "Invalid operator"


class ModelRejected(TunesmithError):
    """A model that cannot be imported; subclasses say why."""

    code, status, title = "model_rejected", 422, "Model rejected"


class NotAModel(ModelRejected):
    """The file is not an ONNX model or a torch.export archive."""

    code, title, exit_code = "not_a_model", "Not a model", 2


class TruncatedModel(ModelRejected):
    """The file starts like a model but is truncated."""

    code, title = "truncated_model", "Truncated model"


class UnsupportedOperator(ModelRejected):
    """TVM's importer lacks operators that the model uses (``operators``: name to count)."""

    code, title = "unsupported_operator", "Unsupported operator"


class DynamicShape(ModelRejected):
    """An input has a dynamic dimension and no ``--input`` fixes it."""

    code, title, exit_code = "dynamic_shape", "Dynamic dimension", 2


class NothingToTune(TunesmithError):
    """The model has no task with a decision to tune."""

    code, status, title = "nothing_to_tune", 422, "Nothing to tune"


class MissingDependency(TunesmithError):
    """An optional package or tool is needed; the detail names the extra to install."""

    code, status, title = "missing_dependency", 501, "Missing dependency"


class NotFound(TunesmithError):
    """It does not exist, or the key may not see it."""

    code, status, title = "not_found", 404, "Not found"


class Conflict(TunesmithError):
    """The object's current state does not allow this."""

    code, status, title = "conflict", 409, "Conflict"


class IllegalTransition(Conflict):
    """A state change that the state machine forbids."""

    code, title = "illegal_transition", "Illegal state change"


class IdempotencyMismatch(InvalidInput):
    """The same Idempotency-Key came with a different body."""

    code, title = "idempotency_mismatch", "Idempotency key reused"


class PayloadTooLarge(TunesmithError):
    """The upload exceeds the limit."""

    code, status, title = "payload_too_large", 413, "Payload too large"


class StorageQuotaExceeded(PayloadTooLarge):
    """The user already stores as many models, or bytes of them, as the server allows."""

    code, title = "storage_quota_exceeded", "Storage quota exceeded"


class Unauthorized(TunesmithError):
    """No valid bearer key."""

    code, status, title = "unauthorized", 401, "Unauthorized"


class NotEnrolled(TunesmithError):
    """A measure worker without a key of its own."""

    code, status, title = "not_enrolled", 403, "Not enrolled"


class RateLimited(TunesmithError):
    """Too many requests; see ``Retry-After``."""

    code, status, title = "rate_limited", 429, "Too many requests"


class QuotaExceeded(TunesmithError):
    """The user already has as many unfinished jobs as the server allows."""

    code, status, title = "quota_exceeded", 429, "Quota exceeded"


class Unavailable(TunesmithError):
    """The database is unreachable, or too busy to write; nothing was changed. See ``Retry-After``."""

    code, status, title = "unavailable", 503, "Unavailable"


class DiskFull(TunesmithError):
    """The disk, or the database's disk, is full; nothing was changed. See ``Retry-After``."""

    code, status, title = "disk_full", 507, "Disk full"


class ServerUnreachable(TunesmithError):
    """No coordinator answers at the given URL."""

    code, status, title = "server_unreachable", 503, "Server unreachable"


class JobFailed(TunesmithError):
    """A job that a command followed ended without success."""

    code, title = "job_failed", "Job failed"


class StackFailed(TunesmithError):
    """A process of the embedded stack would not start or keep running."""

    code, title = "stack_failed", "Embedded stack failed"


class InvalidCandidate(TunesmithError):
    """A candidate whose trace does not apply, or that a postprocessor refuses."""

    code, title = "invalid_candidate", "Invalid candidate"


class MeasurementFailed(TunesmithError):
    """The compiled model could not be built, run or verified."""

    code, title = "measurement_failed", "Measurement failed"


class DeviceLost(MeasurementFailed):
    """The device, its RPC server or the tracker stopped answering; the work is retried."""

    code, status, title = "device_lost", 503, "Device lost"


class SchemaMismatch(TunesmithError):
    """The database has the schema of another version; the process stops, and starting it again does not help."""

    code, status, title, exit_code = "schema_mismatch", 503, "Schema mismatch", 78


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
