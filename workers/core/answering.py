"""Schedules of many tasks that nobody measured, a task at a time, in this process or in several.

A task takes half a second, nearly all of it in Python, so threads do not share it out; processes do.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tunesmith import extras
from tunesmith.analysis.prior import Unit
from tunesmith.messages import Calibration
from tunesmith.operators import looks_like_operator
from tunesmith.targets import Target
from tunesmith.unmeasured import Answer, Source
from workers.core.code_reader import reader
from workers.sandbox.lease import HostLease
from workers.sandbox.pool import Actor, ChildCrashed, ChildTimeout, Pool
from workers.tvm_backend.design_space import unmeasured
from workers.tvm_backend.design_space.nests.forms import NestForms
from workers.tvm_backend.design_space.replay import together
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.design_space.unmeasured import Relative
from workers.tvm_backend.warm import visible_cores, warm

PROCESSES = 8
"""Processes at most; each has TVM and LightGBM in memory, and what it found out of loop nests."""
FEW = 12
"""Tasks that are answered on threads, unless there are more: processes take three seconds to begin."""
SECONDS = 300.0
"""What a task may take in a process of its own."""
CHECK_SECONDS = 1.0
"""How often whoever waits for processes looks whether that is of use still."""


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


CHOOSER = "workers.core.answering:Chooser"
Answering = Callable[[Sequence[Question]], list[Answer]]
"""Answers questions, in their order."""


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


def here(questions: Sequence[Question]) -> list[Answer]:
    """Answer on threads of this process."""
    return together(partial(answer, forms=NestForms()), questions)


class Chooser:
    """What a process hosts: it answers one question after the other, and remembers nests.

    Args:
        lease: file of the host's lease, which keeps off cores where kernels are timed; None: nothing is timed here.
    """

    def __init__(self, lease: str | None = None) -> None:
        warm("llvm")
        self._unit: Unit = HostLease(lease).shared if lease else nullcontext
        if extras.here("lightgbm"):
            import costmodels.code_ranker  # noqa: F401  # is loaded once, and not by each process
        self._forms = NestForms()

    def answer(self, question: Question) -> Answer:
        """See :func:`answer`."""
        return answer(question, self._forms, self._unit)


@contextmanager
def processes(model: str) -> Iterator[Answering]:
    """Answer in processes that begin at once, while the model is prepared; here where that gains nothing: of an
    operator, or on one core.

    Args:
        model: a file, or an operator spec.
    """
    size = min(PROCESSES, visible_cores())
    if size < 2 or looks_like_operator(model):
        yield here
        return
    with Pool(Actor(CHOOSER), size) as pool:
        pool.begin()
        yield partial(shared_out, pool)


def beside_others(
    questions: Sequence[Question], forms: NestForms, unit: Unit, lease: Path, check: Callable[[], None]
) -> list[Answer]:
    """Answer while kernels may be timed on this host: in processes where there are many questions, else on threads.

    Args:
        forms: what is known of nests of other workloads; processes have their own.
        unit: is entered for each small piece of work on a thread.
        lease: file of the host's lease, which processes take for each of theirs.
        check: raises once nobody wants the answers any more.
    """
    size = min(PROCESSES, visible_cores())
    if size < 2 or len(questions) <= FEW:
        return together(partial(answer, forms=forms, unit=unit), questions)
    with Pool(Actor(CHOOSER, (str(lease),)), size) as pool:
        return shared_out(pool, questions, check)


def shared_out(pool: Pool, questions: Sequence[Question], check: Callable[[], None] = lambda: None) -> list[Answer]:
    """A compiler that ends its process while code is read costs no more than that: the static model chooses alone.

    Args:
        check: raises once nobody wants the answers any more.
    """
    waiting = [pool.submit("answer", question, timeout=SECONDS) for question in questions]
    answers = []
    for question, future in zip(questions, waiting, strict=True):
        while not concurrent.futures.wait([future], CHECK_SECONDS).done:
            check()
        try:
            answers.append(future.result())
        except (ChildCrashed, ChildTimeout):
            answers.append(pool.call("answer", replace(question, read=False), timeout=SECONDS))
    return answers
