"""Which runs a comparison consists of, in which order, and how long it may take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tuners.outcome import Final, TunerRun
from tunesmith.errors import InvalidInput
from tunesmith.operators import parse_operator
from tunesmith.targets import Target

OPERATORS = (
    "gemm:1024x1024x1024:float32",
    "gemm:128x768x3072:float32",
    "bmm:12x128x128x64:float32",
    "conv2d:1x64x56x56,64x64x3x3,s1,p1:float32",
    "conv2d:1x256x14x14,256x256x3x3,s1,p1:float32",
    "depthwise:1x128x28x28,k3,s1,p1:float32",
    "softmax:12x128x128:float32",
    "layernorm:128x768:float32",
)
QUICK_OPERATORS = ("gemm:128x768x3072:float32", "softmax:12x128x128:float32")
TUNESMITH, RANDOM = "tunesmith", "random"
PER_ROUND = {"metaschedule-16": 16, "metaschedule-64": 64}
TUNERS = (TUNESMITH, RANDOM, *PER_ROUND)
SECONDS, QUICK_SECONDS = 60.0, 30.0
QUICK_LIMIT = 540.0
START_UP = 22.0
"""What a run takes beside its tuning, roughly: starting, a first round that is late, the last measurement."""
SPARE = 30.0
"""Seconds before the deadline that are kept for measuring the best schedules again."""


@dataclass(frozen=True)
class Ask:
    """One run.

    Attributes:
        operator: its spec, written out.
        seed: of the search.
        tuner: one of ``TUNERS``.
        target: what to tune for.
        budget: seconds of tuning.
    """

    operator: str
    seed: int
    tuner: str
    target: Target
    budget: float

    def outcome(self, **values: Any) -> TunerRun:
        """What became of it."""
        return TunerRun(self.operator, self.seed, self.tuner, self.target.canonical, self.budget, **values)


class Deadline:
    """The end of everything; ``seconds`` from now, None for no end."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def earlier(self, seconds: float) -> Deadline:
        """A deadline that is ``seconds`` before this one."""
        other = Deadline(None, self._clock)
        other._end = None if self._end is None else self._end - seconds
        return other

    def left(self, limit: float) -> float:
        """Seconds until the end, at most ``limit`` and at least 0."""
        return limit if self._end is None else max(0.0, min(limit, self._end - self._clock()))


def groups(operators: Sequence[str], seeds: int, target: Target, budget: float) -> Iterator[list[Ask]]:
    """The runs of each operator and seed; who begins changes, so that a machine that slows down is fair to all.

    Raises:
        InvalidOperator: a spec does not parse.
    """
    specs = [parse_operator(text).canonical for text in operators]
    for seed in range(seeds):
        for number, operator in enumerate(specs):
            first = (number + seed) % len(TUNERS)
            order = TUNERS[first:] + TUNERS[:first]
            yield [Ask(operator, seed, tuner, target, budget) for tuner in order]


class Ledger:
    """What is known so far, one JSON value a line, kept as it comes.

    Args:
        path: the file.
        resume: go on with a file that is there.

    Raises:
        InvalidInput: there is a file and no leave to go on with it.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        self._path = path
        self.outcomes: dict[tuple[str, int, str], TunerRun] = {}
        self.finals: dict[tuple[str, int], Final] = {}
        if path.exists() and not resume:
            raise InvalidInput(
                f"{path.name} is there already: give --resume to go on with it, or another --out",
                field="out",
                value=str(path.parent),
            )
        if path.exists():
            self._read()
        path.parent.mkdir(parents=True, exist_ok=True)

    def _read(self) -> None:
        lines = self._path.read_text("utf-8").split("\n")
        whole = lines[:-1]  # the last line has no end when the machine stopped while it was written
        for line in whole:
            body = json.loads(line)
            kind = body.pop("kind")
            self._take(TunerRun.from_json(body) if kind == "outcome" else Final(**body))
        if lines[-1]:
            self._path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")

    def missing(self, asks: Sequence[Ask]) -> list[Ask]:
        """Those that are not known yet, or failed.

        Raises:
            InvalidInput: they were run with another budget or target.
        """
        missing = []
        for ask in asks:
            known = self.outcomes.get((ask.operator, ask.seed, ask.tuner))
            if known is not None and (known.budget, known.target) != (ask.budget, ask.target.canonical):
                raise InvalidInput(
                    f"{self._path.name} holds runs of {known.budget:g} s for {known.target}: give the same --seconds "
                    "and --target, or another --out",
                    field="seconds",
                    value=ask.budget,
                )
            if known is None or known.failure:
                missing.append(ask)
        return missing

    def _take(self, found: TunerRun | Final) -> None:
        if isinstance(found, TunerRun):
            self.outcomes[found.key] = found
            self.finals.pop((found.operator, found.seed), None)  # measured again with the new one
        else:
            self.finals[found.operator, found.seed] = found

    def keep(self, found: TunerRun | Final) -> None:
        """Add a line to the file."""
        self._take(found)
        kind = "outcome" if isinstance(found, TunerRun) else "final"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **found.to_json()}) + "\n")
