"""What breaks clients of the REST API is refused, unless a decision record names it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools import reference, reference_rest
from tools.openapi_changes import breaking, unnamed

Json = dict[str, Any]
THING: Json = {
    "type": "object",
    "required": ["id", "state"],
    "properties": {
        "id": {"type": "integer"},
        "state": {"type": "string", "enum": ["new", "old"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
    },
}
WISH: Json = {
    "type": "object",
    "properties": {"size": {"type": "number"}, "kind": {"type": "string", "enum": ["a", "b"]}},
}


def document() -> Json:
    schema = {"$ref": "#/components/schemas/Thing"}
    answer = {"content": {"application/json": {"schema": schema}}, "headers": {"Location": {}}}
    return copy.deepcopy(
        {
            "paths": {
                "/things": {
                    "get": {
                        "parameters": [{"in": "query", "name": "q", "schema": {"type": "string"}}],
                        "responses": {"200": answer},
                    },
                    "post": {
                        "requestBody": {
                            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Wish"}}}
                        },
                        "responses": {"201": answer},
                    },
                }
            },
            "components": {"schemas": {"Thing": THING, "Wish": WISH}},
        }
    )


def get(new: Json) -> Json:
    operation: Json = new["paths"]["/things"]["get"]
    return operation


def members(new: Json, name: str) -> Json:
    found: Json = new["components"]["schemas"][name]["properties"]
    return found


BREAKING: dict[str, Callable[[Json], object]] = {
    "GET /things: called all_things, was None": lambda new: get(new).update(operationId="all_things"),
    "GET /things: removed": lambda new: new["paths"]["/things"].pop("get"),
    "GET /things: query q: removed": lambda new: get(new)["parameters"].clear(),
    "GET /things: query q: required now": lambda new: get(new)["parameters"][0].update(required=True),
    "GET /things: query n: required now": lambda new: get(new)["parameters"].append(
        {"in": "query", "name": "n", "required": True, "schema": {}}
    ),
    "GET /things: query q: type is integer, was string": lambda new: get(new)["parameters"][0]["schema"].update(
        type="integer"
    ),
    "GET /things: 200: removed": lambda new: get(new)["responses"].pop("200"),
    "GET /things: 200: application/json: removed": lambda new: get(new)["responses"]["200"]["content"].clear(),
    "GET /things: 200: header Location: removed": lambda new: get(new)["responses"]["200"]["headers"].clear(),
    "answer Thing: id: removed": lambda new: members(new, "Thing").pop("id"),
    "answer Thing: id: may be missing now": lambda new: new["components"]["schemas"]["Thing"].update(
        required=["state"]
    ),
    "answer Thing: id: type is integer or null, was integer": lambda new: members(new, "Thing")["id"].update(
        type=["integer", "null"]
    ),
    'answer Thing: state: no longer "old"': lambda new: members(new, "Thing")["state"].update(enum=["new"]),
    "POST /things: body: required now": lambda new: new["paths"]["/things"]["post"]["requestBody"].update(
        required=True
    ),
    "request Wish: size: required now": lambda new: new["components"]["schemas"]["Wish"].update(required=["size"]),
    "request Wish: size: type is integer, was number": lambda new: members(new, "Wish")["size"].update(type="integer"),
    'request Wish: kind: no longer "b"': lambda new: members(new, "Wish")["kind"].update(enum=["a"]),
    "request Wish: kind: removed": lambda new: members(new, "Wish").pop("kind"),
}


@pytest.mark.parametrize("named", BREAKING)
def test_a_change_that_breaks_clients_is_found(named: str) -> None:
    new = document()
    BREAKING[named](new)
    assert named in breaking(document(), new)


def test_what_only_adds_breaks_nobody() -> None:
    new = document()
    new["paths"]["/more"] = {"get": {"responses": {}}}
    get(new)["parameters"].append({"in": "query", "name": "n", "schema": {"type": "integer"}})
    members(new, "Thing")["more"] = {"type": "string"}
    members(new, "Thing")["note"] = {"type": "string"}
    members(new, "Wish")["kind"]["enum"].append("c")
    members(new, "Wish")["size"] = {"type": ["number", "string"]}
    assert breaking(document(), new) == []


def test_the_document_of_now_breaks_nothing_unsaid() -> None:
    committed = json.loads((reference.FOLDER / "openapi.json").read_text("utf-8"))
    assert unnamed(committed, reference_rest.openapi()) == []


def test_a_breaking_document_is_not_written_unless_a_decision_names_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new = document()
    members(new, "Thing").pop("note")
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    monkeypatch.setattr(reference, "PAGES", {"openapi.json": lambda: json.dumps(new)})
    monkeypatch.setattr(reference, "DECISIONS", tmp_path)
    monkeypatch.setattr("sys.argv", ["reference"])
    page = tmp_path / "openapi.json"
    page.write_text(json.dumps(document()))
    assert reference.main() == 1
    change = "answer Thing: note: removed"
    assert change in capsys.readouterr().out
    assert json.loads(page.read_text()) == document()
    (tmp_path / "0001-notes-go.md").write_text(f"It goes: `{change}`.")
    assert reference.main() == 0
    assert json.loads(page.read_text()) == new
