"""The OpenAPI document, and a table of its routes, for :mod:`tools.reference`."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


@functools.cache
def openapi() -> dict[str, Any]:
    """The OpenAPI document of a coordinator that asks for keys."""
    from pydantic import SecretStr

    from services.coordinator.app import create_app
    from services.coordinator.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), database_url="", dashboard=False, admin_key=SecretStr("none"))
        app = create_app(settings, run_loop=False)
        document: dict[str, Any] = app.openapi()
        app.state.context.publisher.close()
        app.state.context.dispose()
    return document


def openapi_json() -> str:
    """``openapi.json``: the document itself."""
    return json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n"


def routes(table: Callable[[list[str], list[list[str]]], str]) -> list[str]:
    """Every route, by tag.

    Args:
        table: makes a Markdown table of a head and rows.
    """
    tags: dict[str, list[list[str]]] = {}
    for path, operations in openapi()["paths"].items():
        for method, operation in operations.items():
            answers = [status for status, answer in operation["responses"].items() if "$ref" not in answer]
            query = [f"`{p['name']}`" for p in operation.get("parameters", []) if p["in"] == "query"]
            summary = (operation.get("description") or operation.get("summary") or "").strip().splitlines()
            row = [f"`{method.upper()} {path}`", ", ".join(query), ", ".join(answers), summary[0] if summary else ""]
            tags.setdefault((operation.get("tags") or ["other"])[0], []).append(row)
    return [
        part
        for tag, lines in tags.items()
        for part in (f"## {tag.capitalize()}\n", table(["route", "query", "answers", ""], lines))
    ]
