"""Knobs: one sampling decision each, with its choices numbered from 0.

Every operation works on arrays of choice numbers; nothing loops over candidates.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tunesmith.space.factors import MAX_EXTENT, Factorizations
from tunesmith.types import Decision

Ints = NDArray[np.int64]
Floats32 = NDArray[np.float32]

ONE_HOT_LIMIT = 8
"""Categories up to which a categorical knob is encoded one-hot."""


class Knob(ABC):
    """One decision of a sketch. Implementations are frozen, comparable and rebuilt from JSON."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of choices, at least 1."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns of :meth:`encode`."""

    @abstractmethod
    def values(self, index: Ints) -> Ints:
        """What each choice stands for: int64 [n, columns], one column except for tiles."""

    @abstractmethod
    def index(self, values: Ints) -> Ints:
        """Inverse of :meth:`values`. Raises ValueError for what is no choice of this knob."""

    @abstractmethod
    def encode(self, index: Ints) -> Floats32:
        """Numbers of similar scale for a model: float32 [n, width]."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :func:`knob_from_json` is the inverse."""

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """``n`` choices, each equally likely."""
        return rng.integers(self.size, size=n, dtype=np.int64)

    def neighbours(self, rng: np.random.Generator, index: Ints) -> Ints:
        """A choice next to each, and never itself unless there is only one."""
        if self.size == 1:
            return np.array(index)
        moved: Ints = (index + rng.integers(1, self.size, size=len(index), dtype=np.int64)) % self.size
        return moved

    def around(self, index: int) -> Ints:
        """All choices next to one, without itself, in a fixed order."""
        return np.delete(np.arange(self.size, dtype=np.int64), index)

    def decisions(self, index: Ints) -> list[Decision]:
        """The choices as decisions of a trace."""
        return [int(v) for v in self.values(index)[:, 0]]

    def find(self, decisions: Sequence[Decision]) -> Ints:
        """Inverse of :meth:`decisions`. Raises ValueError for what is no choice of this knob."""
        if not all(isinstance(d, int) for d in decisions):
            raise ValueError(f"a decision of {self} is an integer")
        return self.index(np.array(decisions, dtype=np.int64).reshape(-1, 1))


@dataclass(frozen=True)
class PerfectTile(Knob):
    """Splits of a loop into ``parts`` loops whose extents multiply to ``extent``, the innermost at most
    ``max_innermost`` (TVM's ``SamplePerfectTile``). Neighbours differ by one prime moved between two parts.

    Raises:
        ValueError: for a part count or extent below 1, or an extent beyond 2**40.
    """

    extent: int
    parts: int
    max_innermost: int = 64
    kind: ClassVar[str] = "perfect_tile"

    def __post_init__(self) -> None:
        if not 1 <= self.extent <= MAX_EXTENT or self.parts < 1 or self.max_innermost < 1:
            raise ValueError(f"not a tile: {self.extent} into {self.parts}, innermost up to {self.max_innermost}")

    @functools.cached_property
    def _factors(self) -> Factorizations:
        return Factorizations(self.extent, self.parts, self.max_innermost)

    @property
    def size(self) -> int:
        """Number of ordered factorisations."""
        return self._factors.size

    @property
    def width(self) -> int:
        """One column per part."""
        return self.parts

    def values(self, index: Ints) -> Ints:
        """The factors, outermost first: int64 [n, parts]."""
        return self._factors.decode(index)

    def index(self, values: Ints) -> Ints:
        """The choice of each row of factors."""
        return self._factors.encode(values)

    def encode(self, index: Ints) -> Floats32:
        """Base-two logarithms of the factors."""
        logs: Floats32 = np.log2(self.values(index)).astype(np.float32)
        return logs

    def neighbours(self, rng: np.random.Generator, index: Ints) -> Ints:
        """One prime moved from one part to another, each applicable move equally likely."""
        if self.size == 1:
            return np.array(index)
        factors = self.values(index)
        moves, applicable = self._factors.moves(factors)
        pick = np.argmax(np.where(applicable, rng.random(applicable.shape), -1.0), axis=1)
        prime, source, target = moves[pick].T
        rows = np.arange(len(index))
        factors[rows, source] //= prime
        factors[rows, target] *= prime
        return self.index(factors)

    def around(self, index: int) -> Ints:
        """Every prime moved between every two parts."""
        factors = self.values(np.array([index]))
        moves, applicable = self._factors.moves(factors)
        prime, source, target = moves[applicable[0]].T
        rows = np.arange(len(prime))
        moved = np.repeat(factors, len(prime), axis=0)
        moved[rows, source] //= prime
        moved[rows, target] *= prime
        return self.index(moved)

    def decisions(self, index: Ints) -> list[Decision]:
        """Tuples of factors."""
        return [tuple(row) for row in self.values(index).tolist()]

    def find(self, decisions: Sequence[Decision]) -> Ints:
        """The choice of each tuple of factors."""
        if not all(isinstance(d, tuple) and len(d) == self.parts for d in decisions):
            raise ValueError(f"a decision of {self} has {self.parts} factors")
        return self.index(np.array(decisions, dtype=np.int64).reshape(-1, self.parts))

    def to_json(self) -> dict[str, Any]:
        """``{kind, extent, parts, max_innermost}``."""
        return {"kind": self.kind, "extent": self.extent, "parts": self.parts, "max_innermost": self.max_innermost}


@dataclass(frozen=True)
class Categorical(Knob):
    """One of ``count`` unordered categories; the decision is its index."""

    count: int
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("a categorical knob needs at least one category")

    @property
    def size(self) -> int:
        """Number of categories."""
        return self.count

    @property
    def width(self) -> int:
        """One column per category when there are few, else one."""
        return self.count if self.count <= ONE_HOT_LIMIT else 1

    def values(self, index: Ints) -> Ints:
        """The index itself: int64 [n, 1]."""
        return np.array(index).reshape(-1, 1)

    def index(self, values: Ints) -> Ints:
        """The index, checked."""
        return _in_range(values, 0, self.count - 1, self)

    def encode(self, index: Ints) -> Floats32:
        """One-hot, or the index over the count."""
        if self.width == 1:
            return (index / self.count).astype(np.float32).reshape(-1, 1)
        return np.eye(self.count, dtype=np.float32)[index]

    def to_json(self) -> dict[str, Any]:
        """``{kind, size}``."""
        return {"kind": self.kind, "size": self.count}


@dataclass(frozen=True)
class ComputeLocation(Knob):
    """A loop index from ``low`` to ``high``, both included, where a block is computed (TVM's
    ``SampleComputeLocation``: -1 is the root, -2 inline). A replay may clamp it: see ``Resolver``.
    """

    low: int
    high: int
    kind: ClassVar[str] = "compute_location"

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError(f"an empty range of locations: {self.low} to {self.high}")

    @property
    def size(self) -> int:
        """Number of locations."""
        return self.high - self.low + 1

    @property
    def width(self) -> int:
        """One column."""
        return 1

    def values(self, index: Ints) -> Ints:
        """The loop index: int64 [n, 1]."""
        return (index + self.low).reshape(-1, 1)

    def index(self, values: Ints) -> Ints:
        """The choice of each loop index."""
        return _in_range(values, self.low, self.high, self)

    def around(self, index: int) -> Ints:
        """The location before and the one after."""
        both = np.array([index - 1, index + 1], dtype=np.int64)
        return both[(both >= 0) & (both < self.size)]

    def encode(self, index: Ints) -> Floats32:
        """The location's place in its range, 0 to 1."""
        return (index / max(self.size - 1, 1)).astype(np.float32).reshape(-1, 1)

    def to_json(self) -> dict[str, Any]:
        """``{kind, low, high}``."""
        return {"kind": self.kind, "low": self.low, "high": self.high}


def _in_range(values: Ints, low: int, high: int, knob: Knob) -> Ints:
    flat = values.reshape(-1)
    if ((flat < low) | (flat > high)).any():
        raise ValueError(f"{flat.tolist()[:3]} is outside of {knob}")
    return flat - low


def knob_from_json(body: Mapping[str, Any]) -> Knob:
    """The knob that ``to_json`` wrote.

    Raises:
        ValueError: for an unknown kind.
    """
    if body["kind"] == PerfectTile.kind:
        return PerfectTile(int(body["extent"]), int(body["parts"]), int(body["max_innermost"]))
    if body["kind"] == Categorical.kind:
        return Categorical(int(body["size"]))
    if body["kind"] == ComputeLocation.kind:
        return ComputeLocation(int(body["low"]), int(body["high"]))
    raise ValueError(f"unknown knob kind {body['kind']!r}")
