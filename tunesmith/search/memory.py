"""What a searcher remembers between asks, as plain JSON."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tunesmith.search.packed import pack_keys, unpack_keys
from tunesmith.search.shares import Tally
from tunesmith.space.base import Bools, Ints, PointBatch
from tunesmith.space.space import Space
from tunesmith.types import Candidate, Measurement

VERSION = 3
ENUMERATE_LIMIT = 2048
"""Sketches and spaces up to this size are listed point by point, so that their exhaustion is certain."""
DEAD_LIMIT = 2048
"""Points remembered as not worth another look; the oldest are forgotten first."""


class Memory:
    """Points of one space that were seen, points that lead nowhere, and the best measured ones.

    Attributes:
        seen: keys of what was proposed or told, sorted.
        invalid: keys of points that are invalid or only another spelling of a canonical point, oldest first.
        elites: (latency in seconds, candidate), fastest first, at most ``elite_limit``.
        tally: what was measured of each sketch.
    """

    def __init__(self, space: Space, elite_limit: int) -> None:
        self.space, self.elite_limit = space, elite_limit
        self.seen: Ints = np.zeros(0, dtype=np.int64)
        self.invalid: Ints = np.zeros(0, dtype=np.int64)
        self.elites: list[tuple[float, Candidate]] = []
        self.tally = Tally(len(space.sketches))

    def blocked(self, pending: Collection[Candidate]) -> Ints:
        """Keys that must not be proposed: everything seen, and ``pending``."""
        candidates = list(pending)
        known = self.space.known(candidates)
        points = self.space.batch([c for c, is_point in zip(candidates, known, strict=True) if is_point])
        return np.union1d(self.seen, self.space.keys(points))

    def left(self, blocked: Ints) -> Bools:
        """Which sketches may have points left, neither ``blocked`` nor invalid; small ones are looked through."""
        gone = np.union1d(blocked, self.invalid)
        return np.array([not len(keys) or not np.isin(keys, gone).all() for keys in self._small], dtype=np.bool_)

    @functools.cached_property
    def _small(self) -> list[Ints]:
        """Keys of all points of each small sketch; none of a large one."""
        return [
            self.space.keys(self.space.all_of(s)) if size <= ENUMERATE_LIMIT else np.zeros(0, dtype=np.int64)
            for s, size in enumerate(self.space.sizes)
        ]

    def propose(self, keys: Ints) -> None:
        """Remember what is handed out."""
        self.seen = np.union1d(self.seen, keys)

    def mark_invalid(self, keys: Ints) -> None:
        """Remember points that need no second look."""
        new = keys[~np.isin(keys, self.invalid)]
        self.invalid = np.concatenate([self.invalid, new])[-DEAD_LIMIT:]

    def tell(self, measurements: Sequence[Measurement]) -> None:
        """Remember measurements; those of other spaces and of the default schedule are passed over."""
        known = self.space.known([m.candidate for m in measurements])
        mine = [m for m, is_point in zip(measurements, known, strict=True) if is_point]
        points = self.space.batch([m.candidate for m in mine])
        self.propose(self.space.keys(points))
        self.tally.take(points.sketch, [m.latency for m in mine])
        best = {candidate: latency for latency, candidate in self.elites}
        for m in mine:
            if m.ok and m.latency < best.get(m.candidate, np.inf):
                best[m.candidate] = m.latency
        ranked = sorted(((latency, c) for c, latency in best.items()), key=lambda pair: (pair[0], str(pair[1])))
        self.elites = ranked[: self.elite_limit]

    def elite_batch(self, most: int) -> PointBatch:
        """The fastest measured points."""
        return self.space.batch([c for _, c in self.elites[:most]])

    def state(self) -> dict[str, Any]:
        """Plain JSON; a few bytes per point."""
        return {
            "version": VERSION,
            "space": self.space.fingerprint,
            "seen": pack_keys(self.seen),
            "dead": pack_keys(self.invalid),
            "elites": [[latency, c.to_json()] for latency, c in self.elites],
            "tally": self.tally.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`.

        Raises:
            ValueError: for the state of another space or version.
        """
        if state.get("version") != VERSION or state.get("space") != self.space.fingerprint:
            raise ValueError("the searcher's state is of another version or another space")
        self.seen, self.invalid = unpack_keys(state["seen"]), unpack_keys(state["dead"])
        self.elites = [(float(latency), Candidate.from_json(c)) for latency, c in state["elites"]]
        self.tally.restore(state["tally"])


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """The generator's state as JSON that no parser rounds: its 128-bit integers are hexadecimal text."""
    state = rng.bit_generator.state
    return {**state, "state": {name: hex(value) for name, value in state["state"].items()}}


def restore_rng(rng: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Inverse of :func:`rng_state`."""
    inner = {name: int(value, 16) for name, value in state["state"].items()}
    rng.bit_generator.state = {**state, "state": inner}
