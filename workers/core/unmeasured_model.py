"""Schedules for a model that is compiled on this machine without a job: what is known, rescaled or estimated."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from db.blobs import BlobStore
from db.models import WorkloadRow
from db.queries import by_key, champions, devices
from db.queries.relatives import Likeness
from tunesmith.errors import MissingDependency
from tunesmith.messages import Calibration
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.targets import Target
from tunesmith.types import CacheState
from tunesmith.unmeasured import Answer, Known, Source
from workers.core import siblings
from workers.core.answering import Question
from workers.core.choosers import Answering, here
from workers.tvm_backend.design_space import space
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.design_space.unmeasured import Relative
from workers.tvm_backend.passes.extract_tasks import Extracted, extract_tasks

Schedules = list[tuple[Extracted, Answer]]


def schedules(
    module: bytes,
    target: Target,
    session: Session | None,
    elsewhere: Callable[[str], Known | None] = lambda workload: None,
    blobs: BlobStore | None = None,
    answering: Answering = here,
) -> Schedules:
    """A schedule for each task of a prepared model, in the model's order.

    A task whose schedule is known has the program that was tuned: its blocks may have other names than the model's.

    Args:
        module: JSON of the prepared module.
        session: reads the dataset of earlier jobs; None: there is none.
        elsewhere: asked first for what is known of a workload, by its hash.
        blobs: the files of the dataset.
        answering: chooses schedules where none is known.
    """
    tasks = extract_tasks(module)
    told = {task.workload.hash: elsewhere(task.workload.hash) for task in tasks}
    known = _champions(session, blobs, tasks, target) | {
        key: each for key, each in told.items() if each is not None and each.trace is not None
    }
    settled = known.keys() | {task.alternative_of for task in tasks if task.workload.hash in known}
    found = devices.calibration(session, target.device_class) if session is not None else None
    calibration = Calibration.model_validate(found) if found else None

    def question(task: Extracted) -> Question:
        bodies = _bodies(task, target, settled)
        near = _relatives(session, task, bodies, target)
        about, dtypes = task.workload, tuple(spec.dtype for spec in task.workload.args)
        named = about.name, about.hash
        return Question(named, about.family, dtypes, task.module, target, tuple(bodies), tuple(near), calibration)

    chosen = iter(answering(question(task) for task in tasks if task.workload.hash not in known))
    answers = [
        _measured(task, known[task.workload.hash]) if task.workload.hash in known else next(chosen) for task in tasks
    ]
    return [(_as_tuned(task, known.get(task.workload.hash)), each) for task, each in zip(tasks, answers, strict=True)]


def records(found: Schedules, target: Target) -> list[DatabaseRecord]:
    """The schedules as records of a MetaSchedule database, with their estimates for latencies."""
    made = []
    for task, answer in found:
        if answer.trace is not None:
            key, encoded = json.loads(task.metaschedule)
            seconds = (answer.seconds or 0.0,)
            made.append(DatabaseRecord((key, encoded), answer.trace, seconds, target.to_json(), task.workload.args))
    return made


def _measured(task: Extracted, known: Known) -> Answer:
    return Answer(task.workload.name, task.workload.hash, Source.MEASURED, known.seconds, None, known.trace)


def _as_tuned(task: Extracted, known: Known | None) -> Extracted:
    """The task with the program whose blocks a known trace names."""
    if known is None or known.program is None:
        return task
    return replace(task, metaschedule=json.dumps([task.workload.hash, known.program]).encode())


def _champions(
    session: Session | None, blobs: BlobStore | None, tasks: Sequence[Extracted], target: Target
) -> dict[str, Known]:
    if session is None:
        return {}
    streams = target.kind == "llvm"
    caches = {
        task.workload.hash: CacheState.STREAMED if streams and task.weights else CacheState.WARM for task in tasks
    }
    found = champions.of_workloads(session, caches, target.hash)
    return {
        workload: Known(each.trace, each.latency, _program(session, blobs, workload))
        for workload, each in found.items()
    }


def _program(session: Session, blobs: BlobStore | None, workload: str) -> str | None:
    """The program that was tuned; None where there are no files."""
    return None if blobs is None else champions.program_of(blobs, by_key.existing(session, WorkloadRow, workload))


def _bodies(task: Extracted, target: Target, settled: set[str | None]) -> list[SketchBody]:
    """The design space; empty where nothing is to be chosen, or it cannot be opened, or the place has a champion."""
    if task.workload.hash in settled or task.alternative_of in settled - {None}:
        return []
    try:
        found = space.generate(task.module, target)
    except MissingDependency:
        raise
    except Exception:  # TVM's primitives and rules raise several classes: the task keeps its default schedule
        return []
    return found if space.tunable(found) else []


def _relatives(
    session: Session | None, task: Extracted, bodies: Sequence[SketchBody], target: Target
) -> list[Relative]:
    if session is None or not bodies:
        return []
    found, shapes = task.workload, [spec.shape for spec in task.workload.args]
    about = Likeness(found.hash, found.family, found.flops, shapes)
    return siblings.relatives(session, siblings.Subject(about, bodies), target.hash)
