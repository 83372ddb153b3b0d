"""Searchers that need no other one, by name: what a portfolio is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tunesmith.search.annealing import AnnealingSearcher
from tunesmith.search.base import Searcher
from tunesmith.search.bayesian import BayesianSearcher
from tunesmith.search.beam import BeamSearcher
from tunesmith.search.droplet import DropletSearcher
from tunesmith.search.evolution_strategy import EvolutionStrategySearcher
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.guided import GuidedSearcher
from tunesmith.search.lfbo import LfboSearcher
from tunesmith.search.mcts import TreeSearcher
from tunesmith.search.ppo import AgentSearcher
from tunesmith.search.q_learning import QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.representative import RepresentativeSearcher
from tunesmith.search.uniform import UniformSearcher

MEMBERS: Mapping[str, Callable[..., Searcher]] = {
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
    "guided": GuidedSearcher,
    "representative": RepresentativeSearcher,
    "uniform": UniformSearcher,
}
