"""Messages between versions: a changed schema raises ``VERSION``; what cannot be read is told from garbage."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tunesmith import messages
from tunesmith.message_reading import ROWS, UnreadableError, read
from tunesmith.messages import IngestModel, MeasureBatch, Message, Part

SCHEMAS = {
    2: "21e573ec93db7bfe",
    3: "62df7fd602c9e00b",
    4: "ff37f553b124d82d",
    5: "e8d600e9c137cd08",
    6: "cc34af11fc22b332",
    7: "7b8d428040bcbbda",
    8: "caa9d2f7edb66f91",
    9: "03c7788033942437",
}
"""Hash of all schemas by version. A change of a message needs a new version and a new line here; lines of versions that
were released never change."""
PROSE = ("description", "title")


def models() -> dict[str, type[BaseModel]]:
    return {
        name: kind
        for name, kind in vars(messages).items()
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in (BaseModel, Message, Part)
    }


def kinds() -> list[type[Message]]:
    return [kind for kind in models().values() if issubclass(kind, Message)]


def facts(schema: Any) -> Any:
    """A schema without what is for people only."""
    if isinstance(schema, dict):
        return {key: facts(value) for key, value in schema.items() if key not in PROSE or isinstance(value, dict)}
    return [facts(item) for item in schema] if isinstance(schema, list) else schema


def test_a_changed_message_has_a_new_version() -> None:
    schemas = {name: facts(kind.model_json_schema()) for name, kind in sorted(models().items())}
    found = hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:16]
    assert max(SCHEMAS) == messages.VERSION
    assert found == SCHEMAS[messages.VERSION], "a message changed: raise messages.VERSION and record its hash here"


def test_every_message_about_work_says_which() -> None:
    for kind in kinds():
        about_work = "attempt" in kind.model_fields and "worker" not in kind.model_fields
        assert about_work == (kind in ROWS), kind.task
        assert not about_work or ROWS[kind] in kind.model_fields


def test_a_message_of_this_version_is_read() -> None:
    sent = IngestModel(model_id="m", attempt=1)
    assert read(IngestModel, sent.model_dump(mode="json")) == sent


@pytest.mark.parametrize(
    "body",
    [
        {"version": 99, "model_id": "m", "attempt": 2},
        {"version": 1, "model_id": "m", "attempt": 2, "old": True},
        {"version": messages.VERSION, "model_id": "m", "attempt": 2, "new": True},
    ],
)
def test_a_message_of_another_version_names_its_work(body: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(IngestModel, body)
    found = pickle.loads(pickle.dumps(caught.value)).found  # as it travels between a worker's processes
    assert (found.message, found.row, found.attempt, found.speaks) == (IngestModel.task, "m", 2, messages.VERSION)
    assert found.reason.startswith("tunesmith.ingest of row m cannot be read: ")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "x",
        {},
        {"version": 99},
        {"version": "new", "model_id": "m", "attempt": 1},
        {"version": 99, "model_id": ["m"], "attempt": 1},
        {"version": 99, "model_id": "m", "attempt": "first"},
    ],
)
def test_garbage_is_no_other_version(body: object) -> None:
    with pytest.raises(ValidationError):
        read(IngestModel, body)
    with pytest.raises(ValidationError):
        read(MeasureBatch, body)
