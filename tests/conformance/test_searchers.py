from __future__ import annotations

from tunesmith.search.annealing import AnnealingSearcher
from tunesmith.search.base import Searcher
from tunesmith.search.bayesian import BayesianOptions, BayesianSearcher
from tunesmith.search.beam import BeamSearcher
from tunesmith.search.droplet import DropletSearcher
from tunesmith.search.evolution_strategy import EvolutionOptions, EvolutionStrategySearcher
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.lfbo import LfboOptions, LfboSearcher
from tunesmith.search.mcts import TreeSearcher
from tunesmith.search.portfolio import PortfolioSearcher
from tunesmith.search.ppo import AgentSearcher
from tunesmith.search.q_learning import QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.registry import SEARCHERS
from tunesmith.space.space import Space
from tunesmith.testing.searchers import SearcherConformance


class TestRandom(SearcherConformance):
    searcher = RandomSearcher


class TestAnnealing(SearcherConformance):
    searcher = AnnealingSearcher


class TestDroplet(SearcherConformance):
    searcher = DropletSearcher


class TestQLearning(SearcherConformance):
    searcher = QLearningSearcher


class TestGenetic(SearcherConformance):
    searcher = GeneticSearcher


class TestPortfolio(SearcherConformance):
    searcher = PortfolioSearcher


class TestBeam(SearcherConformance):
    searcher = BeamSearcher


class TestTrees(SearcherConformance):
    searcher = TreeSearcher


class TestAgents(SearcherConformance):
    searcher = AgentSearcher


class TestBayesian(SearcherConformance):
    searcher = BayesianSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return BayesianSearcher(space, seed, BayesianOptions(learnt=64, drawn=128, neighbours=128))


class TestLfbo(SearcherConformance):
    searcher = LfboSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return LfboSearcher(space, seed, LfboOptions(trees=6))


class TestEvolutionStrategy(SearcherConformance):
    searcher = EvolutionStrategySearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return EvolutionStrategySearcher(space, seed, EvolutionOptions(evaluations=80))


def test_every_searcher_is_checked() -> None:
    checked = {cls.searcher for cls in SearcherConformance.__subclasses__()}
    assert checked == set(SEARCHERS.values())
