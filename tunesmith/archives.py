"""Zip archives from users, judged by their table of contents before anything is unpacked."""

from __future__ import annotations

import zipfile

from tunesmith.errors import ModelRejected
from tunesmith.model_limits import MAX_ENTRIES, MAX_UNFOLDED_TOTAL

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1


def check_contents(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse archives that unfold, or whose entries are not what they seem.

    Args:
        size: size of the archive, in bytes.

    Raises:
        ModelRejected: naming the entry, or the count and its limit.
    """
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise ModelRejected(
            f"the archive has {len(entries)} entries; up to {MAX_ENTRIES} are accepted", field="file", limit=MAX_ENTRIES
        )
    names: set[str] = set()
    for entry in entries:
        problem = _problem(entry)
        if problem is None and entry.filename in names:
            problem = "is there twice"
        if problem is not None:
            raise ModelRejected(
                f"the archive's entry {entry.filename[:200]!r} {problem}; save the model again with torch.export.save",
                field="file",
                value=entry.filename[:200],
            )
        names.add(entry.filename)
    unfolded = sum(entry.file_size for entry in entries)
    if unfolded - size > MAX_UNFOLDED_TOTAL:
        raise ModelRejected(
            f"the archive has {size} bytes and unpacks to {unfolded}; up to {MAX_UNFOLDED_TOTAL} more "
            "than it has are accepted",
            field="file",
            limit=MAX_UNFOLDED_TOTAL,
        )


def _problem(entry: zipfile.ZipInfo) -> str | None:
    name = entry.filename
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted"
    if entry.compress_type not in METHODS:
        return "is compressed by a method other than deflate"
    if not name or name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        return "is no path inside of an archive"
    return None
