"""Schedules of tasks that nobody measured, chosen in this process."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from tunesmith.analysis.prior import Unit
from tunesmith.messages import Calibration
from tunesmith.targets import Target
from tunesmith.unmeasured import Answer, Source
from workers.core.code_reader import reader
from workers.tvm_backend.design_space import unmeasured
from workers.tvm_backend.design_space.nests.forms import NestForms
from workers.tvm_backend.design_space.replay import together
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.design_space.unmeasured import Relative


@dataclass(frozen=True)
class Question:
    """A task that needs a schedule.

    Attributes:
        task: name of the task, and hash of its workload.
        family: the workload's.
        dtypes: types of the workload's arguments.
        module: JSON of the workload.
        bodies: sketches of its design space; empty where nothing is to be chosen.
        relatives: schedules of relatives, the most promising first.
        calibration: limits of a device of the target's class; None: typical ones.
        read: candidates may be compiled to be read before one is taken.
    """

    task: tuple[str, str]
    family: str
    dtypes: tuple[str, ...]
    module: bytes
    target: Target
    bodies: tuple[SketchBody, ...]
    relatives: tuple[Relative, ...] = ()
    calibration: Calibration | None = None
    read: bool = True


def answer(question: Question, forms: NestForms, unit: Unit = nullcontext) -> Answer:
    """One task's schedule.

    Args:
        forms: what is known of nests of other workloads.
        unit: is entered for each small piece of work.
    """
    if not question.bodies:
        return Answer(*question.task, Source.DEFAULT)
    read = reader(question.family, question.dtypes, question.target) if question.read else None
    about, relatives = (question.module, question.target, question.bodies), question.relatives
    return unmeasured.choose(question.task, *about, relatives, question.calibration, forms, unit, reader=read)


def on_threads(questions: Iterable[Question], forms: NestForms, unit: Unit = nullcontext) -> list[Answer]:
    """Several tasks' schedules, in their order."""
    return together(partial(answer, forms=forms, unit=unit), list(questions))
