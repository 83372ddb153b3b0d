"""Finds every ``Settings`` class of the product and the environment variables that they read."""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path

from pydantic_settings import BaseSettings

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("services", "workers", "tunesmith", "db", "costmodels")


@functools.cache
def classes(part: str) -> tuple[type[BaseSettings], ...]:
    """Settings classes below the folder ``part``."""
    found = []
    for path in sorted((ROOT / part).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and _reads_environment(node)]
        if names:
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            found += [getattr(module, name) for name in names]
    return tuple(found)


def _reads_environment(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id.endswith("Settings") for base in node.bases)


def variables(part: str) -> set[str]:
    """Environment variables that the settings of ``part`` read."""
    return {
        f"{cls.model_config.get('env_prefix', '')}{name}".upper() for cls in classes(part) for name in cls.model_fields
    }
