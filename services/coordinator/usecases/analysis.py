"""What a task's trials tell of its knobs and of the cost model, aggregated so that a page can draw it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import Path, Query

from db.queries import analysis as rows
from db.queries import sketches
from db.queries.analysis import Expectation, Point
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import MAX_ID
from services.coordinator.curve import sampled
from services.coordinator.usecases.jobs import visible, visible_task
from tunesmith.answers.analysis import AnalysisBody, KnobColumnBody, PointBody, RankedRoundBody, SketchTrialsBody
from tunesmith.errors import NotFound
from tunesmith.space.importance import explained
from tunesmith.space.knob_names import numbered

MAX_POINTS = 2000
FASTEST = 5
"""One of so many points is of the fastest; the others are evenly of all."""


def analysis(
    context: InContext,
    caller: InCaller,
    job_id: str,
    task_id: Annotated[int, Path(ge=0, le=MAX_ID, description="A task's id.")],
    sketch: Annotated[
        str | None, Query(max_length=64, description="Whose knobs; without it, those of the sketch with most trials.")
    ] = None,
    points: Annotated[int, Query(ge=10, le=MAX_POINTS, description="Most points.")] = MAX_POINTS,
) -> AnalysisBody:
    """Importance of knobs, scores beside latencies, and how well the cost model ranked each round. Raises NotFound."""
    with context.reading() as session:
        job, task = visible(session, caller, job_id), visible_task(session, caller, job_id, task_id)
        found = rows.by_sketch(session, task_id)
        chosen = _chosen(found, sketch)
        ran = rows.points(session, chosen_trials(rows.latencies(session, task_id), points))
        expected = rows.expectations(session, sorted({each.batch for each in ran if each.batch is not None}))
        bodies = sketches.get(session, [chosen] if chosen is not None else [])
        ranked = rows.rankings(session, task_id)
    knobs, values = _knobs(bodies.get(chosen or ""), [each for each in ran if each.sketch == chosen])
    return AnalysisBody(
        task=task.id,
        name=task.name,
        simulated=job.simulated,
        trials=sum(each.trials for each in found),
        sketch=chosen,
        sketches=[SketchTrialsBody(**each._asdict()) for each in found],
        knobs=knobs,
        points=[_point(each, expected, values.get(each.trial)) for each in ran],
        rounds=[
            RankedRoundBody(
                round=number,
                programs=int(metrics.get("programs") or 0),
                pairwise=metrics.get("pairwise"),
                top1=metrics.get("top1"),
            )
            for number, metrics in ranked
        ],
    )


def chosen_trials(latencies: Sequence[tuple[int, float]], most: int) -> list[int]:
    """At most ``most`` of some trials (id, latency): the fastest of them, and others evenly by position."""
    if len(latencies) <= most:
        return [key for key, _ in latencies]
    fastest = sorted(latencies, key=lambda each: each[1])[: most // FASTEST]
    kept = {key for key, _ in fastest}
    others = [key for key, _ in latencies if key not in kept]
    return sorted([*kept, *(others[i] for i in sampled(len(others), most - len(kept)))])


def _chosen(found: Sequence[rows.SketchTrials], wanted: str | None) -> str | None:
    """The sketch whose knobs are looked at; None where there is none. Raises NotFound."""
    known = [each.sketch for each in found if each.sketch is not None]
    if wanted is not None and wanted not in known:
        raise NotFound(f"no trial of sketch {wanted} ran in this task", field="sketch", value=wanted)
    return wanted or (known[0] if known else None)


def _knobs(body: dict[str, Any] | None, ran: Sequence[Point]) -> tuple[list[KnobColumnBody], dict[int, list[float]]]:
    """Columns with what each explains, the most important first, and the values of each trial by its id."""
    if body is None or not ran:
        return [], {}
    heads, numbers = numbered(body["trace"], [each.decisions for each in ran])
    table = np.array(numbers, dtype=np.float64).reshape(len(ran), len(heads))
    weight = explained(table, np.array([each.latency for each in ran]))
    order = np.argsort(-weight, kind="stable")
    knobs = [KnobColumnBody(name=heads[i].name, about=heads[i].about, importance=float(weight[i])) for i in order]
    return knobs, {each.trial: row for each, row in zip(ran, table[:, order].tolist(), strict=True)}


def _point(each: Point, expected: dict[int, Expectation], values: list[float] | None) -> PointBody:
    batch = expected.get(each.batch or 0)
    score = batch.scores[each.place] if batch is not None and each.place < len(batch.scores) else None
    number = batch.round if batch is not None else None
    return PointBody(trial=each.trial, round=number, latency=each.latency, score=score, values=values)
