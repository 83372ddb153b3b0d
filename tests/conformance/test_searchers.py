from __future__ import annotations

from tunesmith.search.annealing import AnnealingOptions, AnnealingSearcher
from tunesmith.search.base import Searcher
from tunesmith.search.bayesian import BayesianOptions, BayesianSearcher
from tunesmith.search.beam import BeamOptions, BeamSearcher
from tunesmith.search.droplet import DropletSearcher
from tunesmith.search.evolution_strategy import EvolutionOptions, EvolutionStrategySearcher
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.guided import GuidedSearcher
from tunesmith.search.lfbo import LfboOptions, LfboSearcher
from tunesmith.search.mcts import TreeOptions, TreeSearcher
from tunesmith.search.portfolio import PortfolioSearcher
from tunesmith.search.ppo import AgentOptions, AgentSearcher
from tunesmith.search.q_learning import QLearningOptions, QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.registry import SEARCHERS
from tunesmith.search.representative import RepresentativeOptions, RepresentativeSearcher
from tunesmith.search.uniform import UniformSearcher
from tunesmith.space.space import Space
from tunesmith.testing.searchers import SearcherConformance


class TestRandom(SearcherConformance):
    searcher = RandomSearcher


class TestAnnealing(SearcherConformance):
    searcher = AnnealingSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return AnnealingSearcher(space, seed, AnnealingOptions(walkers=16, steps=4, looks=2))


class TestDroplet(SearcherConformance):
    searcher = DropletSearcher


class TestQLearning(SearcherConformance):
    searcher = QLearningSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return QLearningSearcher(space, seed, QLearningOptions(walks=12, steps=3, updates=8, looks=2))


class TestGenetic(SearcherConformance):
    searcher = GeneticSearcher


class TestPortfolio(SearcherConformance):
    searcher = PortfolioSearcher


class TestBeam(SearcherConformance):
    searcher = BeamSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return BeamSearcher(space, seed, BeamOptions(learned=24, random=12, width=24, tried=4, looks=1))


class TestTrees(SearcherConformance):
    searcher = TreeSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return TreeSearcher(space, seed, TreeOptions(greedy=1, rollouts=32, known=32, looks=1))


class TestAgents(SearcherConformance):
    searcher = AgentSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return AgentSearcher(space, seed, AgentOptions(agents=16, steps=4, epochs=1, looks=1))


class TestBayesian(SearcherConformance):
    searcher = BayesianSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return BayesianSearcher(space, seed, BayesianOptions(learnt=64, sampled=128, neighbours=128))


class TestLfbo(SearcherConformance):
    searcher = LfboSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return LfboSearcher(space, seed, LfboOptions(trees=4))


class TestEvolutionStrategy(SearcherConformance):
    searcher = EvolutionStrategySearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return EvolutionStrategySearcher(space, seed, EvolutionOptions(evaluations=80))


class TestGuided(SearcherConformance):
    searcher = GuidedSearcher


class TestUniform(SearcherConformance):
    searcher = UniformSearcher


class TestRepresentative(SearcherConformance):
    searcher = RepresentativeSearcher

    def make(self, space: Space, seed: int = 0) -> Searcher:
        return RepresentativeSearcher(space, seed, RepresentativeOptions(pool=128))


def test_every_searcher_is_checked() -> None:
    checked = {cls.searcher for cls in SearcherConformance.__subclasses__()}
    assert checked == set(SEARCHERS.values())
