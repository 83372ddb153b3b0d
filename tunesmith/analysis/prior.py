"""The static model as a search sees it: an opinion on points of a space, before anything is measured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Nest
from tunesmith.analysis.rows import COLUMNS, Floats32, Subject, decision_rows, unknown_rows
from tunesmith.space.base import Bools, Floats, Ints, PointBatch, Sketch
from tunesmith.space.space import Space

TRUSTED = 0.98
"""Where constraints refuse a larger share of a space's points, they are passed over: they do not fit there."""
PIECE = 2048
"""Points that are estimated in one go."""
COMPARED = 1024
"""Random points that show this share, and whose best estimate the others are held against."""

REMEMBERED = 512
"""Points of a batch at most that a model remembers: a search comes back to those that it chose, not to all it drew."""
KEPT = 1 << 16
"""Points that a model remembers at most; then it begins anew. A round has a few thousand."""

Unit = Callable[[], contextlib.AbstractContextManager[None]]
Samples = dict[tuple[CpuModel, int], tuple[Floats, Bools]]
"""Estimates of a space's random points and which of them constraints refuse, by the CPU and the number of nests."""


class NestSource(Protocol):
    """Where nests come from. A sketch has one for each choice of the knobs that change its structure."""

    @property
    def made(self) -> int:
        """How many nests were asked for so far: with more of them fewer points are unknown."""

    def structural(self, sketch: str) -> tuple[int, ...]:
        """Positions of the knobs that change the structure of a sketch."""

    def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
        """The nest for what these knobs decide; None when the sketch is not understood."""

    def primitives(self, sketch: str) -> Mapping[str, int]:
        """How often a sketch's trace has each kind of instruction."""


class StaticPrior:
    """Estimates of points.

    Args:
        space: the space whose points are estimated.
        source: source of the nests, which it makes when needed and keeps.
        cpu: CPU that estimates are for.
        unit: is entered for each small unit of work, some 50 ms at most, so that others can have the processor between.
        handicap: by the hash of a sketch, what its estimates are multiplied by; 1 for others.
        samples: what models of the space found of its random points; they leave it to each other.
    """

    def __init__(
        self,
        space: Space,
        source: NestSource,
        cpu: CpuModel,
        unit: Unit = contextlib.nullcontext,
        handicap: Mapping[str, float] = MappingProxyType({}),
        samples: Samples | None = None,
    ) -> None:
        self._space, self._source, self._cpu, self._unit = space, source, cpu, unit
        self._handicap = handicap
        self._samples: Samples = {} if samples is None else samples
        self._seen: dict[int, tuple[float, bool]] = {}
        self._newest: dict[tuple[str, bytes], Costs] = {}

    def __call__(self, batch: PointBatch) -> Floats:
        """Estimated seconds, float64 [n]: infinity for points that are not worth a try, NaN where nothing is known."""
        out, refused = self._judge(batch)
        if refused.any() and self._trusted:
            out[refused] = np.inf
        return out

    def promise(self, batch: PointBatch) -> Floats:
        """How good points are by their estimates: the best one of some random points over each, float64 [n].

        About 1 is as good as those get, whatever the workload; 0 is not worth a try, NaN stands where nothing is known.
        """
        return np.asarray(self._best / self(batch))

    def excess(self, batch: PointBatch) -> Floats:
        """How far points are from what no schedule goes below, see :meth:`Costs.excess`; infinity for unknown ones."""
        out = np.full(len(batch), np.inf)
        for piece, sketch, nest in self._pieces(batch):
            if nest is not None:
                with self._unit():
                    out[piece] = Costs(nest, sketch.knobs, batch.choice[piece], self._cpu).excess()
        return out

    @functools.cached_property
    def _best(self) -> float:
        found, refused = self._sampled
        known = found[np.isfinite(found) & ~(refused & self._trusted)]
        return float(known.min()) if len(known) else float("nan")

    @property
    def _trusted(self) -> bool:
        return bool(self._sampled[1].mean() <= TRUSTED)

    @functools.cached_property
    def _sampled(self) -> tuple[Floats, Bools]:
        known = self._samples.get((self._cpu, self._source.made))
        if known is not None:
            return known
        found = self._estimate(self._space.sample(np.random.default_rng(0), COMPARED))
        self._samples.clear()
        self._samples[self._cpu, self._source.made] = found
        return found

    def rows(self, batch: PointBatch, family: str, precision: str) -> Floats32:
        """What a learned ranker sees of points: see ``tunesmith.analysis.rows``, float32 [n, columns].

        Args:
            family: name of the workload's family.
            precision: precision of the job.
        """
        out = np.full((len(batch), len(COLUMNS)), np.nan, dtype=np.float32)
        for piece, sketch, nest in self._pieces(batch):
            hash_, knobs = sketch.hash, sketch.knobs
            about = Subject(family, precision, knobs, self._source.primitives(hash_), self._handicap.get(hash_, 1.0))
            choice = batch.choice[piece]
            with self._unit():
                if nest is None:
                    out[piece] = unknown_rows(about, self._cpu, choice)
                else:
                    known = self._newest.get((hash_, choice.tobytes()))
                    out[piece] = decision_rows(known or Costs(nest, knobs, choice, self._cpu), about)
        return out

    def _judge(self, batch: PointBatch) -> tuple[Floats, Bools]:
        """Estimates, and which points the constraints refuse. What is known of a point stays, what is not is asked
        again: meanwhile its nest may have been made."""
        if len(batch) > REMEMBERED:
            return self._estimate(batch)
        if len(self._seen) > KEPT:
            self._seen.clear()
        keys = self._space.keys(batch).tolist()
        new = np.array([at for at, key in enumerate(keys) if key not in self._seen], dtype=np.int64)
        out, refused = np.full(len(batch), np.nan), np.zeros(len(batch), dtype=np.bool_)
        if len(new):
            out[new], refused[new] = self._estimate(batch.take(new) if len(new) < len(batch) else batch)
        for at, key in enumerate(keys):
            if key in self._seen:
                out[at], refused[at] = self._seen[key]
            elif not np.isnan(out[at]):
                self._seen[key] = float(out[at]), bool(refused[at])
        return out, refused

    def _estimate(self, batch: PointBatch) -> tuple[Floats, Bools]:
        out, refused = np.full(len(batch), np.nan), np.zeros(len(batch), dtype=np.bool_)
        newest = {}
        for piece, sketch, nest in self._pieces(batch):
            if nest is not None:
                choice = batch.choice[piece]
                with self._unit():
                    costs = newest[sketch.hash, choice.tobytes()] = Costs(nest, sketch.knobs, choice, self._cpu)
                    out[piece] = self._handicap.get(sketch.hash, 1.0) * costs.seconds()
                    refused[piece] = ~costs.feasible()
        # Rows are mostly asked for of what was estimated just before.
        self._newest = newest if len(batch) <= REMEMBERED else {}
        return out, refused

    def _pieces(self, batch: PointBatch) -> Iterator[tuple[Ints, Sketch, Nest | None]]:
        """Rows of a few points of one nest, their sketch, and the nest."""
        for s in np.unique(batch.sketch):
            body = self._space.sketches[s]
            for rows, decided in self._groups(np.flatnonzero(batch.sketch == s), body, batch.choice):
                with self._unit():
                    nest = self._source.nest(body.hash, decided)
                for piece in np.array_split(rows, -(-len(rows) // PIECE)):
                    yield piece, body, nest

    def _groups(self, rows: Ints, body: Sketch, choice: Ints) -> list[tuple[Ints, tuple[int, ...]]]:
        """Rows that share a nest, and what decides it, in the order of their first rows: not every nest may be made."""
        places = self._source.structural(body.hash)
        if not places:
            return [(rows, ())]
        decided = np.stack([body.knobs[place].values(choice[rows, place])[:, 0] for place in places], axis=1)
        kinds, first, member = np.unique(decided, axis=0, return_index=True, return_inverse=True)
        return [(rows[member.reshape(-1) == number], tuple(kinds[number].tolist())) for number in np.argsort(first)]
