"""Searchers by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tunesmith.errors import UnknownSearcher
from tunesmith.search.annealing import AnnealingSearcher
from tunesmith.search.base import Searcher
from tunesmith.search.bayesian import BayesianSearcher
from tunesmith.search.beam import BeamSearcher
from tunesmith.search.droplet import DropletSearcher
from tunesmith.search.evolution_strategy import EvolutionStrategySearcher
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.lfbo import LfboSearcher
from tunesmith.search.mcts import TreeSearcher
from tunesmith.search.portfolio import PortfolioSearcher
from tunesmith.search.ppo import AgentSearcher
from tunesmith.search.q_learning import QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.space import Space

SEARCHERS: Mapping[str, Callable[..., Searcher]] = {
    "random": RandomSearcher,
    "genetic": GeneticSearcher,
    "annealing": AnnealingSearcher,
    "q-learning": QLearningSearcher,
    "droplet": DropletSearcher,
    "ppo": AgentSearcher,
    "mcts": TreeSearcher,
    "beam": BeamSearcher,
    "bayesian": BayesianSearcher,
    "lfbo": LfboSearcher,
    "evolution-strategy": EvolutionStrategySearcher,
    "portfolio": PortfolioSearcher,
}


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
