from __future__ import annotations

from tunesmith.search.annealing import AnnealingSearcher
from tunesmith.search.beam import BeamSearcher
from tunesmith.search.droplet import DropletSearcher
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.search.mcts import TreeSearcher
from tunesmith.search.portfolio import PortfolioSearcher
from tunesmith.search.ppo import AgentSearcher
from tunesmith.search.q_learning import QLearningSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.registry import SEARCHERS
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


def test_every_searcher_is_checked() -> None:
    checked = {cls.searcher for cls in SearcherConformance.__subclasses__()}
    assert checked == set(SEARCHERS.values())
