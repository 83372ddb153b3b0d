"""Monte Carlo tree search over schedules, after ProTuner (Haj-Ali et al., 2020).

A tree decides the sketch, then knob after knob in trace order. A roll-out goes down by an upper confidence bound on the
best score of a subtree (UCB1, Auer et al., 2002; Kocsis and Szepesvári, 2006), adds one node and completes the
schedule, so that complete schedules are compared, never partial ones. A knob may have thousands of choices: a node has
the more children the more often it was visited (progressive widening; Coulom, 2007). Drafts of the scores value the
roll-outs, the best of them get exact scores, and what is measured is backed up through all of its decisions.

As in ProTuner there are several trees: greedy ones complete a schedule like the best that is known below the node, a
standard one at random. They are grown anew in every look, from all that is known by then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tunesmith.search.candidate_pool import CandidatePool
from tunesmith.search.learning import GuessingOptions, GuessingSearcher
from tunesmith.search.surrogate import Prediction
from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.space import Space, concat


@dataclass(frozen=True)
class TreeOptions(GuessingOptions):
    """Settings of the trees.

    Attributes:
        greedy: trees whose roll-outs complete a schedule like the best one below the node.
        standard: trees whose roll-outs complete it at random.
        rollouts: roll-outs of each tree in a look.
        wave: roll-outs that are valued together; one does not learn from others of its wave.
        known: best known points that a tree begins with.
        exploration: weight of the bound's width; values reach from 0, the median of what is known, to 1, its best.
        widening, growth: a node visited n times has up to widening * n**growth children.
        leap: share of new children that are random, the others being next to the best child.
        changed: odds of each decision to be changed when a greedy roll-out completes a schedule.
    """

    looks: int = 2
    greedy: int = 3
    standard: int = 1
    rollouts: int = 96
    wave: int = 32
    known: int = 96
    exploration: float = 0.3
    widening: float = 1.5
    growth: float = 0.5
    leap: float = 0.3
    changed: float = 0.15


@dataclass(slots=True)
class Node:
    """A partial schedule.

    Attributes:
        visits: roll-outs and known points below it.
        value: the best of them, from 0 to 1 at what was known best; above it where more is expected.
        row: which point of the tree that is.
        children: by the next decision.
    """

    visits: int = 0
    value: float = -math.inf
    row: int = -1
    children: dict[int, Node] = field(default_factory=dict)

    def take(self, value: float, row: int) -> None:
        """Back a value up."""
        if value > self.value:
            self.value, self.row = value, row

    def follow(self, exploration: float) -> tuple[int, Node]:
        """The decision with the greatest upper confidence bound."""
        width = exploration * math.sqrt(math.log(max(self.visits, 2)))
        return max(self.children.items(), key=lambda item: item[1].value + width / math.sqrt(item[1].visits))

    def best(self) -> int:
        """The decision below which the best was found."""
        return max(self.children.items(), key=lambda item: item[1].value)[0]


class Tree:
    """One tree of decisions.

    Args:
        space: the space whose points the tree decides.
        rng: source of every random choice.
        options: see ``TreeOptions``.
        greedy: how roll-outs complete a schedule.
    """

    def __init__(self, space: Space, rng: np.random.Generator, options: TreeOptions, greedy: bool) -> None:
        self._space, self._rng, self._options, self._greedy = space, rng, options, greedy
        self._root = Node()
        self.points = space.batch([])

    def plant(self, points: PointBatch, value: Floats) -> None:
        """Grow the whole paths of known points."""
        start, self.points = len(self.points), concat([self.points, points])
        for row, path in enumerate(self._paths(points)):
            node = self._root
            for decision in path:
                node.visits += 1
                node.take(float(value[row]), start + row)
                node = node.children.setdefault(decision, Node())
            node.visits += 1
            node.take(float(value[row]), start + row)

    def descend(self, count: int) -> tuple[PointBatch, list[list[Node]]]:
        """Roll out ``count`` times: complete points, and of each the nodes that lie on its way.

        A node counts as visited at once, which sends the roll-outs of a wave different ways.
        """
        begun = [self._walk() for _ in range(count)]
        depth = np.array([len(path) - 1 for path, _ in begun], dtype=np.int64)
        sketch = np.array([path[0] for path, _ in begun], dtype=np.int64)
        drawn = self._uniform(sketch)
        like = np.array([nodes[-2].row if nodes[-2].row >= 0 else -1 for _, nodes in begun], dtype=np.int64)
        follows = (like >= 0) & self._greedy
        follows &= self.points.sketch[like] == sketch if len(self.points) else False
        choice = drawn.choice
        rows = np.flatnonzero(follows)
        choice[rows] = self._altered(self.points.take(like[rows]), depth[rows])
        for row, (path, _) in enumerate(begun):
            choice[row, : depth[row]] = path[1:]
        return PointBatch(sketch, choice), [nodes for _, nodes in begun]

    def back_up(self, points: PointBatch, value: Floats, ways: list[list[Node]]) -> None:
        """Tell every node on a roll-out's way what it is worth."""
        start, self.points = len(self.points), concat([self.points, points])
        for row, nodes in enumerate(ways):
            for node in nodes:
                node.take(float(value[row]), start + row)

    def _walk(self) -> tuple[list[int], list[Node]]:
        """Decisions from the root to a node that is new, or to a whole schedule, and the nodes on the way."""
        node, path, nodes = self._root, list[int](), [self._root]
        node.visits += 1
        while len(path) < 1 or len(path) - 1 < len(self._space.sketches[path[0]].knobs):
            limit = self._options.widening * node.visits**self._options.growth
            new = self._new(node, path) if len(node.children) < limit else None
            if new is None:
                new, child = node.follow(self._options.exploration)
                known = True
            else:
                known = new in node.children
                child = node.children.setdefault(new, Node())
            node = child
            node.visits += 1
            path.append(new)
            nodes.append(node)
            if not known:
                break
        return path, nodes

    def _new(self, node: Node, path: list[int]) -> int | None:
        """A decision to try next; None where none are left. It may be one that was tried before."""
        if not path:
            left = [s for s in range(len(self._space.sketches)) if s not in node.children]
            return int(self._rng.choice(left)) if left else None
        knob = self._space.sketches[path[0]].knobs[len(path) - 1]
        if len(node.children) >= knob.size:
            return None
        if node.children and self._rng.random() >= self._options.leap:
            return int(knob.neighbours(self._rng, np.array([node.best()], dtype=np.int64))[0])
        return int(knob.sample(self._rng, 1)[0])

    def _uniform(self, sketch: Ints) -> PointBatch:
        """A random point of each sketch."""
        batch = PointBatch(sketch, np.full((len(sketch), self._space.width), -1, dtype=np.int64))
        for s in np.unique(sketch):
            rows = np.flatnonzero(sketch == s)
            for j, knob in enumerate(self._space.sketches[s].knobs):
                batch.choice[rows, j] = knob.sample(self._rng, len(rows))
        return batch

    def _altered(self, points: PointBatch, depth: Ints) -> Ints:
        """Choices of points, some of those from ``depth`` on moved to neighbours: int64 [n, width]."""
        choice: Ints = points.choice.copy()
        moved = self._rng.random(choice.shape) < self._options.changed
        moved &= np.arange(self._space.width) >= depth[:, None]
        for s in np.unique(points.sketch):
            for j, knob in enumerate(self._space.sketches[s].knobs):
                rows = np.flatnonzero((points.sketch == s) & moved[:, j])
                if len(rows):
                    choice[rows, j] = knob.neighbours(self._rng, choice[rows, j])
        return choice

    def _paths(self, points: PointBatch) -> list[list[int]]:
        """Decisions of points, the sketch first."""
        return [
            [s, *choice[: len(self._space.sketches[s].knobs)]]
            for s, choice in zip(points.sketch.tolist(), points.choice.tolist(), strict=True)
        ]


class TreeSearcher(GuessingSearcher):
    """Suggests the best roll-outs of its trees."""

    def __init__(self, space: Space, seed: int = 0, options: TreeOptions = TreeOptions()) -> None:
        super().__init__(space, seed, options)
        self.options = options

    def _visit(self, pool: CandidatePool, prediction: Prediction, n: int, done: float) -> tuple[PointBatch, Floats]:
        points, goodness = self._valued(pool, prediction)
        points, goodness = points.take(slice(0, self.options.known)), goodness[: self.options.known]
        low, high = float(np.median(goodness)), float(goodness.max())
        scale = 1.0 / (high - low) if high > low else 1.0
        found = []
        for number in range(self.options.greedy + self.options.standard):
            tree = Tree(self.space, self._rng, self.options, number < self.options.greedy)
            tree.plant(points, (goodness - low) * scale)
            for _ in range(self.options.rollouts // self.options.wave):
                ends, ways = tree.descend(self.options.wave)
                tree.back_up(ends, (self._guess(prediction, ends) - low) * scale, ways)
            found.append(tree.points.take(slice(len(points), None)))
        ends = concat(found)
        return ends, self._guess(prediction, ends)
