"""Features of a batch's candidates as a blob: what training reads again."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from costmodels.base import Features, Ints
from db.blobs import BlobStore


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
