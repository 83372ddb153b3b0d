"""Schedules without a measurement: for all tasks of a job when it begins, and for those that it may not come to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy.orm import Session

from db.models import Job, ModelTask, WorkloadRow
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
from workers.core.choosers import Answering, beside_others
from workers.core.context import Context
from workers.core.leased import Lease
from workers.tvm_backend.design_space import unmeasured
from workers.tvm_backend.design_space.sketch import SketchBody

TASK_SECONDS = 0.3
"""What a choice takes, where two cores make them."""
LONGEST = 0.5
"""Part of a budget of seconds that choices for all tasks may take before anything is measured."""


def begins_with_answers(job: Job, target: Target, tasks: int) -> bool:
    """Whether a job begins with schedules of all its tasks.

    One that measures nothing does; so does one that has the time, whose first rounds measure these and nothing else.
    """
    if job.budget_trials == 0:
        return True
    if job.budget_seconds is None or job.collecting is not None or not job.warm_start:
        return False
    return target.kind == "llvm" and TASK_SECONDS * tasks <= LONGEST * job.budget_seconds


@contextmanager
def giving_answers(
    context: Context, lease: Lease, job: Job, target: Target, tasks: Sequence[tuple[ModelTask, WorkloadRow]]
) -> Iterator[Callable[[Sequence[PlannedTask]], Sequence[PlannedTask]]]:
    """What gives the planned tasks of a job schedules, if it begins with any. Processes begin at once, while the design
    spaces are generated.

    A task of which a champion is known keeps that, and so does its place: what was measured is not replaced by what was
    not.
    """
    if not begins_with_answers(job, target, len(tasks)):
        yield lambda planned: planned
        return
    with context.readers() as session:
        settled = _settled(session, target, [(row.hash, task.alternative_of) for task, row in tasks])
    rows = {row.hash: row for _, row in tasks if row.hash not in settled}
    surroundings = (context.nest_forms, lease.unit, context.settings.lease_file, lease.check)
    with beside_others(len(rows), *surroundings) as answers:
        yield lambda planned: _with_answers(context, target, planned, rows, answers)


def _with_answers(
    context: Context,
    target: Target,
    planned: Sequence[PlannedTask],
    rows: Mapping[str, WorkloadRow],
    answers: Answering,
) -> list[PlannedTask]:
    """The tasks, each of those in ``rows`` with a schedule that was not measured on it, where there is something to
    decide."""
    wanted = [task for task in planned if task.tunable and task.workload in rows]
    bodies = {task.workload: [SketchBody.from_json(body) for body in task.sketches.values()] for task in wanted}
    with context.readers() as session:
        subjects = {key: _subject(rows[key], own) for key, own in bodies.items()}
        near = {workload: siblings.relatives(session, about, target.hash) for workload, about in subjects.items()}
        limits = devices.calibration(session, target.device_class)
    calibration = Calibration.model_validate(limits) if limits else None

    def question(task: PlannedTask) -> Question:
        row, module = rows[task.workload], context.blobs.get_bytes(rows[task.workload].module_blob)
        dtypes, own = tuple(dtype for dtype, _ in row.args), tuple(bodies[task.workload])
        about = ((task.name, task.workload), row.family, dtypes, module, target)
        return Question(*about, own, tuple(near[task.workload]), calibration)

    found = answers([question(task) for task in wanted])
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


def _settled(session: Session, target: Target, pairs: Sequence[tuple[str, str | None]]) -> set[str]:
    """Workloads with a champion, and those at the same places of the model; a pair: a task, what it may replace."""
    known = champions.known(session, [workload for workload, _ in pairs], target.hash)
    return known | {a for a, b in pairs if b in known} | {b for a, b in pairs if b is not None and a in known}


def _subject(row: WorkloadRow, bodies: Sequence[SketchBody]) -> siblings.Subject:
    return siblings.Subject(Likeness.of(row), bodies)
