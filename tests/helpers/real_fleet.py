"""The workers behind a coordinator in one process: the real core tasks and a real measure worker, without Celery."""

from __future__ import annotations

from collections.abc import Callable

from core_flow import send

from tunesmith.messages import EvaluateModel, MeasureBatch, Message
from workers.core.context import Context
from workers.core.tasks import CORE_TASKS, perform
from workers.measure.worker import MeasureWorker


class RealFleet:
    """Does what a message asks for, before it returns.

    Args:
        core: of the core tasks.
        tame: what is measured in the place of a batch, for example with shorter limits.
    """

    def __init__(self, core: Context, tame: Callable[[MeasureBatch], MeasureBatch] = lambda batch: batch) -> None:
        self.core, self._tame = core, tame
        self.worker: MeasureWorker | None = None

    def join(self, worker: MeasureWorker) -> None:
        """Have the worker, whose messages go to :meth:`send`, measure; it reports its device."""
        self.worker = worker
        worker.start()

    def send(self, message: Message) -> bool:
        """What the measure worker reports."""
        send(self.core, message)  # type: ignore[arg-type]
        return True

    def do(self, message: Message) -> None:
        """What the worker behind the message's queue would do."""
        repeated = type(message).model_validate(message.model_dump(mode="json"))  # as it comes off the wire
        if isinstance(repeated, MeasureBatch):
            self._worker.measure(self._tame(repeated))
        elif isinstance(repeated, EvaluateModel):
            self._worker.evaluate(repeated)
        else:
            self._core(repeated)

    @property
    def _worker(self) -> MeasureWorker:
        assert self.worker is not None, "nobody measures"
        return self.worker

    def _core(self, message: Message) -> None:
        (task,) = [task for task in CORE_TASKS if task.message is type(message)]
        perform(task, self.core, message)
