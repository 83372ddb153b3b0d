"""The score function of a search: canonical form, validity and, with a cost model, rank."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import numpy as np

from costmodels.base import CostModel, Features
from tunesmith.analysis.prior import StaticPrior, Unit
from tunesmith.search.base import Prior
from tunesmith.space.base import Bools, Floats, PointBatch, Scores
from tunesmith.space.space import concat
from workers.core.guide import in_turn
from workers.sandbox.lease import HostLease
from workers.tvm_backend.design_space.space import TraceSpace

CHUNK = 4
"""Points replayed under one hold of the host lease: some 50 ms at most, which is how long a kernel may have to wait."""


class Scorer:
    """Scores points of one space; the host lease is shared chunk by chunk, so that a kernel never waits for long.

    The model sees what the extractor says of a program and, as a last column, what the static model promises of it:
    with few measurements that tells more than all the others.

    Args:
        model: ranks; None means that every valid point is equally good and features are not needed.
        check: called between chunks; raises when the search should stop.
        prior: the static model of the space, where there is one.
        guide: estimates points before they are looked at; None: the static model does.
    """

    def __init__(
        self,
        space: TraceSpace,
        model: CostModel | None,
        lease: HostLease,
        check: Callable[[], None],
        prior: StaticPrior | None = None,
        guide: Prior | None = None,
    ) -> None:
        self.space, self.model, self.prior = space, model, prior
        self._lease, self._check = lease, check
        self.guide: Prior | None = guide or prior

    def __call__(self, batch: PointBatch) -> Scores:
        """Canonical points, their scores and whether they are valid."""
        mean, std = np.zeros(len(batch)), np.zeros(len(batch))
        if not len(batch):
            return Scores(batch, mean, std, np.zeros(0, dtype=np.bool_))
        resolved, features, valid = self._looked_at(batch)
        if self.model is not None and features is not None:
            with self._lease.shared():
                mean[valid], std[valid] = self.model.predict(features)
        return Scores(resolved, mean, std, valid)

    def features(self, batch: PointBatch) -> tuple[Features | None, Bools]:
        """Features of the valid points in order, and which those are."""
        _, features, valid = self._looked_at(batch, features=True)
        return features, valid

    def _looked_at(self, batch: PointBatch, features: bool = False) -> tuple[PointBatch, Features | None, Bools]:
        """Canonical points, features of the valid ones if they are needed, and which are valid; piece by piece."""
        found: list[Features] = []
        points, valid = [batch.take(slice(0))], [np.zeros(0, dtype=np.bool_)]
        for piece in self._pieces(batch):
            with self._lease.shared():
                if features or self.model is not None:
                    resolved, rows, mask = self.space.features(piece)
                    found += [] if rows is None else [rows]
                else:
                    resolved, mask = self.space.resolve(piece)
            points.append(resolved)
            valid.append(mask)
        canonical, mask = concat(points), np.concatenate(valid)
        if not found:
            return canonical, None, mask
        return canonical, Features.concat(found).beside(self._promise(canonical.take(mask))), mask

    def _promise(self, batch: PointBatch) -> Floats:
        """See :meth:`StaticPrior.promise`; NaN everywhere without a static model."""
        return np.full(len(batch), np.nan) if self.prior is None else self.prior.promise(batch)

    def _pieces(self, batch: PointBatch) -> Iterator[PointBatch]:
        for start in range(0, len(batch), CHUNK):
            self._check()
            yield batch.take(slice(start, start + CHUNK))


class RankedScorer(Scorer):
    """Scores points by their decision rows: they are replayed only to learn whether they are valid.

    The model is a guide, too, in turn with the static model.

    Args:
        prior: the static model that makes the rows.
        family, precision: family of the workload, and precision of the job.
        unit: is entered for each small piece of work.
    """

    def __init__(
        self,
        space: TraceSpace,
        model: CostModel | None,
        lease: HostLease,
        check: Callable[[], None],
        prior: StaticPrior,
        family: str,
        precision: str,
        unit: Unit = contextlib.nullcontext,
    ) -> None:
        guide = None if model is None else in_turn(prior, model, family, precision, unit)
        super().__init__(space, model, lease, check, prior, guide)
        self._rows = functools.partial(prior.rows, family=family, precision=precision)

    def __call__(self, batch: PointBatch) -> Scores:
        """As every scorer; points without an estimate are in the middle of the others."""
        found = super().__call__(batch)
        unknown = np.isnan(found.mean)
        if unknown.any():
            known = found.mean[found.valid & ~unknown]
            found.mean[unknown] = float(np.median(known)) if len(known) else 0.0
            found.std[unknown] = 0.0
        return found

    def _looked_at(self, batch: PointBatch, features: bool = False) -> tuple[PointBatch, Features | None, Bools]:
        pieces = [(batch.take(slice(0)), np.zeros(0, dtype=np.bool_))]
        for piece in self._pieces(batch):
            with self._lease.shared():
                pieces.append(self.space.resolve(piece))
        canonical, mask = concat([points for points, _ in pieces]), np.concatenate([valid for _, valid in pieces])
        wanted = mask.any() and (features or self.model is not None)
        return canonical, self._features(canonical.take(mask)) if wanted else None, mask

    def _features(self, batch: PointBatch) -> Features:
        return Features(self._rows(batch), np.arange(len(batch) + 1))
