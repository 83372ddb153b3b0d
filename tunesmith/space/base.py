"""A design space: sketches of numeric knobs, and vectorised operations on batches of points.

A point is a sketch and, per knob, an index into the knob's table of choices. Everything that search
does happens on these integers; turning them into a schedule is the business of whoever built the space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.space.knobs import Knob

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sketch:
    """A trace skeleton's knobs, in trace order."""

    hash: str
    knobs: tuple[Knob, ...]


@dataclass(frozen=True)
class PointBatch:
    """Points of one space.

    Attributes:
        sketch: int64 [n], index of the sketch.
        choice: int64 [n, width], index into each knob's choices; -1 right of the sketch's knobs.
    """

    sketch: Ints
    choice: Ints

    def __len__(self) -> int:
        return len(self.sketch)

    def take(self, index: Ints | Bools | slice) -> PointBatch:
        """The points at ``index``."""
        return PointBatch(self.sketch[index], self.choice[index])


@dataclass(frozen=True)
class Scores:
    """What a score function says of a batch.

    Attributes:
        batch: the points in canonical form (a trace replay may clamp decisions).
        mean: float64 [n], higher is better.
        std: float64 [n].
        valid: bool [n]; an invalid point must not be proposed.
    """

    batch: PointBatch
    mean: Floats
    std: Floats
    valid: Bools


class Resolver(ABC):
    """Says which points exist and what their canonical form is."""

    @abstractmethod
    def resolve(self, batch: PointBatch) -> tuple[PointBatch, Bools]:
        """The canonical form of each point and whether it is valid. Idempotent; keeps length and order."""
