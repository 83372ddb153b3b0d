"""What processes of a benchmark have in common that time something by themselves: ``python -m MODULE JOB ANSWER``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

Job = TypeVar("Job")
Each = TypeVar("Each")


def answer(kind: type[Job], measure: Callable[[Job], Any]) -> None:
    """Do the job of the command line and write what came of it; the counterpart of ``processes.ask``."""
    asked, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(kind(**json.loads(asked)))), encoding="utf-8")


def use_cores(threads: int) -> None:
    """Load TVM with that many threads, on as many of the visible cores, to run kernels in this process.

    The thread that calls is bound to one of them, and so are processes that it starts: those should begin before, or
    see :func:`leave_cores`.
    """
    leave_cores(threads)
    from workers.tvm_backend.run.device_functions import bind

    bind(threads)  # TVM's main thread would wander to where another one waits


def leave_cores(threads: int) -> None:
    """Load TVM with that many threads, on as many of the visible cores, which processes inherit that this one
    starts."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["TVM_NUM_THREADS"] = str(threads)
    from workers.tvm_backend.warm import warm

    warm("llvm")  # brings the function that binds threads


def there_and_back(contenders: Sequence[Each], turns: int) -> Iterator[tuple[int, Each]]:
    """Each in turn, there and back again, with the turn's number: what slows the machine down meets all of them."""
    for turn in range(turns):
        yield from ((turn, each) for each in (contenders if turn % 2 == 0 else reversed(contenders)))
