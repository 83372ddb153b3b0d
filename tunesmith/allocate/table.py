"""Tasks as columns: decisions are made about all of them at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.allocate.base import TaskView
from tunesmith.space.base import Bools, Floats, Ints


@dataclass(frozen=True)
class Table:
    """What :class:`tunesmith.allocate.base.TaskView` holds of each task, by attribute.

    Attributes:
        ids: task ids.
        histories: in seconds, each a task's.
        weight, flops: float64 [tasks].
        family: number of each task's family, int64 [tasks].
        untuned: in seconds, float64 [tasks], infinite while unknown.
        seconds: time of each task's next round, the mean of the others' where unknown, float64 [tasks].
        exhausted: bool [tasks].
    """

    ids: tuple[int, ...]
    histories: tuple[tuple[float, ...], ...]
    weight: Floats
    flops: Floats
    family: Ints
    untuned: Floats
    seconds: Floats
    exhausted: Bools

    @classmethod
    def of(cls, tasks: Sequence[TaskView]) -> Table:
        """The columns of ``tasks``, in their order."""
        ids, weight, flops, family, untuned, histories, _, seconds, exhausted, _ = (
            zip(*tasks, strict=True) if tasks else ((),) * len(TaskView._fields)
        )
        names = {name: number for number, name in enumerate(dict.fromkeys(family))}
        start, took = np.array(untuned, dtype=np.float64), np.array(seconds, dtype=np.float64)  # None becomes NaN
        known = took > 0
        usual = float(took[known].mean()) if known.any() else 1.0
        return cls(
            ids,
            histories,
            np.array(weight, dtype=np.float64),
            np.array(flops, dtype=np.float64),
            np.array([names[each] for each in family], dtype=np.int64),
            np.where(np.isnan(start), np.inf, start),
            np.where(known, took, usual),
            np.array(exhausted, dtype=np.bool_),
        )
