"""A champion next to the default schedule of its task, in a process of its own: is it still the faster one?"""

from __future__ import annotations

import base64
import tempfile
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


@dataclass(frozen=True)
class Timed:
    """Seconds of single runs in the order in which they were made, and how far the outputs lie apart.

    Attributes:
        error: the largest difference, as a part of the default schedule's largest output.
    """

    champion: tuple[float, ...]
    default: tuple[float, ...]
    error: float


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
            champion, default = _in_turn(built, tensors)
        return Timed(tuple(champion), tuple(default), difference(found, expected))

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
    from workers.tvm_backend.build.builder import build_program
    from workers.tvm_backend.design_space import replay

    module = base64.b64decode(record.workload[1], validate=True)[8:]
    replayer = replay.Replayer(module, Target(dict(record.target)))
    champion = Schedule(replayer.mod, error_render_level="fast")
    Trace.apply_json_to_schedule(record.trace, champion)
    default = replay.default(tir.load_module(module), replayer.target)
    for name, mod in (("champion", champion.mod), ("default", default)):
        library = folder / f"{name}.so"
        build_program(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), replayer.target, library)
        yield library


def _in_turn(built: Sequence[Any], arguments: Sequence[Sequence[Any]]) -> list[list[float]]:
    """Samples of each, there and back again: what slows the machine down meets both."""
    import tvm

    def once(at: int, number: int) -> float:
        timer = built[at].time_evaluator("main", tvm.cpu(), number=number, repeat=1)
        return float(timer(*arguments[at]).results[0])

    first = [once(at, 1) for at in range(len(built))]
    numbers = [max(1, int(SAMPLE_SECONDS / max(seconds, 1e-9))) for seconds in first]
    samples: list[list[float]] = [[] for _ in built]
    for turn in range(TURNS):
        for at in range(len(built)) if turn % 2 == 0 else reversed(range(len(built))):
            if turn < SLOW_TURNS or first[at] <= SLOW * min(first):
                samples[at].append(once(at, numbers[at]))
    return samples
