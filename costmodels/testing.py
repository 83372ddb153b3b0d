"""What every cost model must honour: subclass, set ``model``, and pytest collects the checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from costmodels.base import CostModel, Features, TrainingSet
from costmodels.metrics import evaluate
from costmodels.training import Part, assemble
from tunesmith.analysis.rows import COLUMNS, FAMILY, PLACE, STATIC, family_number

DIMS = 24


KNOWN = (
    "kernel.loads",
    "vector.filled",
    "kernel.code",
    "kernel.stores",
    "parallel.tasks",
    "loop.0",
    "tile.0.0",
    "work.bytes",
)
"""Columns beside the estimate that made-up rows have; of all others nothing is known."""


def synthetic_part(workload: str, programs: int, seed: int, failures: float = 0.05) -> Part:
    """Programs of 2 to 4 stores whose latency is a sum over the stores of an exponential of their features."""
    rng = np.random.default_rng(seed)
    stores = []
    for _ in range(programs):
        rows = 0.2 * rng.normal(size=(int(rng.integers(2, 5)), DIMS)) + rng.normal(size=DIMS)
        stores.append(rows.astype(np.float32))
    features = Features.pack(stores)
    cost = np.exp(0.5 * features.rows[:, 0] - 0.5 * features.rows[:, 1])
    latency = 1e-4 * np.add.reduceat(cost.astype(np.float64), features.offsets[:-1])
    latency[rng.random(programs) < failures] = np.inf
    return Part(workload, features, latency)


def decision_part(workload: str, programs: int, seed: int, failures: float = 0.05) -> Part:
    """Programs whose decision rows have an estimate, and whose latency is that with an error that columns explain.

    The workloads are of two families, by their names.
    """
    rng = np.random.default_rng(seed)
    rows = np.full((programs, len(COLUMNS)), np.nan, dtype=np.float32)
    for name in (STATIC, *KNOWN):  # whatever other columns there are
        rows[:, PLACE[name]] = rng.normal(size=programs)
    rows[:, PLACE[FAMILY]] = family_number(workload[:1])
    error = 1.5 * rows[:, PLACE["kernel.loads"]] + np.abs(rows[:, PLACE["vector.filled"]])
    latency = np.exp2(rows[:, PLACE[STATIC]].astype(np.float64) - 12.0 + error)
    latency[rng.random(programs) < failures] = np.inf
    return Part(workload, Features(rows, np.arange(programs + 1)), latency)


class CostModelConformance:
    """Checks of a cost model's contract; ``model`` is called as ``model(seed=int)``.

    ``part`` makes programs of a workload with features that the model takes, ``workloads`` says of which, and how many
    programs, and ``pairs`` which share of pairs of unseen ones the model ranks right at least.
    """

    part: ClassVar[Callable[..., Part]] = staticmethod(synthetic_part)
    workloads: ClassVar[tuple[tuple[str, int], ...]] = (("a", 150), ("b", 100))
    pairs: ClassVar[float] = 0.75

    model: ClassVar[Callable[..., CostModel]]

    def make(self, seed: int = 0) -> CostModel:
        """A model to be fitted."""
        return type(self).model(seed=seed)

    def _data(self, seed: int = 0) -> TrainingSet:
        return assemble([self.part(name, count, seed + at) for at, (name, count) in enumerate(self.workloads)])

    def _fitted(self, seed: int = 0) -> CostModel:
        model = self.make(seed)
        model.fit(self._data())
        return model

    def test_predicts_one_finite_score_per_program(self) -> None:
        """Mean and a deviation that is not negative."""
        data = self._data(7)
        mean, deviation = self._fitted().predict(data.features)
        assert mean.dtype == deviation.dtype == np.float64
        assert mean.shape == deviation.shape == (len(data),)
        assert np.isfinite(mean).all()
        assert (deviation >= 0).all()

    def test_ranks_unseen_programs(self) -> None:
        """Far better than chance."""
        data = self._data(7)
        mean, _ = self._fitted().predict(data.features)
        metrics = evaluate(mean, data.latency, data.group)
        assert metrics.pairwise > self.pairs
        assert metrics.top10 > 0.6

    def test_repeats_under_a_seed(self) -> None:
        """The same data and seed give the same scores, to the bit."""
        features = self._data(7).features
        a, b = self._fitted(3).predict(features), self._fitted(3).predict(features)
        assert (a[0] == b[0]).all()
        assert (a[1] == b[1]).all()

    def test_does_not_depend_on_the_company(self) -> None:
        """A program scores the same alone as in a batch."""
        features, model = self._data(7).features, self._fitted()
        together, _ = model.predict(features)
        alone = [float(model.predict(features.take(np.array([i])))[0][0]) for i in range(10)]
        assert alone == together[:10].tolist()

    def test_saves_and_loads(self) -> None:
        """The loaded model predicts the same to the bit."""
        features, model = self._data(7).features, self._fitted()
        repeated = type(model).load(model.save())
        for left, right in zip(model.predict(features), repeated.predict(features), strict=True):
            assert (left == right).all()
        assert repeated.save() == model.save()

    def test_refuses_what_is_no_model(self) -> None:
        """ValueError for junk and for another format."""
        model = self._fitted()
        for junk in (b"", b"junk", b"{}", model.save().replace(b'"format": 1', b'"format": 999'), model.save()[:-50]):
            self._assert_refused(lambda junk=junk: type(model).load(junk))  # type: ignore[misc]

    def test_refuses_data_without_a_latency(self) -> None:
        """ValueError for no program and for failures only."""
        data = self._data()
        empty = TrainingSet(Features.concat([]), np.zeros(0), np.zeros(0, dtype=np.int64))
        failed = TrainingSet(data.features, np.full(len(data), np.inf), data.group)
        for bad in (empty, failed):
            self._assert_refused(lambda bad=bad: self.make().fit(bad))  # type: ignore[misc]

    def test_refuses_to_predict_before_a_fit_and_other_widths(self) -> None:
        """ValueError rather than numbers."""
        features = self._data().features
        self._assert_refused(lambda: self.make().predict(features))
        narrow = Features(features.rows[:, :3], features.offsets)
        self._assert_refused(lambda: self._fitted().predict(narrow))

    def test_learns_from_very_little(self) -> None:
        """A single program, and two programs of one store."""
        for programs in (1, 2):
            part = self.part("a", programs, 0, failures=0.0)
            model = self.make()
            model.fit(assemble([part]))
            assert np.isfinite(model.predict(part.features)[0]).all()

    def test_predicts_nothing_for_nothing(self) -> None:
        """Empty arrays."""
        mean, deviation = self._fitted().predict(Features.concat([]))
        assert len(mean) == len(deviation) == 0

    def test_trains_under_the_guard_in_pieces(self) -> None:
        """The guard is entered several times and left each time."""
        log: list[str] = []

        @contextmanager
        def guard() -> Iterator[None]:
            log.append("in")
            yield
            log.append("out")

        self.make().fit(self._data(), guard)
        assert len(log) >= 10
        assert log == ["in", "out"] * (len(log) // 2)

    def test_starts_no_threads(self) -> None:
        """Training leaves the number of the process's threads as it was."""
        self._fitted()
        before = len(os.listdir("/proc/self/task"))
        self._fitted()
        assert len(os.listdir("/proc/self/task")) == before

    @staticmethod
    def _assert_refused(call: Callable[[], object]) -> None:
        try:
            call()
        except ValueError:
            return
        raise AssertionError("it was accepted")
