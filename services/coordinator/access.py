"""Who may call what: one table of every route. The check of keys reads it, and so do the reference page and its test.

Shared among users: hashes of workloads, their schedules and latencies, targets, device classes, devices and queues.
Private: models, jobs, names, weights, owners, records by job, cost models by job. A stranger gets 404, the same as for
what does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from starlette.requests import Request

Scope = Literal["viewer", "user", "operator", "worker", "monitor"]
SCOPES: tuple[Scope, ...] = ("viewer", "user", "operator", "worker", "monitor")
READ: frozenset[str] = frozenset({"viewer", "user", "operator"})
WRITE: frozenset[str] = frozenset({"user", "operator"})
OPERATE: frozenset[str] = frozenset({"operator"})
MONITOR: frozenset[str] = frozenset({"monitor", "operator"})


class Visibility(Enum):
    """What a permitted key sees of what another user owns."""

    NOT_FOUND = "404"
    OWN_ROWS = "own rows only"
    SHARED = "the same"
    UNOWNED = "–"  # nothing on this route belongs to a user


@dataclass(frozen=True)
class Rule:
    """Access to one route.

    Attributes:
        scopes: a key needs one of them; None where no key is asked for.
        sight: what strangers see; operators see everything.
        note: for the reference page.
    """

    scopes: frozenset[str] | None
    visibility: Visibility
    note: str = ""


OPEN = Rule(None, Visibility.UNOWNED)
OWN, CHANGE = Rule(READ, Visibility.NOT_FOUND), Rule(WRITE, Visibility.NOT_FOUND)
LIST, MAKE = Rule(READ, Visibility.OWN_ROWS), Rule(WRITE, Visibility.UNOWNED)
SHARED, ADMIN = Rule(READ, Visibility.SHARED), Rule(OPERATE, Visibility.UNOWNED)
_SUBMIT = Rule(WRITE, Visibility.NOT_FOUND, "a model of another user is answered with 404")
_RECORDS = Rule(
    READ, Visibility.SHARED, "`job` is null where it is not the caller's; as a filter it then finds nothing"
)
_EXPORT = Rule(
    READ, Visibility.SHARED, "names no job, owner, host or device; a job of another user is answered with 404"
)
_BEST = Rule(READ, Visibility.SHARED, "`job` and `record` are null where the finder is not the caller")
_LOG = Rule(READ, Visibility.NOT_FOUND, "`provenance` names no job of another user")
_EVENTS = Rule(READ, Visibility.NOT_FOUND, "`found_by` names no job of another user; a stream ends with its key")
_COST_MODEL = Rule(READ, Visibility.NOT_FOUND, "belongs to the owner of its job, to operators once the job is deleted")
_TARGETS = Rule(READ, Visibility.SHARED, "those of live devices, of champions, and of the caller's jobs")
_BLOB = Rule(None, Visibility.UNOWNED, "needs the signature that a message to a worker carries; without it 401")
_READY = Rule(None, Visibility.UNOWNED, "reasons and durations for `operator` and `monitor`, and where no key is set")
_ENROL = Rule(frozenset({"worker", "operator"}), Visibility.UNOWNED, "all that a key of scope `worker` may do")
_WORKERS = Rule(READ, Visibility.SHARED, "`failures` are told to operators alone")
_CACHE = Rule(READ, Visibility.UNOWNED, "each user has entries of their own, operators, too")
_CACHE_WRITE = Rule(WRITE, Visibility.UNOWNED, "the same")
_METRICS = Rule(MONITOR, Visibility.UNOWNED)

RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/livez"): OPEN,
    ("GET", "/readyz"): _READY,
    ("GET", "/metrics"): _METRICS,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/{name}"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("POST", "/v1/models"): MAKE,
    ("GET", "/v1/models"): LIST,
    ("GET", "/v1/models/{model_id}"): OWN,
    ("GET", "/v1/models/{model_id}/tasks"): OWN,
    ("DELETE", "/v1/models/{model_id}"): CHANGE,
    ("POST", "/v1/jobs"): _SUBMIT,
    ("GET", "/v1/jobs"): LIST,
    ("GET", "/v1/jobs/{job_id}"): OWN,
    ("PATCH", "/v1/jobs/{job_id}"): CHANGE,
    ("DELETE", "/v1/jobs/{job_id}"): CHANGE,
    ("POST", "/v1/jobs/{job_id}/cancel"): CHANGE,
    ("POST", "/v1/jobs/{job_id}/pause"): CHANGE,
    ("POST", "/v1/jobs/{job_id}/resume"): CHANGE,
    ("GET", "/v1/jobs/{job_id}/tasks"): OWN,
    ("GET", "/v1/jobs/{job_id}/tasks/{task_id}/space"): OWN,
    ("GET", "/v1/jobs/{job_id}/tasks/{task_id}/analysis"): OWN,
    ("GET", "/v1/jobs/{job_id}/tasks/{task_id}/curve"): OWN,
    ("GET", "/v1/jobs/{job_id}/tasks/{task_id}/proposals"): OWN,
    ("POST", "/v1/jobs/{job_id}/tasks/{task_id}/proposals"): CHANGE,
    ("GET", "/v1/jobs/{job_id}/families"): OWN,
    ("GET", "/v1/jobs/{job_id}/curve"): OWN,
    ("GET", "/v1/jobs/{job_id}/forecast"): OWN,
    ("GET", "/v1/jobs/{job_id}/roofline"): OWN,
    ("GET", "/v1/jobs/{job_id}/rounds"): OWN,
    ("GET", "/v1/jobs/{job_id}/trials"): OWN,
    ("GET", "/v1/jobs/{job_id}/trials/{trial_id}"): OWN,
    ("GET", "/v1/jobs/{job_id}/trials/{trial_id}/program"): OWN,
    ("POST", "/v1/jobs/{job_id}/trials/{trial_id}/program"): CHANGE,
    ("GET", "/v1/jobs/{job_id}/decisions"): OWN,
    ("GET", "/v1/jobs/{job_id}/failures"): OWN,
    ("GET", "/v1/jobs/{job_id}/events"): _EVENTS,
    ("GET", "/v1/jobs/{job_id}/best"): _LOG,
    ("GET", "/v1/targets"): _TARGETS,
    ("GET", "/v1/devices"): SHARED,
    ("GET", "/v1/devices/history"): SHARED,
    ("GET", "/v1/workers"): _WORKERS,
    ("POST", "/v1/workers"): _ENROL,
    ("GET", "/v1/workers/log"): ADMIN,
    ("GET", "/v1/workers/enrolled"): ADMIN,
    ("DELETE", "/v1/workers/enrolled/{worker_id}"): ADMIN,
    ("GET", "/v1/queues"): SHARED,
    ("GET", "/v1/records"): _RECORDS,
    ("GET", "/v1/records/stats"): _RECORDS,
    ("POST", "/v1/records/export"): _EXPORT,
    ("POST", "/v1/records/import"): MAKE,
    ("GET", "/v1/records/imports"): LIST,
    ("GET", "/v1/records/imports/{import_id}"): OWN,
    ("GET", "/v1/workloads"): SHARED,
    ("GET", "/v1/workloads/{workload}"): SHARED,
    ("GET", "/v1/workloads/{workload}/best"): _BEST,
    ("POST", "/v1/workloads/{workload}/revoke"): ADMIN,
    ("GET", "/v1/costmodels"): LIST,
    ("GET", "/v1/costmodels/{key}"): _COST_MODEL,
    ("POST", "/v1/costmodels/train"): ADMIN,
    ("GET", "/v1/cache/{namespace}"): _CACHE,
    ("GET", "/v1/cache/{namespace}/{key}"): _CACHE,
    ("PUT", "/v1/cache/{namespace}/{key}"): _CACHE_WRITE,
    ("DELETE", "/v1/cache/{namespace}/{key}"): _CACHE_WRITE,
    ("POST", "/v1/keys"): ADMIN,
    ("GET", "/v1/keys"): ADMIN,
    ("DELETE", "/v1/keys/{key_id}"): ADMIN,
    ("GET", "/v1/audit"): ADMIN,
    ("GET", "/v1/blobs/{sha}"): _BLOB,
}
"""Every route of the API. One that is missing here is for operators alone, and a test fails."""


def scopes_of(request: Request) -> frozenset[str]:
    """The scopes of which a key needs one for this request."""
    method = "GET" if request.method == "HEAD" else request.method
    rule = RULES.get((method, getattr(request.scope.get("route"), "path", "")), ADMIN)
    return frozenset(SCOPES) if rule.scopes is None else rule.scopes
