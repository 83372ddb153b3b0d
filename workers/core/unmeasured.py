"""Schedules for tasks that are not measured: all of a job without trials, and those that a job may not come to."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from db.models import WorkloadRow
from db.queries import by_key, champions, devices, sketches
from db.queries.relatives import Likeness
from db.queries.work_parts import RoundSubject
from db.transactions.job_plan import PlannedTask
from db.transactions.rounds import store_answer
from tunesmith.messages import Calibration
from tunesmith.targets import Target
from tunesmith.unmeasured import Source
from workers.core import siblings
from workers.core.answering import Question
from workers.core.choosers import beside_others
from workers.core.context import Context
from workers.core.leased import Lease
from workers.tvm_backend.design_space import unmeasured
from workers.tvm_backend.design_space.sketch import SketchBody


def with_answers(
    context: Context, lease: Lease, target: Target, planned: Sequence[PlannedTask], rows: Mapping[str, WorkloadRow]
) -> list[PlannedTask]:
    """The tasks, each with a schedule that was not measured on it, where there is something to decide.

    A task of which a champion is known keeps that, and so does its place: what was measured is not replaced by what was
    not.
    """
    bodies = {task.workload: [SketchBody.from_json(body) for body in task.sketches.values()] for task in planned}
    with context.readers() as session:
        settled = _settled(session, target, planned)
        wanted = [task for task in planned if task.tunable and task.workload not in settled]
        subjects = {task.workload: _subject(rows[task.workload], bodies[task.workload]) for task in wanted}
        near = {workload: siblings.relatives(session, about, target.hash) for workload, about in subjects.items()}
        limits = devices.calibration(session, target.device_class)
    calibration = Calibration.model_validate(limits) if limits else None

    def question(task: PlannedTask) -> Question:
        row, module = rows[task.workload], context.blobs.get_bytes(rows[task.workload].module_blob)
        dtypes, own = tuple(dtype for dtype, _ in row.args), tuple(bodies[task.workload])
        about = ((task.name, task.workload), row.family, dtypes, module, target)
        return Question(*about, own, tuple(near[task.workload]), calibration)

    surroundings = (context.nest_forms, lease.unit, context.settings.lease_file, lease.check)
    found = beside_others([question(task) for task in wanted], *surroundings)
    made = {answer.workload: answer for answer in found if answer.source is not Source.DEFAULT}
    return _with_one_each([replace(task, answer=made.get(task.workload)) for task in planned])


def give_answer(context: Context, lease: Lease, subject: RoundSubject) -> None:
    """Give the task of a round without candidates a schedule that was not measured, where there is something to
    decide, and finish the round."""
    with context.readers() as session:
        stored = sketches.get(session, subject.sketches)
        row = by_key.existing(session, WorkloadRow, subject.workload)
        bodies = [SketchBody.from_json(stored[sketch]) for sketch in subject.sketches]
        about = _subject(row, bodies)
        warm = subject.options.warm_start
        relatives = siblings.relatives(session, about, subject.target_hash, subject.job_id) if warm else []
        found = devices.calibration(session, subject.device_class)
    calibration = Calibration.model_validate(found) if found else None
    module = context.blobs.get_bytes(subject.module_blob)
    choose = functools.partial(unmeasured.choose, forms=context.nest_forms, unit=lease.unit, hasty=True)
    answer = choose(("", subject.workload), module, subject.target, bodies, relatives, calibration)
    context.write(lambda session: store_answer(session, lease.hold(session), answer))


def _with_one_each(planned: Sequence[PlannedTask]) -> list[PlannedTask]:
    """The tasks, of which of each pair the one that seems faster keeps its answer."""
    answers = {task.workload: task.answer for task in planned if task.answer is not None}
    slower = set()
    for task in planned:
        one, other = answers.get(task.workload), answers.get(task.alternative_of or "")
        if one is not None and other is not None:
            slower.add(max((one, other), key=lambda answer: answer.seconds or 0.0).workload)
    return [replace(task, answer=None) if task.workload in slower else task for task in planned]


def _settled(session: Session, target: Target, planned: Sequence[PlannedTask]) -> set[str]:
    """Workloads with a champion, and those at the same places of the model."""
    known = champions.known(session, [task.workload for task in planned], target.hash)
    pairs = [(task.workload, task.alternative_of) for task in planned if task.alternative_of is not None]
    return known | {a for a, b in pairs if b in known} | {b for a, b in pairs if a in known}


def _subject(row: WorkloadRow, bodies: Sequence[SketchBody]) -> siblings.Subject:
    return siblings.Subject(Likeness.of(row), bodies)
