"""Whether what the coordinator depends on is there."""

from __future__ import annotations

import time
from collections.abc import Callable

from db.engine import current_revision, head_revision
from db.queries import devices, fleet
from services.coordinator.context import Context
from tunesmith import __version__
from tunesmith.answers.fleet import Check, Health
from tunesmith.messages import Calibration


def ready(context: Context) -> Health:
    """Database, migrations, blobs and broker, each with its milliseconds."""
    checks = {
        "database": _timed(lambda: _database(context)),
        "blobs": _timed(lambda: _blobs(context)),
        "broker": _timed(lambda: "" if context.publisher.ping() else "the broker does not answer; work waits"),
    }
    ok = all(check.ok for check in checks.values())
    return Health(status="ok" if ok else "degraded", version=__version__, checks=checks)


def without_details(found: Health) -> Health:
    """What strangers see: which parts work, no reasons, which name hosts and versions, and no durations."""
    checks = {name: Check(ok=check.ok, ms=0.0) for name, check in found.checks.items()}
    return found.model_copy(update={"checks": checks, "version": ""})


def _timed(check: Callable[[], str]) -> Check:
    began = time.perf_counter()
    try:
        detail = check()
    except Exception as error:  # whatever is wrong with a dependency is this check's answer
        detail = f"{type(error).__name__}: {error}"[:300]
    return Check(ok=not detail, ms=round((time.perf_counter() - began) * 1e3, 2), detail=detail)


def _database(context: Context) -> str:
    found, wanted = current_revision(context.reader_engine), head_revision()
    context.probes.database()
    return "" if found == wanted else f"the schema is at {found}, this version needs {wanted}"


def _blobs(context: Context) -> str:
    context.probes.blobs()
    return ""


def gauges(context: Context) -> dict[str, dict[str, float]]:
    """What the database knows, for the metrics page."""
    with context.reading() as session:
        found = fleet.counts(session)
        refused = fleet.refusals(session)
        trials = context.trials.of(session)
        known = len(fleet.devices(session))
        alive = devices.live(session, context.settings.device_timeout)
    figures = {device.name: Calibration.model_validate(device.calibration) for device in alive if device.calibration}
    quarantined = sum(not devices.is_measurable(device) for device in alive)
    return {
        **found,
        "trials": trials,
        "refused": refused,
        "devices": {"alive": len(alive), "gone": known - len(alive), "quarantined": quarantined},
        "drift": {name: it.drift for name, it in figures.items()},
        "noise_floor": {name: it.noise_floor for name, it in figures.items()},
        "peak_flops": {name: it.peak_flops for name, it in figures.items()},
        "bandwidth": {name: it.bandwidth for name, it in figures.items()},
    }
