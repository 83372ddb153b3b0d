"""Spaces that were measured completely, once, on a real device: search on them costs nothing and repeats exactly."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tunesmith.search.base import Prior, Score, Searcher
from tunesmith.space.base import Bools, Floats, Ints, PointBatch, Resolver, Scores, Sketch
from tunesmith.space.knobs import Floats32, Knob, knob_from_json
from tunesmith.space.space import Space
from tunesmith.types import Candidate, Decision, FailureKind, Measurement

FORMAT = 1
NEAREST = 4
"""Choices of a subset that count as next to one."""


@dataclass(frozen=True)
class Subset(Knob):
    """Some choices of another knob, numbered anew: what makes a space small enough to measure all of it.

    Attributes:
        base: the knob; decisions, values and encoding are its own.
        choices: choices of the base, ascending.
    """

    base: Knob
    choices: tuple[int, ...]
    kind: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        if not self.choices or list(self.choices) != sorted(set(self.choices)):
            raise ValueError("a subset needs choices, ascending and each once")
        if not 0 <= self.choices[0] <= self.choices[-1] < self.base.size:
            raise ValueError(f"{self.choices} is outside of {self.base}")

    @functools.cached_property
    def _table(self) -> Ints:
        return np.array(self.choices, dtype=np.int64)

    @functools.cached_property
    def _near(self) -> Ints:
        """The nearest other choices of each, by the base's encoding: int64 [size, up to NEAREST]."""
        code = self.base.encode(self._table)
        distance = np.abs(code[:, None] - code[None]).sum(axis=2)
        np.fill_diagonal(distance, np.inf)
        return np.argsort(distance, axis=1, kind="stable")[:, : min(NEAREST, self.size - 1)]

    @property
    def size(self) -> int:
        """Number of choices kept."""
        return len(self.choices)

    @property
    def width(self) -> int:
        """As the base."""
        return self.base.width

    def values(self, index: Ints) -> Ints:
        """As the base."""
        return self.base.values(self._table[index])

    def index(self, values: Ints) -> Ints:
        """The number of each value; ValueError for one that was not kept."""
        return self._inside(self.base.index(values))

    def encode(self, index: Ints) -> Floats32:
        """As the base."""
        return self.base.encode(self._table[index])

    def neighbours(self, rng: np.random.Generator, index: Ints) -> Ints:
        """One of the nearest other choices."""
        if self.size == 1:
            return np.array(index)
        return self._near[index, rng.integers(self._near.shape[1], size=len(index))]

    def around(self, index: int) -> Ints:
        """The nearest other choices."""
        near: Ints = self._near[index]
        return near

    def decisions(self, index: Ints) -> list[Decision]:
        """As the base."""
        return self.base.decisions(self._table[index])

    def find(self, decisions: Sequence[Decision]) -> Ints:
        """The number of each decision; ValueError for one that was not kept."""
        return self._inside(self.base.find(decisions))

    def to_json(self) -> dict[str, Any]:
        """``{kind, base, choices}``."""
        return {"kind": self.kind, "base": self.base.to_json(), "choices": list(self.choices)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Subset:
        """Inverse of :meth:`to_json`."""
        return cls(knob_from_json(body["base"]), tuple(int(c) for c in body["choices"]))

    def _inside(self, index: Ints) -> Ints:
        place = np.minimum(np.searchsorted(self._table, index), self.size - 1)
        if (self._table[place] != index).any():
            raise ValueError("a choice that this subset leaves out")
        return place.astype(np.int64)


@dataclass(frozen=True)
class Recording(Resolver):
    """All that was measured of a small space, by the points' numbers (``Space.at``).

    Attributes:
        name: the workload's name.
        space: the space that was recorded.
        alias: int64 [size], the number of the canonical point with the same program; itself for that one.
        seconds: float64 [size], median latency; infinity without one.
        spread: float64 [size], relative standard deviation of the samples.
        failure: str [size], a ``FailureKind`` or empty; ``abandoned`` stands for what was not measured yet.
        cost: float64 [size], seconds that building and measuring took.
        untuned: latency of the default schedule.
        weight: how often a model would run it, for allocators.
        facts: facts about the measurement, e.g. device and date.
    """

    name: str
    space: Space
    alias: Ints
    seconds: Floats
    spread: Floats
    failure: np.ndarray[Any, np.dtype[np.str_]]
    cost: Floats
    untuned: float
    weight: float
    facts: Mapping[str, Any]

    def __post_init__(self) -> None:
        columns = (self.alias, self.seconds, self.spread, self.failure, self.cost)
        if any(len(column) != self.space.size for column in columns):
            raise ValueError(f"the columns of {self.name} do not cover the {self.space.size} points of its space")
        if (np.isfinite(self.seconds) == (self.failure != "")).any():
            raise ValueError(f"a point of {self.name} has a latency and a failure, or neither")

    @functools.cached_property
    def points(self) -> Ints:
        """Numbers of the canonical points that search may propose, ascending."""
        number = np.arange(self.space.size)
        refused = np.isin(self.failure, [FailureKind.INVALID.value, FailureKind.ABANDONED.value])
        return np.flatnonzero((self.alias == number) & ~refused)

    @property
    def optimum(self) -> float:
        """The fastest point's latency in seconds."""
        return float(self.seconds.min())

    @property
    def missing(self) -> int:
        """Canonical points that were not measured yet."""
        own = self.alias == np.arange(self.space.size)
        return int((own & (self.failure == FailureKind.ABANDONED.value)).sum())

    def resolve(self, batch: PointBatch) -> tuple[PointBatch, Bools]:
        """The canonical spelling of each point, and whether it applies."""
        canonical = self.alias[self.space.keys(batch)]
        return self.space.at(canonical), np.isin(canonical, self.points)

    def validity(self, batch: PointBatch) -> Scores:
        """A score function that knows nothing."""
        return self.scored(batch, np.zeros(self.space.size))

    def scored(self, batch: PointBatch, mean: Floats, std: Floats | None = None) -> Scores:
        """A score function's answer from one score per point of the space, and its deviation; None: 0."""
        canonical, valid = self.resolve(batch)
        keys = self.space.keys(canonical)
        return Scores(canonical, mean[keys], np.zeros(len(batch)) if std is None else std[keys], valid)

    def latency(self, batch: PointBatch) -> Floats:
        """Seconds per run, infinity for failures: float64 [n]."""
        found: Floats = self.seconds[self.alias[self.space.keys(batch)]]
        return found

    def measure(self, candidates: Sequence[Candidate], *, seed: int = 0, repeats: int = 3) -> list[Measurement]:
        """Measurements in order, with the recorded spread as log-normal noise; the same seed gives the same samples."""
        out = []
        for candidate, key in zip(candidates, self.alias[self.space.keys(self.space.batch(candidates))], strict=True):
            if self.failure[key]:
                out.append(Measurement(candidate, failure=FailureKind(str(self.failure[key])), message="as recorded"))
                continue
            draws = np.random.default_rng([seed, int(key)]).normal(size=repeats)
            samples = self.seconds[key] * np.exp(self.spread[key] * draws)
            out.append(Measurement(candidate, tuple(samples.tolist()), run_seconds=float(self.cost[key])))
        return out

    def save(self, path: Path) -> None:
        """Write it, replacing what was there in one step."""
        sketches = [[s.hash, [k.to_json() for k in s.knobs]] for s in self.space.sketches]
        kinds, code = np.unique(self.failure, return_inverse=True)
        meta = {
            "format": FORMAT,
            "name": self.name,
            "sketches": sketches,
            "failures": kinds.tolist(),
            "untuned": self.untuned,
            "weight": self.weight,
            "facts": dict(self.facts),
        }
        draft = path.with_name(f".{path.name}")
        with draft.open("wb") as file:
            np.savez_compressed(
                file,
                meta=np.array(json.dumps(meta)),
                alias=self.alias.astype(np.int32),
                seconds=self.seconds.astype(np.float32),
                spread=self.spread.astype(np.float16),
                cost=self.cost.astype(np.float16),
                failure=code.astype(np.uint8),
            )
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Inverse of :meth:`save`.

        Raises:
            ValueError: for another format.
        """
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            if meta.get("format") != FORMAT:
                raise ValueError(f"{path.name} has format {meta.get('format')!r}, not {FORMAT}")
            sketches = [Sketch(h, tuple(Subset.from_json(k) for k in knobs)) for h, knobs in meta["sketches"]]
            return cls(
                meta["name"],
                Space(sketches),
                file["alias"].astype(np.int64),
                file["seconds"].astype(np.float64),
                file["spread"].astype(np.float64),
                np.array(meta["failures"])[file["failure"]],
                file["cost"].astype(np.float64),
                float(meta["untuned"]),
                float(meta["weight"]),
                meta["facts"],
            )


def replay(
    searcher: Searcher,
    recording: Recording,
    *,
    budget: int,
    batch: int,
    score: Score | None = None,
    learn: Callable[[Sequence[Measurement]], None] | None = None,
    prior: Prior | None = None,
    seed: int = 0,
) -> Floats:
    """Best recorded latency after each of ``budget`` evaluations, in seconds: float64 [budget].

    The searcher, and ``learn``, get noisy samples; the curve holds the recorded medians. A searcher that has
    nothing left to propose keeps its last value, and infinity stands for no valid result.
    """
    found: list[float] = []
    while len(found) < budget:
        asked = searcher.ask(min(batch, budget - len(found)), score=score or recording.validity, prior=prior)
        if not asked:
            break
        results = recording.measure(asked, seed=seed)
        searcher.tell(results)
        if learn is not None:
            learn(results)
        found += recording.latency(recording.space.batch(asked)).tolist()
    curve = np.full(budget, np.inf)
    curve[: len(found)] = found
    best: Floats = np.minimum.accumulate(curve)
    return best
