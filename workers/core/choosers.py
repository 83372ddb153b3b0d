"""Processes that choose schedules of many tasks that nobody measured.

A task takes half a second, nearly all of it in Python, so threads do not share it out; processes do. This module is
light, so that they can begin before their parent has imported TVM.
"""

from __future__ import annotations

import concurrent.futures
import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tunesmith import extras
from tunesmith.operators import looks_like_operator
from workers.sandbox.lease import HostLease
from workers.sandbox.pool import Actor, ChildCrashed, ChildTimeout, Pool
from workers.tvm_backend.warm import visible_cores, warm

if TYPE_CHECKING:
    from tunesmith.analysis.prior import Unit
    from tunesmith.unmeasured import Answer
    from workers.core.answering import Question
    from workers.tvm_backend.design_space.nests.forms import NestForms

PROCESSES = 8
"""Processes at most; each has TVM and LightGBM in memory, and what it found out of loop nests."""
FEW = 12
"""Tasks that are answered on threads, unless there are more: processes take three seconds to begin."""
SECONDS = 300.0
"""What a task may take in a process of its own."""
CHECK_SECONDS = 1.0
"""How often whoever waits for processes looks whether that is of use still."""
CHOOSER = "workers.core.choosers:Chooser"

Answering = Callable[["Iterable[Question]"], "list[Answer]"]
"""Answers questions, in their order; it may ask for one while it answers another."""


class Chooser:
    """What a process hosts: it answers one question after the other, and remembers nests.

    Args:
        lease: file of the host's lease, which keeps off cores where kernels are timed; None: nothing is timed here.
    """

    def __init__(self, lease: str | None = None) -> None:
        warm("llvm")
        from workers.core import answering
        from workers.tvm_backend.design_space.nests.forms import NestForms

        self._unit: Unit = HostLease(lease).shared if lease else nullcontext
        if extras.here("lightgbm"):  # is loaded once, and not by each process
            importlib.import_module("costmodels.code_ranker")
        self._answer, self._forms = answering.answer, NestForms()

    def answer(self, question: Question) -> Answer:
        """See :func:`workers.core.answering.answer`."""
        return self._answer(question, self._forms, self._unit)


def here(questions: Iterable[Question]) -> list[Answer]:
    """Answer on threads of this process."""
    from workers.core.answering import on_threads
    from workers.tvm_backend.design_space.nests.forms import NestForms

    return on_threads(questions, NestForms())


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
        yield lambda questions: shared_out(pool, questions)


@contextmanager
def beside_others(
    count: int, forms: NestForms, unit: Unit, lease: Path, check: Callable[[], None]
) -> Iterator[Answering]:
    """Answer while kernels may be timed on this host: in processes where there are many questions, else on threads.

    Args:
        count: questions at most that will be asked; processes for many begin at once.
        forms: what is known of nests of other workloads; processes have their own.
        unit: is entered for each small piece of work on a thread.
        lease: file of the host's lease, which processes take for each of theirs.
        check: raises once nobody wants the answers any more.
    """
    from workers.core.answering import on_threads

    size = min(PROCESSES, visible_cores())
    if size < 2 or count <= FEW:
        yield lambda questions: on_threads(questions, forms, unit)
        return
    with Pool(Actor(CHOOSER, (str(lease),)), size) as pool:
        pool.begin()
        yield lambda questions: shared_out(pool, questions, check)


def shared_out(pool: Pool, questions: Iterable[Question], check: Callable[[], None] = lambda: None) -> list[Answer]:
    """A compiler that ends its process while code is read costs no more than that: the static model chooses alone.

    Args:
        check: raises once nobody wants the answers any more.
    """
    waiting = [(question, pool.submit("answer", question, timeout=SECONDS)) for question in questions]
    answers = []
    for question, future in waiting:
        while not concurrent.futures.wait([future], CHECK_SECONDS).done:
            check()
        try:
            answers.append(future.result())
        except (ChildCrashed, ChildTimeout):
            answers.append(pool.call("answer", replace(question, read=False), timeout=SECONDS))
    return answers
