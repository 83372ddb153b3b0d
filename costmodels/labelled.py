"""Measured programs as a data set: decision rows, latencies, and where each workload comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodels.base import Features, Floats, Floats32, TrainingSet


@dataclass(frozen=True)
class Measured:
    """Programs of one workload.

    Attributes:
        name: the workload's name.
        kin: what it has in common with its mutations: its main operator, without extents.
        models: models that contain it.
        rows: float32 [programs, columns], decision rows.
        latency: float64 [programs], seconds; infinity for a failure.
        spread: float64 [programs], relative standard deviation of the latency.
    """

    name: str
    kin: str
    models: frozenset[str]
    rows: Floats32
    latency: Floats
    spread: Floats


@dataclass(frozen=True)
class Labelled:
    """Programs of several workloads; group numbers are places in the tuples.

    Attributes:
        data: rows, latencies and groups.
        spread: float64 [programs], relative standard deviation of each latency.
        names, kin, models: what :class:`Measured` has for each workload.
    """

    data: TrainingSet
    spread: Floats
    names: tuple[str, ...]
    kin: tuple[str, ...]
    models: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, found: Sequence[Measured]) -> Labelled:
        """All workloads with a latency, in order.

        Raises:
            ValueError: there is none.
        """
        kept = [each for each in found if np.isfinite(each.latency).any()]
        if not kept:
            raise ValueError("there is no measured program to learn from")
        rows = np.concatenate([each.rows for each in kept])
        group = np.repeat(np.arange(len(kept)), [len(each.latency) for each in kept])
        return cls(
            TrainingSet(
                Features(rows, np.arange(len(rows) + 1)), np.concatenate([each.latency for each in kept]), group
            ),
            np.concatenate([each.spread for each in kept]),
            tuple(each.name for each in kept),
            tuple(each.kin for each in kept),
            tuple(each.models for each in kept),
        )
