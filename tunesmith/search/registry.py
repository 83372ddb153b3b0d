"""Searchers by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tunesmith.errors import UnknownSearcher
from tunesmith.registry import Registry
from tunesmith.search.base import Searcher
from tunesmith.search.members import MEMBERS
from tunesmith.search.portfolio import PortfolioSearcher
from tunesmith.space.space import Space

SEARCHERS: Registry[Callable[..., Searcher]] = Registry(
    "search", UnknownSearcher, {**MEMBERS, "portfolio": PortfolioSearcher}
)


def make_searcher(name: str, space: Space, seed: int, options: Any = None) -> Searcher:
    """A fresh searcher, with settings of its own type or the default ones.

    Raises:
        UnknownSearcher: naming those that there are.
    """
    given = {} if options is None else {"options": options}
    return SEARCHERS[name](space, seed=seed, **given)


def default_options(name: str) -> Any:
    """A searcher's settings where none are given: a frozen dataclass.

    Raises:
        UnknownSearcher: naming those that there are.
    """
    return inspect.signature(SEARCHERS[name]).parameters["options"].default
