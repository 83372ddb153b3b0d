from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from db.blobs import BlobStore
from tunesmith.errors import NotFound


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_bytes_come_back_under_their_hash(blobs: BlobStore) -> None:
    sha = blobs.put_bytes(b"abc")
    assert sha == hashlib.sha256(b"abc").hexdigest()
    assert blobs.get_bytes(sha) == b"abc"
    assert blobs.exists(sha)
    assert blobs.size(sha) == 3
    assert blobs.put_bytes(b"abc") == sha


def test_a_stream_is_hashed_while_it_is_written(blobs: BlobStore) -> None:
    with blobs.writer() as writer:
        for _ in range(3):
            writer.write(b"x" * 100_000)
        assert writer.size == 300_000
    assert writer.sha == hashlib.sha256(b"x" * 300_000).hexdigest()
    assert blobs.size(writer.sha) == 300_000


def test_a_broken_upload_leaves_nothing(blobs: BlobStore) -> None:
    def upload() -> None:
        with blobs.writer() as writer:
            writer.write(b"half")
            raise OSError("the client is gone")

    with pytest.raises(OSError, match="gone"):
        upload()
    assert [path for path in blobs.directory.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o007, 0o640), (0o022, 0o644)])
def test_the_umask_says_who_may_read_a_blob(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        blobs = BlobStore(tmp_path / "blobs")
        assert blobs.path(blobs.put_bytes(b"abc")).stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65])
def test_only_hashes_name_blobs(blobs: BlobStore, name: str) -> None:
    with pytest.raises(NotFound):
        blobs.path(name)


def test_a_missing_blob(blobs: BlobStore) -> None:
    for ask in (blobs.open, blobs.size, blobs.get_bytes):
        with pytest.raises(NotFound, match="no blob"):
            ask("0" * 64)


def test_what_killed_processes_left_unfinished_is_removed_in_time(blobs: BlobStore) -> None:
    kept = blobs.put_bytes(b"whole")
    upload, imported = blobs.writer(), blobs.directory / ".incoming-imported"
    upload.__enter__()
    imported.mkdir()
    (imported / "params.npz").write_bytes(b"weights")
    blobs.sweep()
    old = {path for path in blobs.directory.iterdir() if path.name.startswith(".")}
    assert len(old) == 2
    (blobs.directory / ".incoming-killed").write_bytes(b"half")  # its writer's lock ended with the writer
    blobs.sweep()
    assert {path for path in blobs.directory.iterdir() if path.name.startswith(".")} == old
    fresh = blobs.directory / ".incoming-fresh"
    fresh.mkdir()
    for path in (*old, blobs.path(kept)):
        os.utime(path, (1, 1))
    blobs.sweep()
    written = next(path for path in old if path.is_file())
    assert {path for path in blobs.directory.iterdir() if path.name.startswith(".")} == {fresh, written}
    assert blobs.get_bytes(kept) == b"whole"
    upload.__exit__(RuntimeError, RuntimeError("killed"), None)
