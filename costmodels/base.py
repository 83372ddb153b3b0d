"""The cost model's contract: features in, scores out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Guard = Callable[[], AbstractContextManager[object]]
"""Entered around each small piece of training, so that others may have the cores in between."""


@dataclass(frozen=True)
class Features:
    """Per-store features of a batch of programs, packed.

    Attributes:
        rows: float32 [stores, dims], all programs' stores one after another.
        offsets: int64 [programs + 1]; program i owns rows offsets[i]:offsets[i + 1] (never empty).
        code: float32 [programs, counts], of ``tunesmith.analysis.machine_code``; NaN for programs whose machine code
            nobody read, None where that of none was.
    """

    rows: Floats32
    offsets: Ints
    code: Floats32 | None = None

    def __post_init__(self) -> None:
        counts = np.diff(self.offsets)
        if not len(self.offsets) or self.offsets[0] != 0 or self.offsets[-1] != len(self.rows) or (counts < 1).any():
            raise ValueError("every program needs at least one row, and the offsets must cover all rows")
        if self.code is not None and len(self.code) != len(self):
            raise ValueError("every program needs a row of counts of its machine code")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Ints:
        """Rows of each program: int64 [programs]."""
        return np.diff(self.offsets)

    def take(self, index: Ints) -> Features:
        """The programs at ``index``, in that order."""
        counts = self.counts[index]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = np.repeat(self.offsets[:-1][index] - offsets[:-1], counts) + np.arange(offsets[-1])
        return Features(self.rows[rows], offsets, None if self.code is None else self.code[index])

    def beside(self, values: Floats) -> Features:
        """With one more column: ``values``, float64 [programs], in every row of a program."""
        column = np.repeat(values, self.counts).astype(np.float32)
        return Features(np.column_stack([self.rows, column]), self.offsets)

    @classmethod
    def pack(cls, programs: Sequence[Floats32]) -> Features:
        """From one float32 [stores, dims] array per program."""
        offsets = np.concatenate([[0], np.cumsum([len(p) for p in programs])]).astype(np.int64)
        rows = np.concatenate(programs) if programs else np.zeros((0, 0), dtype=np.float32)
        return cls(rows.astype(np.float32), offsets)

    @classmethod
    def concat(cls, parts: Sequence[Features]) -> Features:
        """The programs of several, one after another; without any an empty one."""
        parts = [p for p in parts if len(p)]
        counts = np.concatenate([p.counts for p in parts]) if parts else np.zeros(0, dtype=np.int64)
        rows = np.concatenate([p.rows for p in parts]) if parts else np.zeros((0, 0), dtype=np.float32)
        return cls(rows, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


@dataclass(frozen=True)
class TrainingSet:
    """Programs with measured latencies.

    Attributes:
        features: features of each program.
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

    def __len__(self) -> int:
        return len(self.latency)

    def take(self, index: Ints) -> TrainingSet:
        """The programs at ``index``, in that order."""
        return TrainingSet(self.features.take(index), self.latency[index], self.group[index])


class CostModel(ABC):
    """Ranks programs of a workload: a higher score means faster.

    Contract, checked by ``costmodels.testing.CostModelConformance``: ``cls(seed=int)``; deterministic
    under a seed; ``load(save())`` predicts the same to the bit; one thread.
    """

    @abstractmethod
    def fit(self, data: TrainingSet, guard: Guard = nullcontext) -> None:
        """Fit from scratch, ``guard`` held around some ten boosting rounds at a time.

        Raises:
            ValueError: when ``data`` is empty or has no valid latency.
        """

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
