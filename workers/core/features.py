"""Features of a batch's candidates as a blob: what training reads again."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodels.base import Features, Ints
from db.blobs import BlobStore
from tunesmith.space import base as points
from tunesmith.space.base import Floats
from tunesmith.types import Candidate

if TYPE_CHECKING:
    from workers.core.context import Context
    from workers.core.scoring import Scorer

Expected = tuple[float | None, ...] | None
"""What a cost model says of each candidate of a batch; None without one."""


@dataclass(frozen=True)
class BatchFeatures:
    """Features of some of a batch's candidates.

    Attributes:
        features: features of each program.
        index: int64 [programs], the candidates' indices in the batch.
        version: version of the extractor.
    """

    features: Features
    index: Ints
    version: str

    def save(self, blobs: BlobStore) -> str:
        """Store as npz, return the blob's SHA-256."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            rows=self.features.rows,
            offsets=self.features.offsets,
            index=self.index,
            version=np.array(self.version),
        )
        return blobs.put_bytes(buffer.getvalue())

    @classmethod
    def load(cls, blobs: BlobStore, sha: str) -> BatchFeatures:
        """Inverse of :meth:`save`. Raises NotFound."""
        with blobs.open(sha) as file, np.load(file, allow_pickle=False) as archive:
            features = Features(archive["rows"], archive["offsets"])
            return cls(features, archive["index"], str(archive["version"]))


def describe(
    context: Context, scorer: Scorer, candidates: Sequence[Candidate], version: str
) -> tuple[Expected, Expected, str | None]:
    """Scores and their deviations by index (None without one), and the blob of the candidates' features, which are of
    ``version``."""
    index = np.array([i for i, c in enumerate(candidates) if c.sketch is not None], dtype=np.int64)
    if not len(index):
        return None, None, None
    batch: points.PointBatch = scorer.space.space.batch([candidates[i] for i in index])
    features, valid = scorer.features(batch)
    if features is None:
        return None, None, None
    index = index[valid]
    blob = BatchFeatures(features, index, version).save(context.blobs)
    if scorer.model is None:
        return None, None, blob
    mean, deviation = scorer.model.predict(features)

    def by_index(values: Floats) -> tuple[float | None, ...]:
        found = {i: value for i, value in zip(index.tolist(), values.tolist(), strict=True) if value == value}
        return tuple(found.get(i) for i in range(len(candidates)))

    return by_index(mean), by_index(deviation), blob
