"""Archives of everything that one result needs. Nothing in one is trusted when it is read."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunesmith.archives import ENCRYPTED, METHODS
from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import PREPARATION_FILE, RECORD_FILE, WORKLOAD_FILE

SCHEMA = "tunesmith.bundle/1"
MANIFEST, MODULE, PARAMS, LOG = "manifest.json", "module.json", "params.npz", "best.jsonl"
INPUTS, OUTPUTS = ("inputs0.npz", "inputs1.npz"), ("outputs0.npz", "outputs1.npz")
DATABASE = (WORKLOAD_FILE, RECORD_FILE, PREPARATION_FILE)
NEEDED = (MODULE, PARAMS, *INPUTS, *OUTPUTS)
MEMBERS = frozenset((MANIFEST, LOG, *DATABASE, *NEEDED))
"""Names without folders: whatever else an archive holds is refused, so that nothing can be written elsewhere."""
MAX_MANIFEST_BYTES = 4 << 20
MAX_BYTES = 8 << 30
"""Size of all members together, unpacked."""
CHUNK = 1 << 20


def write(path: Path, members: Mapping[str, Path], about: Mapping[str, Any]) -> dict[str, Any]:
    """Write an archive of files by member name, and a manifest with their sizes and hashes, which is returned."""
    files = {name: {"bytes": file.stat().st_size, "sha256": _digest(file)} for name, file in sorted(members.items())}
    manifest = {"schema": SCHEMA, **about, "files": files}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1) + "\n")
        for name in files:
            archive.write(members[name], name)
    return manifest


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Write the members of an archive into a folder, once all of them are what the manifest says; returns the manifest.

    Raises:
        InvalidInput: naming what is wrong with the archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive, path)
            manifest = _manifest(archive, path)
            for name, entry in entries.items():
                _extract(archive, entry, manifest["files"][name], folder / name, path)
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no file {path}", field="bundle", value=str(path)) from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _wrong(path, f"it is no sound zip archive ({error})") from error
    return manifest


def _entries(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """Members but for the manifest, by name, judged by the table of contents."""
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist()[: len(MEMBERS) + 1]:
        name = entry.filename
        if name not in MEMBERS:
            raise _wrong(path, f"it has a member {name[:100]!r}, and bundles have no such member")
        if name in found:
            raise _wrong(path, f"its member {name} is there twice")
        if entry.flag_bits & ENCRYPTED or entry.compress_type not in METHODS:
            raise _wrong(path, f"its member {name} is encrypted, or compressed in another way than deflate")
        found[name] = entry
    missing = [name for name in (MANIFEST, *NEEDED) if name not in found]
    if missing or (LOG not in found and not {WORKLOAD_FILE, RECORD_FILE} <= found.keys()):
        raise _wrong(path, f"it has no {missing[0] if missing else LOG}")
    size = sum(entry.file_size for entry in found.values())
    if size > MAX_BYTES or found[MANIFEST].file_size > MAX_MANIFEST_BYTES:
        limits = f"up to {MAX_BYTES}, {MAX_MANIFEST_BYTES} of them of the manifest, are accepted"
        raise _wrong(path, f"it unpacks to {size} bytes; {limits}")
    del found[MANIFEST]
    return found


def _manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    with archive.open(MANIFEST) as file:
        text = file.read(MAX_MANIFEST_BYTES + 1)
    try:
        manifest = json.loads(text)
        schema, files = manifest["schema"], manifest["files"]
        sound = all(isinstance(each["bytes"], int) and isinstance(each["sha256"], str) for each in files.values())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _wrong(path, "its manifest cannot be read") from error
    if schema != SCHEMA:
        raise _wrong(path, f"its schema is {str(schema)[:50]!r}, and this version reads {SCHEMA}")
    present = set(archive.namelist()) - {MANIFEST}
    if not sound or set(files) != present:
        raise _wrong(path, "its manifest does not list the members that it has")
    return dict(manifest)


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, said: Mapping[str, Any], out: Path, path: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with archive.open(entry) as member, out.open("wb") as file:
        while chunk := member.read(CHUNK):
            size += len(chunk)
            if size > said["bytes"]:
                break
            digest.update(chunk)
            file.write(chunk)
    if (size, digest.hexdigest()) != (said["bytes"], said["sha256"]):
        raise _wrong(path, f"its member {entry.filename} is not the one that its manifest describes")


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _wrong(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is no bundle that can be run again: {why}; make one with 'tunesmith bundle'",
        field="bundle",
        value=str(path),
    )
