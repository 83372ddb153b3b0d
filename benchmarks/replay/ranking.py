"""A cost model that learns during a replay, from the decisions alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costmodels.base import Features, TrainingSet
from costmodels.boosting import BoostingOptions
from costmodels.lightgbm_model import LightGBMModel
from tunesmith.space.base import Floats, Ints, PointBatch, Scores
from tunesmith.testing.replay import Recording
from tunesmith.types import Measurement

FEWEST = 8
"""Measurements before which the model has no opinion."""

OPTIONS = BoostingOptions(rounds=25, bag=0.9)
"""A quarter of the service's rounds, because it is fitted thousands of times here."""


def decision_features(recording: Recording, numbers: Ints) -> Features:
    """The encoded decisions of points as one row each."""
    return Features(recording.space.encode(recording.space.at(numbers)), np.arange(len(numbers) + 1))


class Ranker:
    """Scores points by a model that is fitted again once there are new measurements."""

    def __init__(self, recording: Recording, seed: int) -> None:
        self._recording, self._seed = recording, seed
        self._everything = decision_features(recording, np.arange(recording.space.size))
        self._known: dict[int, float] = {}
        self._mean: Floats = np.zeros(recording.space.size)
        self._std: Floats = np.zeros(recording.space.size)
        self._new = False

    def learn(self, measurements: Sequence[Measurement]) -> None:
        """Take measurements in."""
        space = self._recording.space
        keys = space.keys(space.batch([m.candidate for m in measurements]))
        self._known.update(zip(keys.tolist(), (m.latency for m in measurements), strict=True))
        self._new = True

    def score(self, batch: PointBatch) -> Scores:
        """The score function of a search."""
        if self._new and len(self._known) >= FEWEST:
            self._fit()
        return self._recording.scored(batch, self._mean, self._std)

    def _fit(self) -> None:
        self._new = False
        keys, latency = np.array(list(self._known)), np.array(list(self._known.values()))
        if not np.isfinite(latency).any():
            return
        model = LightGBMModel(self._seed, OPTIONS)
        model.fit(TrainingSet(self._everything.take(keys), latency, np.zeros(len(keys), dtype=np.int64)))
        self._mean, self._std = model.predict(self._everything)
