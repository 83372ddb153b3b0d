"""Bundles: what is refused, and that nothing of it is believed before it was looked at."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tunesmith import bundles
from tunesmith.errors import InvalidInput


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A whole one of small files."""
    members = {}
    for name in (*bundles.NEEDED, bundles.LOG):
        members[name] = tmp_path / name
        members[name].write_text(name)
    bundles.write(tmp_path / "x.zip", members, {"made_at": "now"})
    return tmp_path / "x.zip"


def unpacked(archive: Path) -> Path:
    folder = archive.parent / "out"
    folder.mkdir()
    bundles.unpack(archive, folder)
    return folder


def rewritten(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The archive with other members."""
    with zipfile.ZipFile(archive) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    with zipfile.ZipFile(archive, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
    return archive


def test_a_bundle_comes_back_as_it_was_written(archive: Path) -> None:
    folder = unpacked(archive)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        name: name for name in (*bundles.NEEDED, bundles.LOG)
    }


def manifest(members: dict[str, bytes], **changes: object) -> None:
    members[bundles.MANIFEST] = json.dumps({**json.loads(members[bundles.MANIFEST]), **changes}).encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda members: members.update({"../evil": b"x"}), r"member '../evil', and bundles have no such"),
        (lambda members: members.update({"/etc/passwd": b"x"}), "bundles have no such"),
        (lambda members: members.pop(bundles.MODULE), "it has no module.json"),
        (lambda members: members.pop(bundles.MANIFEST), "it has no manifest.json"),
        (lambda members: members.pop(bundles.LOG), "it has no best.jsonl"),
        (lambda members: members.update({bundles.PARAMS: b"other"}), "params.npz is not the one"),
        (lambda members: members.update({bundles.PARAMS: b"x" * 99}), "params.npz is not the one"),
        (lambda members: members.update({bundles.MANIFEST: b"{"}), "manifest cannot be read"),
        (lambda members: members.update({bundles.MANIFEST: b"[" * 99_999}), "manifest cannot be read"),
        (lambda members: manifest(members, files={}), "does not list the members"),
        (lambda members: manifest(members, schema="tunesmith.bundle/9"), "schema is 'tunesmith.bundle/9'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    archive: Path, change: Callable[[dict[str, bytes]], None], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        unpacked(rewritten(archive, change))
    assert refused.value.field == "bundle"
    assert not (archive.parent / "evil").exists()


def test_a_broken_file_and_one_that_unfolds_are_refused(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = archive.with_name("cut.zip")
    cut.write_bytes(archive.read_bytes()[:-30])
    for path, words in ((cut, "no sound zip"), (archive.with_name("none.zip"), "there is no file")):
        with pytest.raises(InvalidInput, match=words):
            bundles.unpack(path, archive.parent)
    monkeypatch.setattr(bundles, "MAX_BYTES", 20)
    with pytest.raises(InvalidInput, match=r"it unpacks to .* bytes; up to 20,"):
        unpacked(archive)
