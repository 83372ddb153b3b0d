"""The design space of a task: what there is to choose, and what came of it so far."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Path
from sqlalchemy.orm import Session

from db.models import JobTask, Record
from db.queries import by_key, sketches
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import MAX_ID
from services.coordinator.usecases import analysis
from services.coordinator.usecases.jobs import visible_task
from services.coordinator.usecases.trials import failures_of
from tunesmith.answers.spaces import ChampionBody, KnobRangeBody, SketchBody, SpaceBody
from tunesmith.answers.trials import KnobBody
from tunesmith.space.knob_names import described, knob_names
from tunesmith.space.knobs import knob_from_json

router = APIRouter(prefix="/v1/jobs/{job_id}/tasks/{task_id}", tags=["jobs"])
TaskId = Annotated[int, Path(ge=0, le=MAX_ID, description="A task's id.")]


@router.get("/space", name="task_space")
def space(context: InContext, caller: InCaller, job_id: str, task_id: TaskId) -> SpaceBody:
    """Sketches with their knobs by name, the champion's decisions, and how candidates failed."""
    with context.reading() as session:
        task = visible_task(session, caller, job_id, task_id)
        bodies = sketches.get(session, task.sketches)
        failed = failures_of(session, job_id, task_id)
        champion = _champion(session, task, bodies)
    every = [_sketch(key, bodies[key]) for key in task.sketches if key in bodies]
    return SpaceBody(
        task=task.id,
        name=task.name,
        workload=task.workload_hash,
        points=math.fsum(each.points for each in every),
        sketches=every,
        champion=champion,
        failures=failed,
    )


_ANALYSIS = "Importance of knobs, scores of the cost model beside latencies, and how well it ranked each round."
router.get("/analysis", name="task_analysis", description=_ANALYSIS)(analysis.analysis)


def _sketch(key: str, body: dict[str, Any]) -> SketchBody:
    names = knob_names(body["trace"])
    knobs = [
        KnobRangeBody(
            name=name.name,
            about=name.about,
            kind=knob["kind"],
            size=knob_from_json(knob).size,
            choices=list(name.choices),
            extent=knob.get("extent"),
            parts=knob.get("parts"),
            max_innermost=knob.get("max_innermost"),
            low=knob.get("low"),
            high=knob.get("high"),
        )
        for name, knob in zip(names, body["knobs"], strict=False)
    ]
    return SketchBody(sketch=key, points=float(math.prod(knob.size for knob in knobs)), knobs=knobs)


def _champion(session: Session, task: JobTask, bodies: dict[str, dict[str, Any]]) -> ChampionBody | None:
    row = by_key.get(session, Record, task.best_record_id) if task.best_record_id is not None else None
    if row is None or row.latency is None:
        return None
    body = bodies.get(row.sketch_hash or "")
    knobs = described(body["trace"], row.decisions) if body is not None else []
    return ChampionBody(
        trial=row.id,
        latency=row.latency,
        sketch=row.sketch_hash,
        knobs=[KnobBody(**knob) for knob in knobs],
    )
