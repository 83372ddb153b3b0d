"""The page of the names that ``import tunesmith`` has, from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from tunesmith.answers.base import Answer

Table = Callable[[list[str], list[list[str]]], str]
HEADS = ("Args", "Attributes", "Returns", "Raises")
COLUMN = {"Args": "argument", "Attributes": "attribute", "Raises": "error"}
CALLED = {"TunedModel": "tuned"}
"""What objects of a class are called where they are functions."""
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
            yield table([COLUMN[head], ""], rows)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public members of a class that are its own, and how it is called."""
    for name, member in sorted(_members(cls), key=lambda each: each[0] != "__call__"):
        if name == "__call__" or (not name.startswith("_") and (callable(member) or isinstance(member, property))):
            yield name, member


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """What a class has, and the private bases that make up its face, such as the parts of the client."""
    yield from vars(cls).items()
    for base in cls.__bases__:
        if base.__module__.startswith("tunesmith.client"):
            yield from _members(base)


def page(names: dict[str, Any], table: Table) -> list[str]:
    """The parts of the page for public names, in their order."""
    parts: list[str] = []
    for name, documented in names.items():
        if not inspect.isclass(documented):
            parts += described(name, documented, table)
            continue
        text, found = sections(documented)
        parts += [f"## `{name}`\n", f"{text}\n"]
        if "Args" in found:
            parts.insert(-1, f"```\n{name}{_layout(inspect.signature(vars(documented)['__init__']))}\n```\n")
        parts += tables(found, table)
        for member, value in members(documented):
            parts += described(own_name(name, member), value, table, level=3)
    return parts


def tables(found: dict[str, str], table: Table) -> Iterator[str]:
    """The sections of a class as tables."""
    for head in ("Args", "Attributes", "Raises"):
        if head in found:
            rows = [[f"`{key}`", _plain(meaning)] for key, meaning in ITEM.findall(found[head])]
            yield table([COLUMN[head], ""], rows)


def own_name(cls: str, member: str) -> str:
    """What a member is called by users; an object that is called, by what it is."""
    name = cls.rpartition(".")[2]
    return CALLED.get(name, name.lower()) if member == "__call__" else f"{name}.{member}"


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
    shown = getattr(each.default, "__name__", None) or repr(each.default)
    default = "" if each.default is inspect.Parameter.empty else f" = {shown}"
    return f"{stars}{each.name}: {each.annotation}{default}"


def python_page(mark: str, table: Table) -> str:
    """``python.md``: what ``import tunesmith`` has."""
    import tunesmith

    rooms = {"": ("tune", "TunedModel"), "torch.": tunesmith.torch.__all__, "tvm.": tunesmith.tvm.__all__}
    paths = [f"{room}{name}" for room, names in rooms.items() for name in names]
    names = {f"tunesmith.{path}": attrgetter(path)(tunesmith) for path in paths}
    return "\n".join(
        [
            "# Python\n",
            mark,
            "`import tunesmith` loads nothing else: each name below is imported when it is used. See "
            "[the guide](../how-to/tune-from-python.md), [`tunesmith.torch`](../how-to/torch-compile.md) and "
            "[`tunesmith.tvm`](../how-to/your-own-tvm-pipeline.md). `tunesmith.client` has "
            "[the client of REST](client.md).\n",
            *page(names, table),
        ]
    )


def client_page(mark: str, table: Table) -> str:
    """``client.md``: the client of the REST API."""
    from tunesmith import client

    names = ("Client", "JobChoices", "EmbeddedStack")
    iterated = [f"`{name}`" for name, value in members(client.AsyncClient) if _iterates(value)]
    iterated.remove("`stream_best`")
    text, found = sections(client.AsyncClient)
    return "\n".join(
        [
            "# Python client\n",
            mark,
            "`from tunesmith.client import Client` needs no extra. A method for each thing that [REST](rest.md) does; "
            "latencies and durations are in seconds. Errors are those of [the list](errors.md); each method may also "
            "raise `ServerUnreachable` and `Unauthorized`. See [the guide](../how-to/use-the-client.md).\n",
            "## `tunesmith.client.AsyncClient`\n",
            f"```\ntunesmith.client.AsyncClient{_layout(inspect.signature(client.AsyncClient.__init__))}\n```\n",
            f"{text.strip()} It has the methods of `Client` below as coroutines; `close` is `aclose`. "
            f"To be iterated with `async for`, and not awaited: {', '.join(iterated)}. `stream_best` is entered with "
            "`async with`.\n",
            *tables(found, table),
            *page({f"tunesmith.client.{name}": getattr(client, name) for name in names}, table),
            "## Answers\n",
            "What methods return: frozen objects with fields as in REST. Latencies and durations are in seconds, times "
            "in UTC. Notebooks show a `Job` as a table.\n",
            *answers({name: getattr(client, name) for name in client.__all__}, table),
        ]
    )


def answers(names: dict[str, Any], table: Table) -> Iterator[str]:
    """The part of the page for each answer: its text, and its fields with their types."""
    for name, documented in names.items():
        if not (inspect.isclass(documented) and issubclass(documented, Answer)):
            continue
        yield f"### `{name}`\n"
        yield f"{_plain(inspect.getdoc(documented) or '')}\n"
        types = {
            key: kind for base in reversed(documented.__mro__) for key, kind in inspect.get_annotations(base).items()
        }
        rows = [
            [f"`{key}`", f"`{types[key]}`", field.description or ""] for key, field in documented.model_fields.items()
        ]
        yield table(["field", "type", ""], rows)


def _iterates(member: Any) -> bool:
    """Whether a method of the asynchronous client answers with an iterator."""
    return inspect.isfunction(member) and str(member.__annotations__.get("return", "")).startswith("AsyncIterator[")
