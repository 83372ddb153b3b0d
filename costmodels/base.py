"""The cost model's contract: features in, scores out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Features:
    """Per-store features of a batch of programs, packed.

    Attributes:
        rows: float32 [stores, dims], all programs' stores one after another.
        offsets: int64 [programs + 1]; program i owns rows offsets[i]:offsets[i + 1] (never empty).
    """

    rows: Floats32
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class TrainingSet:
    """Programs with measured latencies.

    Attributes:
        features: of each program.
        latency: float64 [programs], seconds; infinity for a failure.
        group: int64 [programs]; programs of one workload share a group and are ranked among themselves.
    """

    features: Features
    latency: Floats
    group: Ints

    def labels(self) -> Floats:
        """Best latency of the group over latency, in 0..1 (MetaSchedule's throughput label)."""
        out = np.zeros(len(self.latency))
        for g in np.unique(self.group):
            index = np.flatnonzero(self.group == g)
            best = self.latency[index].min()
            if np.isfinite(best):
                out[index] = best / self.latency[index]
        return out


class CostModel(ABC):
    """Ranks programs of a workload: a higher score means faster.

    Contract, checked by ``tunesmith.testing.costmodels.CostModelConformance``: ``cls(seed=int)``; deterministic
    under a seed; ``load(save())`` predicts the same to the bit; one thread.
    """

    @abstractmethod
    def fit(self, data: TrainingSet) -> None:
        """Fit from scratch. Raises ValueError when ``data`` is empty or has no valid latency."""

    @abstractmethod
    def predict(self, features: Features) -> tuple[Floats, Floats]:
        """Mean and deviation of the score, float64 [programs] each."""

    @abstractmethod
    def save(self) -> bytes:
        """The fitted model, with its version."""

    @classmethod
    @abstractmethod
    def load(cls, data: bytes) -> CostModel:
        """Inverse of :meth:`save`. Raises ValueError for another format version."""
