"""Boosted trees on per-store features with the pack-sum objective.

The score of a program P is the sum of the trees' output over its stores, score(P) = sum of f(x_s); the loss is
half the squared difference to the label, and its gradient is the same for every store of the program (Ansor, Zheng
et al., OSDI 2020; TVM's MetaSchedule). Each store's second derivative is taken as the program's number of stores:
(sum of d_s)^2 <= k * sum of d_s^2 makes the step a bound of the loss, so that programs with many stores do not
overshoot. Each row also carries its program's number of stores: a sum over stores grows with their number, and the
trees can only undo that when they see it.

A model is a small ensemble, each member grown on a random part of the programs; the members' spread is the deviation.
"""

from __future__ import annotations

import base64
import json
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from costmodels.base import CostModel, Features, Floats, Floats32, Guard, Ints, TrainingSet

FORMAT = 1
SLICE = 10
"""Boosting rounds per entry of the guard."""

SMALLEST_BAG = 20
"""Programs below which every member sees all of them."""

Objective = Callable[[Floats], tuple[Floats, Floats]]
"""Margins of all rows to gradient and second derivative of all rows."""


@dataclass(frozen=True)
class BoostingOptions:
    """``members`` of the ensemble, boosting ``rounds`` of each, and the share of programs that a member sees."""

    members: int = 3
    rounds: int = 100
    bag: float = 0.8


def pack_sum(margins: Floats, offsets: Ints) -> Floats:
    """Score of each program: the sum over its rows, float64 [programs]."""
    return np.add.reduceat(margins.astype(np.float64), offsets[:-1])


def pack_sum_objective(offsets: Ints, labels: Floats) -> Objective:
    """The objective of the module's docstring for programs of these offsets."""
    counts = np.diff(offsets)
    curvature = np.repeat(counts, counts).astype(np.float64)

    def objective(margins: Floats) -> tuple[Floats, Floats]:
        return np.repeat(pack_sum(margins, offsets) - labels, counts), curvature

    return objective


def with_counts(features: Features) -> Floats32:
    """The rows with the number of their program's stores as a last column, float32 [stores, dims + 1]."""
    return np.column_stack([features.rows, np.repeat(features.counts, features.counts)]).astype(np.float32)


Booster = TypeVar("Booster")


class BoostedModel(CostModel, Generic[Booster]):
    """The ensemble; subclasses grow one member and (de)serialise it."""

    kind: ClassVar[str]

    def __init__(self, seed: int = 0, options: BoostingOptions = BoostingOptions()) -> None:
        self.seed, self.options = seed, options
        self._members: list[Booster] = []
        self._dims = 0

    @abstractmethod
    def _start(self, rows: Floats32, seed: int) -> tuple[Booster, Any]:
        """An empty booster on these rows, and its data."""

    @abstractmethod
    def _grow(self, booster: Booster, data: Any, iteration: int, objective: Objective) -> None:
        """One more boosting round."""

    @abstractmethod
    def _margins(self, booster: Booster, rows: Floats32) -> Floats:
        """The booster's output for each row."""

    @abstractmethod
    def _dump(self, booster: Booster) -> bytes:
        """The booster as bytes."""

    @classmethod
    @abstractmethod
    def _parse(cls, data: bytes) -> Booster:
        """Inverse of ``_dump``. Raises ValueError when that is not one."""

    def fit(self, data: TrainingSet, guard: Guard = nullcontext) -> None:
        """See :class:`CostModel`."""
        if not len(data) or not np.isfinite(data.latency).any():
            raise ValueError("there is no program with a valid latency to learn from")
        labels = data.labels()
        self._dims = data.features.rows.shape[1]
        rng = np.random.default_rng(self.seed)
        members = []
        for _ in range(self.options.members):
            index = self._bag(rng, len(data))
            members.append(self._member(data.features.take(index), labels[index], int(rng.integers(2**31)), guard))
        self._members = members

    def _bag(self, rng: np.random.Generator, n: int) -> Ints:
        if n < SMALLEST_BAG or self.options.members == 1:
            return np.arange(n, dtype=np.int64)
        return np.sort(rng.choice(n, size=round(n * self.options.bag), replace=False)).astype(np.int64)

    def _member(self, features: Features, labels: Floats, seed: int, guard: Guard) -> Booster:
        objective = pack_sum_objective(features.offsets, labels)
        with guard():
            booster, data = self._start(with_counts(features), seed)
        for start in range(0, self.options.rounds, SLICE):
            with guard():
                for iteration in range(start, min(start + SLICE, self.options.rounds)):
                    self._grow(booster, data, iteration, objective)
        return booster

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        """See :class:`CostModel`. Raises ValueError before a fit and for rows of another width."""
        if not self._members:
            raise ValueError("the model is not fitted")
        if not len(features):
            return np.zeros(0), np.zeros(0)
        if features.rows.shape[1] != self._dims:
            raise ValueError(f"the model takes {self._dims} features a store, not {features.rows.shape[1]}")
        rows = with_counts(features)
        scores = np.stack([pack_sum(self._margins(m, rows), features.offsets) for m in self._members])
        return scores.mean(axis=0), scores.std(axis=0)

    def save(self) -> bytes:
        """See :class:`CostModel`: JSON with the members in base64."""
        members = [base64.b64encode(self._dump(m)).decode() for m in self._members]
        header = {"format": FORMAT, "kind": self.kind, "seed": self.seed, "dims": self._dims}
        return json.dumps({**header, "members": members}).encode()

    @classmethod
    def load(cls, data: bytes) -> CostModel:
        """See :class:`CostModel`."""
        try:
            body = json.loads(data)
            if (body["format"], body["kind"]) != (FORMAT, cls.kind):
                raise ValueError(f"format {body['format']} of {body['kind']}")
            model = cls(seed=int(body["seed"]))
            model._dims = int(body["dims"])
            model._members = [cls._parse(base64.b64decode(m)) for m in body["members"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"not a saved {cls.kind} model of format {FORMAT}: {error}") from error
        return model
