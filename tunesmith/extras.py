"""Which extra a choice needs, and whether it is installed here. Nothing is imported for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping

from tunesmith.errors import MissingDependency

MARKERS: Mapping[str, tuple[str, ...]] = {
    "server": ("alembic", "celery", "fastapi", "sqlalchemy"),
    "worker": ("celery", "onnx", "tvm"),
    "bench": ("matplotlib",),
    "torch": ("torch",),
}
"""Modules by which an extra is known to be installed."""
CHOICES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "bayesian": ("search", ("sklearn",)),
    "lfbo": ("search", ("sklearn",)),
    "evolution-strategy": ("search", ("cmaes",)),
    "ppo": ("search", ("sklearn", "torch")),
    "xgboost": ("worker", ("xgboost",)),
    "lightgbm": ("worker", ("lightgbm",)),
    "ranker": ("worker", ("lightgbm",)),
}
"""Searchers and cost models that the light install lacks: their extra, and its modules that they need."""


def here(module: str) -> bool:
    """True when a module could be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def lacking(extras: Iterable[str]) -> list[str]:
    """Extras that are not, or not wholly, installed here."""
    return [extra for extra in extras if not all(map(here, MARKERS[extra]))]


def unavailable() -> list[str]:
    """Searchers and cost models that cannot run here."""
    return [name for name, (_, modules) in CHOICES.items() if not all(map(here, modules))]


def choice_unavailable(field: str, name: str) -> MissingDependency:
    """The refusal of a searcher or cost model that cannot run where the job would."""
    extra, modules = CHOICES[name]
    return MissingDependency(
        f"the {field.replace('_', ' ')} {name!r} needs {' and '.join(modules)}, which is not installed there: install "
        f"the extra '{extra}' with the workers, for example with pip install -e '.[{extra}]'",
        field=field,
        value=name,
        extra=extra,
    )
