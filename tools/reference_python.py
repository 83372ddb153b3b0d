"""The page of the names that ``import tunesmith`` has, from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

Table = Callable[[list[str], list[list[str]]], str]
HEADS = ("Args", "Attributes", "Returns", "Raises")
HEAD = re.compile(rf"^({'|'.join(HEADS)}):$", re.MULTILINE)
ITEM = re.compile(r"^    (\S[^:\n]*): ((?:.*(?:\n        .*)*))", re.MULTILINE)


def sections(documented: Any) -> tuple[str, dict[str, str]]:
    """The text of a docstring, and its sections by name, both with names in Markdown."""
    text, *rest = HEAD.split(inspect.getdoc(documented) or "")
    return _plain(text), dict(zip(rest[::2], rest[1::2], strict=True))


def described(name: str, documented: Any, table: Table, level: int = 2) -> Iterator[str]:
    """The part of the page for a function, a class or a member of one."""
    shown = inspect.signature(documented) if callable(documented) else None
    yield f"{'#' * level} `{name}`\n"
    if shown is not None:
        yield f"```\n{name}{_layout(shown)}\n```\n"
    text, parts = sections(documented)
    yield f"{text}\n"
    for head in HEADS:
        if head == "Returns" and head in parts:
            yield f"Returns: {_plain(parts[head])}\n"
        elif head in parts:
            rows = [[f"`{key}`", _plain(meaning)] for key, meaning in ITEM.findall(parts[head])]
            yield table([{"Args": "argument", "Attributes": "attribute", "Raises": "error"}[head], ""], rows)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class that are its own, and how it is called."""
    for name, member in vars(cls).items():
        if name == "__call__" or (not name.startswith("_") and (callable(member) or isinstance(member, property))):
            yield name, member


def page(names: dict[str, Any], table: Table) -> list[str]:
    """The parts of the page for public names, in their order."""
    parts: list[str] = []
    for name, documented in names.items():
        if not inspect.isclass(documented):
            parts += described(name, documented, table)
            continue
        text, found = sections(documented)
        parts += [f"## `{name}`\n", f"{text}\n"]
        if "Attributes" in found:
            rows = [[f"`{key}`", _plain(meaning)] for key, meaning in ITEM.findall(found["Attributes"])]
            parts.append(table(["attribute", ""], rows))
        for member, value in members(documented):
            own = "tuned" if member == "__call__" else f"{name.rpartition('.')[2]}.{member}"
            parts += described(own, value, table, level=3)
    return parts


def _plain(text: str) -> str:
    """One line, with Sphinx's marks as Markdown's."""
    return " ".join(re.sub(r":\w+:`([^`]+)`", r"`\1`", text).replace("``", "`").split())


def _layout(signature: inspect.Signature) -> str:
    """A signature of annotations as they are written, one parameter a line where it is long."""
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    shown = [_parameter(each) for each in parameters]
    named = [each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters]
    if True in named:
        shown.insert(named.index(True), "*")
    if sum(map(len, shown)) < 80:
        return f"({', '.join(shown)}) -> {signature.return_annotation}"
    return "(\n" + "".join(f"    {each},\n" for each in shown) + f") -> {signature.return_annotation}"


def _parameter(each: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(each.kind, "")
    default = "" if each.default is inspect.Parameter.empty else f" = {each.default!r}"
    return f"{stars}{each.name}: {each.annotation}{default}"
