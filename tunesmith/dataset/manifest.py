"""The manifest of a dataset file: what it holds, by whom it may be used, and the hash that its rows must have."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tunesmith import __version__
from tunesmith.dataset.rows import About, Definition, Kind, RecordRow, canonical
from tunesmith.errors import InvalidInput
from tunesmith.preparation import PIPELINE

SCHEMA = "tunesmith.dataset/1"
SKETCH_FORMAT = 1
KEY = b"tunesmith.dataset"
"""Where the manifest is in the file's metadata."""
UNSTATED = "not stated"
Text = Annotated[str, Field(max_length=200)]
Counts = Annotated[dict[Text, int], Field(max_length=10_000)]


class Summary(BaseModel):
    """Counts of records, each by one of their properties."""

    model_config = ConfigDict(frozen=True)

    records: int = 0
    failed: int = 0
    simulated: int = 0
    operators: Counts = {}
    targets: Counts = Field({}, description="By device class.")
    processors: Counts = {}
    builds: Counts = Field({}, description="By TVM's version.")
    precisions: Counts = {}
    caches: Counts = {}
    failures: Counts = {}
    first: dt.datetime | None = None
    last: dt.datetime | None = None


class Manifest(BaseModel):
    """What a dataset file says of itself; ``hash`` is that of the manifest's other members."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_: Text = Field(SCHEMA, alias="schema")
    created: dt.datetime
    tunesmith: Text = __version__
    preparation: Text = PIPELINE
    sketch_format: int = SKETCH_FORMAT
    licence: Text = UNSTATED
    summary: Summary
    definitions: Counts
    rows: Text
    hash: Text = ""

    def sealed(self) -> Manifest:
        """With its hash."""
        return self.model_copy(update={"hash": self._digest()})

    def _digest(self) -> str:
        members = self.model_dump(mode="json", by_alias=True, exclude={"hash"})
        return hashlib.sha256(canonical(members).encode()).hexdigest()

    def text(self) -> str:
        """JSON."""
        return self.model_dump_json(by_alias=True)

    @classmethod
    def read(cls, text: str | bytes | None) -> Manifest:
        """Inverse of :meth:`text`. Raises InvalidInput, in one sentence that says what is wrong."""
        if text is None:
            raise _refused("it has no manifest: tunesmith records export writes one")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise _refused("its manifest is not JSON") from None
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SCHEMA:
            raise _refused(f"its schema is {str(schema)[:60]!r}; this version reads {SCHEMA!r}")
        try:
            manifest = cls.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])[:100]
            raise _refused(f"its manifest is wrong at {place}: {first['msg'][:200]}") from None
        if manifest._digest() != manifest.hash:
            raise _refused("its manifest was changed after it was written: the hash is another")
        return manifest

    def check(self, rows: str) -> None:
        """Raises InvalidInput where the rows have another hash."""
        if rows != self.rows:
            raise _refused("its rows were changed after it was written: their hash is not the manifest's")


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"the file is no dataset that can be read: {why}", field="file")


class Tally:
    """Counts rows as they pass, and hashes them in their order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._counts: dict[str, Counter[str]] = {
            name: Counter()
            for name in ("operators", "targets", "processors", "builds", "precisions", "caches", "failures")
        }
        self._definitions: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._times: tuple[dt.datetime, dt.datetime] | None = None

    def define(self, definition: Definition) -> None:
        """Count a definition."""
        self._definitions[definition.kind.value] += 1
        self._hash.update(definition.digest.encode())

    def record(self, row: RecordRow, content: str, device_class: str, about: About) -> None:
        """Count a record; ``content`` is its hash."""
        self._hash.update(content.encode())
        self._numbers["records"] += 1
        self._numbers["failed"] += row.failure is not None
        self._numbers["simulated"] += about.simulated
        values = (
            ("operators", about.family),
            ("targets", device_class),
            ("processors", about.processor),
            ("builds", about.build),
            ("precisions", row.precision),
            ("caches", about.cache),
            ("failures", row.failure),
        )
        for name, value in values:
            if value:
                self._counts[name][value] += 1
        first, last = self._times or (row.measured_at, row.measured_at)
        self._times = min(first, row.measured_at), max(last, row.measured_at)

    @property
    def rows(self) -> str:
        """Hash of all rows so far."""
        return self._hash.hexdigest()

    def manifest(self, created: dt.datetime, licence: str) -> Manifest:
        """The manifest of a file of these rows."""
        summary: dict[str, Any] = {name: dict(sorted(counts.items())) for name, counts in self._counts.items()}
        first, last = self._times or (None, None)
        return Manifest(
            created=created,
            licence=licence,
            summary=Summary(**summary, **self._numbers, first=first, last=last),
            definitions={kind.value: self._definitions[kind.value] for kind in Kind if kind is not Kind.RECORD},
            rows=self.rows,
        ).sealed()
