from __future__ import annotations

import numpy as np
from search_runs import one_sketch, reached

from tunesmith.search.mcts import Tree, TreeOptions, TreeSearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import PointBatch
from tunesmith.testing.synthetic import SyntheticTask


def test_beats_random_search_with_and_without_scores() -> None:
    chance = reached(RandomSearcher, "validity")
    assert reached(TreeSearcher, "score") < 0.7 * chance
    assert reached(TreeSearcher, "validity") < 0.7 * chance


def grown(task: SyntheticTask, options: TreeOptions, waves: int) -> tuple[Tree, PointBatch]:
    """A standard tree, its roll-outs valued by the task itself."""
    tree = Tree(task.space, np.random.default_rng(0), options, greedy=False)
    for _ in range(waves):
        ends, ways = tree.descend(16)
        tree.back_up(ends, task.score(ends).mean, ways)
    return tree, tree.points


def test_roll_outs_gather_where_the_best_was_found() -> None:
    task = SyntheticTask(one_sketch(), seed=2)
    early, late, chance = [], [], []
    for exploration, found in ((0.1, late), (100.0, chance)):
        _, points = grown(task, TreeOptions(exploration=exploration), 40)
        latency = np.log(task.latency(points))
        found.append(float(latency[-320:].mean()))
        early.append(float(latency[:160].mean()))
    assert late[0] < early[0] - 0.2
    assert late[0] < chance[0] - 0.2, "a bound of nothing but width does not exploit"


def test_values_are_backed_up_and_children_widen_with_visits() -> None:
    task = SyntheticTask(one_sketch(), seed=2)
    options = TreeOptions()
    tree, points = grown(task, options, 20)
    best = float(task.score(points).mean.max())
    node = tree._root
    assert node.visits == len(points)
    while node.children:
        assert node.value == max(best, node.value)
        assert sum(child.visits for child in node.children.values()) <= node.visits
        assert len(node.children) <= options.widening * node.visits**options.growth + 1
        node = node.children[node.best()]
    assert node.value == best


def test_known_points_are_whole_paths_and_a_greedy_roll_out_resembles_the_best() -> None:
    task = SyntheticTask(one_sketch(), seed=0)
    known = task.space.sample(np.random.default_rng(0), 40)
    value = task.score(known).mean
    tree = Tree(task.space, np.random.default_rng(0), TreeOptions(changed=0.0, exploration=0.0), greedy=True)
    tree.plant(known, value)
    ends, ways = tree.descend(32)
    best = known.take(slice(int(value.argmax()), int(value.argmax()) + 1))
    assert np.median((ends.choice == best.choice).sum(axis=1)) >= task.space.width - 2
    assert max(len(way) for way in ways) <= task.space.width + 2
