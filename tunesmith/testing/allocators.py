"""What every allocator must honour: subclass, set ``allocator``, and pytest collects the checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from tunesmith.allocate.base import Allocator, TaskView


def random_tasks(rng: np.random.Generator, count: int) -> list[TaskView]:
    """Tasks with falling histories; some have no valid result, some no baseline, some are exhausted."""
    tasks = []
    for i in range(count):
        history = np.minimum.accumulate(rng.lognormal(-6, 1, size=rng.integers(0, 8)))
        history[: rng.integers(0, 3)] = np.inf
        untuned = float(rng.lognormal(-3)) if rng.random() < 0.7 else None
        tasks.append(
            TaskView(
                id=10 + 3 * i,
                weight=float(rng.integers(1, 9)),
                flops=float(rng.lognormal(18, 2)),
                family=f"f{i % 3}",
                untuned=untuned,
                history=tuple(float(h) for h in np.maximum.accumulate(history[::-1])[::-1]),
                trials=16 * len(history),
                exhausted=bool(rng.random() < 0.2),
            )
        )
    return tasks


class AllocatorConformance:
    """Checks of an allocator's contract; ``allocator`` is called as ``allocator(seed=int)``."""

    allocator: ClassVar[Callable[..., Allocator]]

    def make(self, seed: int = 0) -> Allocator:
        """A fresh allocator."""
        return type(self).allocator(seed=seed)

    def test_chooses_what_can_be_tuned(self) -> None:
        """A task that was given and is not exhausted, or None when there is none."""
        rng = np.random.default_rng(0)
        for _ in range(100):
            tasks = random_tasks(rng, int(rng.integers(0, 12)))
            flying = {t.id: int(rng.integers(0, 3)) for t in tasks if rng.random() < 0.5}
            choice = self.make().choose(tasks, flying)
            open_ids = {t.id for t in tasks if not t.exhausted}
            assert (choice is None) == (not open_ids)
            if choice is not None:
                assert choice.task in open_ids
                assert set(choice.scores) <= open_ids
                assert choice.task in choice.scores
                assert choice.reason

    def test_repeats(self) -> None:
        """The same tasks give the same choice, whatever was asked before."""
        rng = np.random.default_rng(1)
        used = self.make(3)
        for _ in range(50):
            tasks = random_tasks(rng, 8)
            assert used.choose(tasks, {}) == used.choose(tasks, {}) == self.make(3).choose(tasks, {})

    def test_explains_itself_in_json(self) -> None:
        """Scores are finite numbers that JSON can say, and there is a reason."""
        rng = np.random.default_rng(2)
        for _ in range(50):
            choice = self.make().choose(random_tasks(rng, 6), {})
            if choice is not None:
                json.dumps([choice.scores, choice.gain, choice.deviations], allow_nan=False)
                assert choice.deviations.keys() <= choice.scores.keys()
                assert choice.reason

    def test_every_task_gets_a_first_round(self) -> None:
        """With all rounds in flight, no task is chosen twice before each was chosen once."""
        tasks = [t._replace(exhausted=False, history=(), trials=0) for t in random_tasks(np.random.default_rng(3), 9)]
        allocator, flying = self.make(), dict.fromkeys((t.id for t in tasks), 0)
        for _ in tasks:
            choice = allocator.choose(tasks, flying)
            assert choice is not None
            flying[choice.task] += 1
        assert set(flying.values()) == {1}

    def test_does_not_starve_a_task_that_can_improve(self) -> None:
        """Two equal tasks share the rounds."""
        tasks = [TaskView(i, 1.0, 1e9, "f", 1.0) for i in (1, 2)]
        allocator, counts = self.make(), {1: 0, 2: 0}
        for _ in range(20):
            choice = allocator.choose(tasks, {})
            assert choice is not None
            counts[choice.task] += 1
            tasks = [
                t._replace(history=(*t.history, 0.5 / (1 + len(t.history))), trials=t.trials + 16)
                if t.id == choice.task
                else t
                for t in tasks
            ]
        assert min(counts.values()) >= 5
