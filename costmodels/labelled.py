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
        code: float32 [programs, counts], see :class:`costmodels.base.Features`; None where none was read.
        judges: False for programs that are only learned from, which another measurement was of.
        hash: the workload's; empty where the name stands for it.
        target: what the programs were built for, as the target's hash.
    """

    name: str
    kin: str
    models: frozenset[str]
    rows: Floats32
    latency: Floats
    spread: Floats
    code: Floats32 | None = None
    judges: bool = True
    hash: str = ""
    target: str = ""

    @property
    def workload(self) -> str:
        """What tells workloads apart: names need not."""
        return self.hash or self.name


@dataclass(frozen=True)
class Labelled:
    """Programs of several workloads; group numbers are places in the tuples.

    Latencies of one measurement are a group: a workload that was measured twice has two.

    Attributes:
        data: rows, latencies and groups.
        spread: float64 [programs], relative standard deviation of each latency.
        names, workloads, kin, models, judges, targets: what :class:`Measured` has for each group.
    """

    data: TrainingSet
    spread: Floats
    names: tuple[str, ...]
    workloads: tuple[str, ...]
    kin: tuple[str, ...]
    models: tuple[frozenset[str], ...]
    judges: tuple[bool, ...]
    targets: tuple[str, ...]

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
                Features(rows, np.arange(len(rows) + 1), _code(kept)),
                np.concatenate([each.latency for each in kept]),
                group,
            ),
            np.concatenate([each.spread for each in kept]),
            tuple(each.name for each in kept),
            tuple(each.workload for each in kept),
            tuple(each.kin for each in kept),
            tuple(each.models for each in kept),
            tuple(each.judges for each in kept),
            tuple(each.target for each in kept),
        )


def _code(found: Sequence[Measured]) -> Floats32 | None:
    """Counts of all programs, NaN for what was not read."""
    width = next((each.code.shape[1] for each in found if each.code is not None), None)
    if width is None:
        return None
    unread = [np.full((len(each.latency), width), np.nan, dtype=np.float32) for each in found]
    return np.concatenate([none if each.code is None else each.code for each, none in zip(found, unread, strict=True)])
