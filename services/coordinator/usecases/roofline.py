"""How fast a job's model can run at best on its device."""

from __future__ import annotations

from collections.abc import Iterable

from db.models import TargetRow
from db.queries import by_key, devices
from db.queries import tasks as task_rows
from db.queries.tasks import BoundTask
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.usecases.jobs import visible
from tunesmith.answers.curves import RooflineBody
from tunesmith.dataset.judge import arguments_of
from tunesmith.measuring.plausibility import least_seconds
from tunesmith.messages import Calibration


def roofline(context: InContext, caller: InCaller, job_id: str) -> RooflineBody:
    """The roofline bound of the tunable tasks, by the latest calibration of a device of the job's class."""
    with context.reading() as session:
        job = visible(session, caller, job_id)
        target = by_key.find(session, TargetRow, job.target_hash) if job.target_hash is not None else None
        found = devices.calibration(session, target.device_class) if target is not None else None
        if target is None or found is None:
            return RooflineBody(seconds=None, peak_flops=None, bandwidth=None)
        calibration, cores = Calibration.model_validate(found), int(target.json.get("num-cores") or 1)

        def find() -> RooflineBody:
            return RooflineBody(
                seconds=bound(task_rows.to_bound(session, job_id), job.precision, calibration, cores),
                peak_flops=calibration.peak_flops,
                bandwidth=calibration.bandwidth,
            )

        return context.ended.rooflines.one(session, job_id, find, about=calibration.model_dump_json())


def bound(tasks: Iterable[BoundTask], precision: str, calibration: Calibration, cores: int) -> float | None:
    """Seconds of one run of the model at best; of tasks that may stand for one another the one with the least counts.

    None without a task.
    """
    least: dict[str, float] = {}
    weights: dict[str, int] = {}
    for task in tasks:
        args = arguments_of(task.family, task.args, precision)
        place = task.alternative_of or task.workload_hash
        seconds = least_seconds(task.flops, args, calibration, cores)
        least[place] = min(least.get(place, seconds), seconds)
        if task.alternative_of is None:
            weights[place] = task.weight
    return sum(weight * least[place] for place, weight in weights.items()) if weights else None
