"""Which changes of the OpenAPI document break a client of the one before.

Bounds of numbers, lengths and patterns are not compared; names, types, values and what is required are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
DECISIONS = Path(__file__).resolve().parents[1] / "docs" / "decisions"
EVERY_OTHER = "*"
"""Name of the members of an object whose names are free."""


def unnamed(old: Json, new: Json, decisions: Path = DECISIONS) -> list[str]:
    """Breaking changes that no decision record names, each in backticks as :func:`breaking` words it."""
    told = "\n".join(path.read_text("utf-8") for path in sorted(decisions.glob("*.md")))
    return [change for change in breaking(old, new) if f"`{change}`" not in told]


def breaking(old: Json, new: Json) -> list[str]:
    """Every change that may break a client of the old document."""
    asked, answered = _Comparison(old, new, sent=True), _Comparison(old, new, sent=False)
    found = []
    for path, item in old["paths"].items():
        for method, operation in item.items():
            name, now = f"{method.upper()} {path}", new["paths"].get(path, {}).get(method)
            if now is None:
                found.append(f"{name}: removed")
                continue
            if operation.get("operationId") != now.get("operationId"):
                found.append(f"{name}: called {now.get('operationId')}, was {operation.get('operationId')}")
            found += asked.parameters(operation, now, name)
            found += asked.body(operation, now, name)
            found += answered.answers(operation, now, name)
    return found


@dataclass(frozen=True)
class _Shape:
    """What a schema says, references followed and alternatives merged.

    Attributes:
        types: JSON types; empty for any.
        values: those of an enumeration, as JSON; None for any.
        members: schemas of an object's members by name.
        required: names of members.
        items: schema of an array's items.
    """

    types: frozenset[str]
    values: frozenset[str] | None
    members: Json
    required: frozenset[str]
    items: Json | None


def _shape(schema: Json, document: Json) -> _Shape:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    parts = schema.get("anyOf") or schema.get("oneOf") or []
    if parts and not {"type", "properties"} & schema.keys():
        return _either([_shape(part, document) for part in parts])
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    members = dict(schema.get("properties", {}))
    if isinstance(schema.get("additionalProperties"), dict):
        members[EVERY_OTHER] = schema["additionalProperties"]
    own = _Shape(
        _types(schema, values),
        None if values is None else frozenset(map(json.dumps, values)),
        members,
        frozenset(schema.get("required", ())),
        schema.get("items"),
    )
    for part in schema.get("allOf", ()):
        other = _shape(part, document)
        own = _Shape(
            own.types or other.types,
            other.values if own.values is None else own.values,
            {**other.members, **own.members},
            own.required | other.required,
            own.items or other.items,
        )
    return own


def _types(schema: Json, values: list[Any] | None) -> frozenset[str]:
    given = schema.get("type", [])
    types = {given} if isinstance(given, str) else set(given)
    if not types and values is not None:
        kinds = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
        types = {kinds[type(value)] for value in values}
    return frozenset(types | {"integer"} if "number" in types else types)


def _either(shapes: list[_Shape]) -> _Shape:
    """A schema that takes what any of several does; null apart, they are enumerations only if all are."""
    some = [shape for shape in shapes if shape.types != {"null"}]
    objects = [shape for shape in some if shape.members]
    every = [shape.values for shape in some]
    members: Json = {}
    for shape in objects:
        for name, schema in shape.members.items():
            members[name] = {"anyOf": [members[name], schema]} if name in members else schema
    items = [shape.items for shape in some if shape.items is not None]
    return _Shape(
        frozenset().union(*(shape.types for shape in shapes)) if all(shape.types for shape in shapes) else frozenset(),
        frozenset().union(*(values or () for values in every)) if every and None not in every else None,
        members,
        frozenset.intersection(*(shape.required for shape in objects)) if objects else frozenset(),
        {"anyOf": items} if items else None,
    )


@dataclass(frozen=True)
class _Comparison:
    """Two documents.

    Attributes:
        sent: compares what a client sends, else what it gets.
        seen: schemas that were compared, as JSON, each with what stands in its place now.
    """

    old: Json
    new: Json
    sent: bool
    seen: set[tuple[str, str]] = field(default_factory=set)

    def parameters(self, was: Json, now: Json, name: str) -> Iterator[str]:
        """What became of an operation's parameters."""
        before, after = (
            {(each["in"], each["name"]): each for each in operation.get("parameters", ())} for operation in (was, now)
        )
        for place, old in before.items():
            about = f"{name}: {' '.join(place)}"
            if place not in after:
                yield f"{about}: removed"
                continue
            yield from self._schemas(old["schema"], after[place]["schema"], about)
        for place, new in after.items():
            if new.get("required") and not before.get(place, {}).get("required"):
                yield f"{name}: {' '.join(place)}: required now"

    def body(self, was: Json, now: Json, name: str) -> Iterator[str]:
        """What became of a request's body."""
        before, after = was.get("requestBody", {}), now.get("requestBody", {})
        if after.get("required") and not before.get("required"):
            yield f"{name}: body: required now"
        yield from self._contents(before, after, f"{name}: body")

    def answers(self, was: Json, now: Json, name: str) -> Iterator[str]:
        """What became of the answers without a problem."""
        for status, old in was["responses"].items():
            if not status.startswith("2"):
                continue
            new, about = now["responses"].get(status), f"{name}: {status}"
            if new is None:
                yield f"{about}: removed"
                continue
            for header in sorted(old.get("headers", {}).keys() - new.get("headers", {}).keys()):
                yield f"{about}: header {header}: removed"
            yield from self._contents(old, new, about)

    def _contents(self, was: Json, now: Json, about: str) -> Iterator[str]:
        for media, old in was.get("content", {}).items():
            new = now.get("content", {}).get(media)
            if new is None:
                yield f"{about}: {media}: removed"
            else:
                yield from self._schemas(old.get("schema", {}), new.get("schema", {}), about)

    def _schemas(self, was: Json, now: Json, about: str) -> Iterator[str]:
        pair = (json.dumps(was, sort_keys=True), json.dumps(now, sort_keys=True))
        if "$ref" in pair[0]:  # said once of schemas that many operations share; and some contain themselves
            if pair in self.seen:
                return
            self.seen.add(pair)
        if "$ref" in was:
            about = f"{'request' if self.sent else 'answer'} {was['$ref'].rpartition('/')[2]}"
        old, new = _shape(was, self.old), _shape(now, self.new)
        if self._narrower(old.types, new.types):
            yield f"{about}: type is {_named(new.types)}, was {_named(old.types)}"
        if new.values is not None and (self.sent or old.values is not None):
            lost = sorted(old.values - new.values) if old.values is not None else ["others"]
            if lost:
                yield f"{about}: no longer {', '.join(lost)}"
        for name, schema in old.members.items():
            member = f"{about}: {name}"
            if name not in new.members:
                yield f"{member}: removed"
                continue
            yield from self._schemas(schema, new.members[name], member)
            if not self.sent and name in old.required - new.required:
                yield f"{member}: may be missing now"
        if self.sent:
            for name in sorted(new.required - old.required):
                yield f"{about}: {name}: required now"
        if old.items is not None and new.items is not None:
            yield from self._schemas(old.items, new.items, f"{about}[]")

    def _narrower(self, old: frozenset[str], new: frozenset[str]) -> bool:
        """Whether a request takes less than before, or an answer may be more."""
        wide, narrow = (new, old) if self.sent else (old, new)
        return bool(wide) and not (narrow and narrow <= wide)


def _named(types: frozenset[str]) -> str:
    return " or ".join(sorted(types - ({"integer"} if "number" in types else set()))) or "anything"
