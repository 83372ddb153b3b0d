"""Searchers by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tunesmith.errors import UnknownSearcher
from tunesmith.search.base import Searcher
from tunesmith.search.members import MEMBERS
from tunesmith.search.portfolio import PortfolioSearcher
from tunesmith.space.space import Space

SEARCHERS: Mapping[str, Callable[..., Searcher]] = {**MEMBERS, "portfolio": PortfolioSearcher}


def check_searcher(name: str) -> str:
    """``name``, when there is such a searcher.

    Raises:
        UnknownSearcher: naming those that there are.
    """
    if name not in SEARCHERS:
        raise UnknownSearcher(
            f"there is no searcher {name!r}; accepted are {', '.join(SEARCHERS)}", field="search", value=name
        )
    return name


def make_searcher(name: str, space: Space, seed: int, options: Any = None) -> Searcher:
    """A fresh searcher, with settings of its own type or the default ones.

    Raises:
        UnknownSearcher: see :func:`check_searcher`.
    """
    given = {} if options is None else {"options": options}
    return SEARCHERS[check_searcher(name)](space, seed=seed, **given)


def default_options(name: str) -> Any:
    """A searcher's settings where none are given: a frozen dataclass.

    Raises:
        UnknownSearcher: see :func:`check_searcher`.
    """
    return inspect.signature(SEARCHERS[check_searcher(name)]).parameters["options"].default
