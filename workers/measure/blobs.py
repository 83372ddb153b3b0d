"""Payloads of messages, inline or behind a signed URL, as bytes and as files."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import httpx2

from db.blobs import BlobStore
from tunesmith.errors import MeasurementFailed
from tunesmith.messages import Payload

CHUNK = 1 << 20
DEFAULT_LIMIT = 8 << 30


class PayloadCache:
    """Downloads each blob once and keeps the most recently used ones.

    Args:
        folder: where the files lie, by SHA-256.
        limit: bytes to keep; the blob fetched last stays whatever its size.
        store: the blob store, for a worker that can read it: what lies there is neither fetched nor copied.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT, store: Path | None = None) -> None:
        self._folder, self._limit = folder, limit
        self._store = store
        self._client = httpx2.Client(timeout=60.0, follow_redirects=False, trust_env=False)

    def load(self, payload: Payload) -> bytes:
        """The payload's bytes.

        Raises:
            MeasurementFailed: the blob cannot be fetched, or is not what its hash says.
        """
        return payload.unpack() if payload.inline is not None else self.file(payload).read_bytes()

    def file(self, payload: Payload) -> Path:
        """The payload as a local file, not to be changed; errors as in :meth:`load`."""
        if payload.inline is not None:
            data = payload.unpack()
            path = self._folder / hashlib.sha256(data).hexdigest()
            if not path.exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                _atomically(path, data)
            return path
        if payload.sha256 is None or payload.url is None:
            raise MeasurementFailed("a payload is neither inline nor a blob with a URL")
        if (stored := self._stored(payload.sha256)) is not None:
            return stored
        path = self._folder / payload.sha256
        if path.exists():
            os.utime(path)
        else:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._download(payload.url, payload.sha256, path)
            self._evict(path)
        return path

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _stored(self, sha: str) -> Path | None:
        if self._store is None or not self._store.is_dir():
            return None
        store = BlobStore(self._store)
        return store.path(sha) if store.exists(sha) else None

    def _download(self, url: str, expected: str, path: Path) -> None:
        digest = hashlib.sha256()
        fd, name = tempfile.mkstemp(dir=self._folder, prefix=".download-")
        try:
            with os.fdopen(fd, "wb") as file, self._client.stream("GET", url) as response:
                response.raise_for_status()
                for chunk in response.iter_bytes(CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != expected:
                raise MeasurementFailed(f"the blob {expected} came with another content")
            os.replace(name, path)
        except httpx2.HTTPStatusError as error:  # the error's text holds the URL, which opens the blob without a key
            status = error.response.status_code
            raise MeasurementFailed(f"the blob {expected} cannot be fetched: status {status}") from None
        except httpx2.HTTPError as error:
            raise MeasurementFailed(f"the blob {expected} cannot be fetched: {error}") from error
        finally:
            Path(name).unlink(missing_ok=True)

    def _evict(self, keep: Path) -> None:
        """Remove the least recently used files beyond the limit."""
        files = sorted((p for p in self._folder.iterdir() if p.is_file()), key=lambda p: p.stat().st_mtime)
        total = sum(p.stat().st_size for p in files)
        for path in files:
            if total <= self._limit:
                return
            if path != keep:
                total -= path.stat().st_size
                path.unlink(missing_ok=True)


def _atomically(path: Path, data: bytes) -> None:
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".write-")
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    os.replace(name, path)
