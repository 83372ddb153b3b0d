"""Searchers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tunesmith.errors import UnknownSearcher
from tunesmith.search.annealing import AnnealingSearcher
from tunesmith.search.base import Searcher
from tunesmith.search.droplet import DropletSearcher
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.q_learning import QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.space import Space

SEARCHERS: Mapping[str, Callable[..., Searcher]] = {
    "random": RandomSearcher, "genetic": GeneticSearcher, "annealing": AnnealingSearcher,
    "q-learning": QLearningSearcher, "droplet": DropletSearcher,
}  # fmt: skip


def check_searcher(name: str) -> str:
    """``name``, when there is such a searcher.

    Raises:
        UnknownSearcher: naming those that there are.
    """
    if name not in SEARCHERS:
        raise UnknownSearcher(f"there is no searcher {name!r}; accepted are {', '.join(SEARCHERS)}",
                              field="search", value=name)
    return name


def make_searcher(name: str, space: Space, seed: int) -> Searcher:
    """A fresh searcher.

    Raises:
        UnknownSearcher: see :func:`check_searcher`.
    """
    return SEARCHERS[check_searcher(name)](space, seed=seed)
