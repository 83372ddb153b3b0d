"""The score function of a search: canonical form, validity and, with a cost model, rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from costmodels.base import CostModel, Features
from tunesmith.space.base import Batch, Bools, Scores
from tunesmith.space.space import concat
from workers.sandbox.lease import HostLease
from workers.tvm_backend.space import TraceSpace

CHUNK = 32
"""Points replayed under one hold of the host lease: some 0.1 s."""


class Scorer:
    """Scores points of one space; the host lease is shared chunk by chunk, so that a kernel never waits for long.

    Args:
        model: ranks; None means that every valid point is equally good and features are not needed.
        check: called between chunks; raises when the search should stop.
    """

    def __init__(
        self, space: TraceSpace, model: CostModel | None, lease: HostLease, check: Callable[[], None]
    ) -> None:
        self.space, self.model = space, model
        self._lease, self._check = lease, check

    def __call__(self, batch: Batch) -> Scores:
        """Canonical points, their scores and whether they are valid."""
        parts = [self._score(piece) for piece in self._pieces(batch)]
        if not parts:
            nothing = np.zeros(0)
            return Scores(batch, nothing, nothing, np.zeros(0, dtype=np.bool_))
        return Scores(
            concat([part.batch for part in parts]),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.std for part in parts]),
            np.concatenate([part.valid for part in parts]),
        )

    def features(self, batch: Batch) -> tuple[Features | None, Bools]:
        """Features of the valid points in order, and which those are."""
        found, valid = [], []
        for piece in self._pieces(batch):
            with self._lease.shared():
                _, features, mask = self.space.features(piece)
            valid.append(mask)
            if features is not None:
                found.append(features)
        mask = np.concatenate([np.zeros(0, dtype=np.bool_), *valid])
        return (Features.concat(found) if found else None), mask

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        for start in range(0, len(batch), CHUNK):
            self._check()
            yield batch.take(slice(start, start + CHUNK))

    def _score(self, piece: Batch) -> Scores:
        mean, std = np.zeros(len(piece)), np.zeros(len(piece))
        with self._lease.shared():
            if self.model is None:
                resolved, valid = self.space.resolve(piece)
            else:
                resolved, features, valid = self.space.features(piece)
                if features is not None:
                    mean[valid], std[valid] = self.model.predict(features)
        return Scores(resolved, mean, std, valid)
