"""A champion next to the default schedule of its task, in a process of its own: is it still the faster one?"""

from __future__ import annotations

import base64
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.metaschedule import DatabaseRecord
from workers.tvm_backend.warm import warm

SAMPLE_SECONDS = 0.003
TURNS = 25
"""Many short samples: their median lies in undisturbed moments, where something else runs now and then."""
SLOW, SLOW_TURNS = 20.0, 3
"""A default schedule that is so many times slower than the champion is timed a few times only."""
SEED = 1
TASKS = Path("/proc/self/task")
QUIET_SHARE = 0.02
"""A sample counts as undisturbed whose threads waited for a core no longer than this part of it."""
LEAST_SAMPLES = 9
"""Where fewer are undisturbed, those that waited least make up for them."""


@dataclass(frozen=True)
class Timed:
    """Seconds of single runs in the order in which they were made, and how far the outputs lie apart.

    Attributes:
        error: the largest difference, as a part of the default schedule's largest output.
        waiting: part of the champion's time in which its threads waited for a core that something else had. Threads of
            a kernel are bound and wait for each other, so a busy machine makes it several times as slow.
    """

    champion: tuple[float, ...]
    default: tuple[float, ...]
    error: float
    waiting: float = 0.0


class Reranker:
    """Builds and times both programs of a record.

    Args:
        threads: threads of the kernels.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._bound = threads, False
        warm("llvm")

    def time(self, record: DatabaseRecord) -> Timed:
        """Time them in turn. What TVM raises means that the champion cannot be built or run here."""
        import tvm

        from workers.tvm_backend.run.references import difference, initial

        self._bind()
        with tempfile.TemporaryDirectory(prefix="tunesmith-verify-") as folder:
            built = [tvm.runtime.load_module(str(path)) for path in _build(record, Path(folder))]
            args = tuple(record.args)
            arrays = [initial(args, index, SEED) for index in range(len(args))]
            tensors = [[tvm.runtime.tensor(array) for array in arrays] for _ in built]
            for module, given in zip(built, tensors, strict=True):
                module["main"](*given)
            found, expected = ([tensor.numpy() for tensor in given] for given in tensors)
            (champion, waiting), (default, _) = map(undisturbed, _in_turn(built, tensors))
        return Timed(champion, default, difference(found, expected), waiting)

    def _bind(self) -> None:
        """Before the first kernel: TVM's main thread would wander to where another one waits."""
        from workers.tvm_backend.run.device_functions import bind

        if not self._bound:
            bind(self._threads)
            self._bound = True


def _build(record: DatabaseRecord, folder: Path) -> Iterator[Path]:
    """Libraries of the champion and of the default schedule."""
    from tvm.s_tir import Schedule, Trace
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    from tunesmith.targets import Target
    from workers.tvm_backend import tir
    from workers.tvm_backend.build.builder import build_program, fetching_ahead
    from workers.tvm_backend.design_space import replay

    module = base64.b64decode(record.workload[1], validate=True)[8:]
    replayer = replay.Replayer(module, Target(dict(record.target)))
    champion = Schedule(replayer.mod, error_render_level="fast")
    Trace.apply_json_to_schedule(record.trace, champion)
    default = replay.default(tir.load_module(module), replayer.target)
    for name, mod in (("champion", fetching_ahead(champion.mod, replayer.target)), ("default", default)):
        library = folder / f"{name}.so"
        build_program(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), replayer.target, library)
        yield library


def undisturbed(samples: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], float]:
    """Seconds of those samples whose threads had their cores, in order, and how long these waited in the median.

    Args:
        samples: seconds of a run, and the part of the sample in which threads waited for a core.
    """
    enough = sorted(waited for _, waited in samples)[:LEAST_SAMPLES][-1]
    kept = [(seconds, waited) for seconds, waited in samples if waited <= max(QUIET_SHARE, enough)]
    return tuple(seconds for seconds, _ in kept), statistics.median(waited for _, waited in kept)


def _in_turn(built: Sequence[Any], arguments: Sequence[Sequence[Any]]) -> list[list[tuple[float, float]]]:
    """Samples of each, there and back again: what slows the machine down meets both. See ``undisturbed``."""
    import tvm

    def once(at: int, number: int) -> tuple[float, float]:
        timer = built[at].time_evaluator("main", tvm.cpu(), number=number, repeat=1)
        before, started = waited_seconds(), time.perf_counter()
        seconds = float(timer(*arguments[at]).results[0])
        return seconds, (waited_seconds() - before) / (time.perf_counter() - started)

    first = [once(at, 1)[0] for at in range(len(built))]
    numbers = [max(1, int(SAMPLE_SECONDS / max(seconds, 1e-9))) for seconds in first]
    samples: list[list[tuple[float, float]]] = [[] for _ in built]
    for turn in range(TURNS):
        for at in range(len(built)) if turn % 2 == 0 else reversed(range(len(built))):
            if turn < SLOW_TURNS or first[at] <= SLOW * min(first):
                samples[at].append(once(at, numbers[at]))
    return samples


def waited_seconds() -> float:
    """Seconds that this process's threads have waited for a core so far; 0 where the kernel does not say."""
    try:
        return sum(int((task / "schedstat").read_text().split()[1]) for task in TASKS.iterdir()) / 1e9
    except (OSError, LookupError, ValueError):  # a thread that ended meanwhile, or a kernel without the figure
        return 0.0
