"""What every searcher must honour: subclass, set ``searcher``, and pytest collects the checks."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from tunesmith.search.base import Score, Searcher
from tunesmith.search.random import RandomSearcher
from tunesmith.space.base import Sketch
from tunesmith.space.knobs import PerfectTile
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, huge_space, matmul_space, one_point_space, tiny_space
from tunesmith.types import Candidate, FailureKind, Measurement

BATCH = 16
EFFORT = 8192
"""Points per ask that no searcher may exceed, however few are valid."""

STATE_LIMIT = 200_000
"""Characters of JSON after a thousand measurements."""


@functools.cache
def _of_others() -> list[list[Measurement]]:
    """Measurements of what another searcher proposed, in two parts: the same for every searcher that is checked."""
    task = SyntheticTask(huge_space(), invalid=0.5)
    other = RandomSearcher(task.space, seed=1)
    return [measure(task, other.ask(28 * BATCH, score=task.validity)) for _ in range(2)]


class SearcherConformance:
    """Checks of a searcher's contract; ``searcher`` is called as ``searcher(space, seed=int)``."""

    searcher: ClassVar[Callable[..., Searcher]]

    def make(self, space: Space, seed: int = 0) -> Searcher:
        """A fresh searcher."""
        return type(self).searcher(space, seed=seed)

    def _modes(self, task: SyntheticTask) -> tuple[Score | None, ...]:
        """Without scores; with what is valid alone; with predictions, too."""
        return (None, task.validity, task.score)

    def test_proposals_are_new(self) -> None:
        """Never what was proposed, told or is pending; in every mode of scoring."""
        task = SyntheticTask(matmul_space(64, 64, 64))
        for score in self._modes(task):
            searcher, other = self.make(task.space), self.make(task.space)
            pending = other.ask(BATCH, score=score)
            asked_ = other.ask(BATCH, score=score)
            searcher.tell(measure(task, asked_))
            seen = set(pending) | set(asked_)
            proposed = searcher.ask(BATCH, pending, score)
            assert len(proposed) == BATCH
            assert not seen & set(proposed)
            assert len(set(proposed)) == BATCH

    def test_pending_is_only_pending(self) -> None:
        """What is no longer pending, and was never told, may be proposed."""
        space = tiny_space()
        task = SyntheticTask(space)
        everything = task.valid_points()
        searcher = self.make(space)
        assert searcher.ask(BATCH, everything, task.validity) == []
        assert len(searcher.ask(BATCH, (), task.validity)) > 0

    def test_proposals_are_valid_and_canonical(self) -> None:
        """Nothing invalid, and the canonical spelling of each point."""
        task = SyntheticTask(matmul_space(), invalid=0.8)
        for score in (task.validity, task.score):
            searcher = self.make(task.space)
            for _ in range(2):
                proposed = searcher.ask(BATCH, score=score)
                assert len(proposed) == BATCH
                batch, valid = task.resolve(task.space.batch(proposed))
                assert valid.all()
                assert task.space.candidates(batch) == proposed
                searcher.tell(measure(task, proposed))

    def test_repeats_under_a_seed_and_continues_from_its_state(self) -> None:
        """The same inputs give the same proposals, and another seed others, unless it restores the state."""
        task = SyntheticTask(matmul_space(), invalid=0.3)
        searcher, same, other = self.make(task.space, 1), self.make(task.space, 1), self.make(task.space, 2)
        first = searcher.ask(BATCH, score=task.score)
        assert same.ask(BATCH, score=task.score) == first
        assert other.ask(BATCH, score=task.score) != first
        for each in (searcher, same):
            each.tell(measure(task, first))
        second = searcher.ask(BATCH, score=task.score)
        assert same.ask(BATCH, score=task.score) == second
        searcher.tell(measure(task, second))
        twin = self.make(task.space, 2)
        twin.restore(json.loads(json.dumps(searcher.state())))
        for _ in range(2):
            proposed = searcher.ask(BATCH, score=task.score)
            assert twin.ask(BATCH, score=task.score) == proposed
            for each in (searcher, twin):
                each.tell(measure(task, proposed))
        assert twin.state() == searcher.state()

    def test_refuses_the_state_of_another_space(self) -> None:
        """Keys and choices would mean other points."""
        state = self.make(tiny_space()).state()
        try:
            self.make(matmul_space()).restore(state)
        except ValueError:
            return
        raise AssertionError("the state of another space was accepted")

    def test_state_is_small(self) -> None:
        """A thousand measurements fit into a row, most of them of what another searcher proposed."""
        task = SyntheticTask(huge_space(), invalid=0.5)
        searcher = self.make(task.space)
        for others in _of_others():
            searcher.tell(measure(task, searcher.ask(4 * BATCH, score=task.validity)))
            searcher.tell(others)
        assert len(json.dumps(searcher.state())) < STATE_LIMIT

    def test_exhausts_a_small_space(self) -> None:
        """Every valid point once, then fewer than asked, then none."""
        for invalid in (0.0, 0.5):
            task = SyntheticTask(tiny_space(), invalid=invalid)
            score = task.score if invalid else task.validity
            searcher = self.make(task.space)
            proposed: list[Candidate] = []
            while batch := searcher.ask(11, score=score):
                proposed += batch
                searcher.tell(measure(task, batch))
            assert set(proposed) == task.valid_points()
            assert len(proposed) == len(set(proposed))
            assert searcher.ask(11, score=score) == []

    def test_a_space_of_one_point(self) -> None:
        """Proposed once."""
        for space in (one_point_space(), Space([Sketch("prime", (PerfectTile(127, 4),))])):
            searcher = self.make(space)
            assert len(searcher.ask(BATCH)) == space.size
            assert searcher.ask(BATCH) == []

    def test_nothing_valid(self) -> None:
        """No proposal, with bounded effort, in small and in huge spaces."""
        for space in (one_point_space(), tiny_space(), huge_space()):
            task = SyntheticTask(space, invalid=1.0)
            searcher = self.make(space)
            assert searcher.ask(BATCH, score=task.score) == []
            assert task.resolved <= EFFORT

    def test_hardly_anything_valid(self) -> None:
        """What is found is valid, and the effort is bounded."""
        task = SyntheticTask(matmul_space(), invalid=0.999)
        searcher = self.make(task.space)
        proposed = searcher.ask(BATCH, score=task.score)
        assert task.resolved <= EFFORT
        if proposed:
            assert task.resolve(task.space.batch(proposed))[1].all()

    def test_foreign_and_failed_measurements(self) -> None:
        """The default schedule, another space's candidate and failures do no harm as measurements."""
        task = SyntheticTask(tiny_space())
        searcher = self.make(task.space)
        failed = searcher.ask(3, score=task.validity)
        searcher.tell([Measurement(c, failure=FailureKind.CRASH) for c in failed])
        searcher.tell([Measurement(Candidate(None), (1.0,)), Measurement(Candidate("other", (1,)), (1.0,))])
        proposed = searcher.ask(BATCH, (Candidate("other", (2,)), Candidate(None)), task.score)
        assert proposed
        assert not set(failed) & set(proposed)

    def test_suggestions(self) -> None:
        """They spoil nothing: proposals stay new, valid and canonical, and the state knows what waits."""
        task = SyntheticTask(matmul_space(), invalid=0.3)
        points = task.space.candidates(task.space.sample(np.random.default_rng(9), 40))
        for score in self._modes(task)[::2]:
            searcher, twin = self.make(task.space, 1), self.make(task.space, 2)
            searcher.suggest([Candidate("other", (1,)), Candidate(None), *points, *points])
            twin.restore(json.loads(json.dumps(searcher.state())))
            seen: set[Candidate] = set()
            for _ in range(2):
                proposed = searcher.ask(BATCH, (), score)
                assert twin.ask(BATCH, (), score) == proposed
                assert len(set(proposed) - seen) == BATCH
                seen |= set(proposed)
                if score is not None:
                    assert task.resolve(task.space.batch(proposed))[1].all()
                for each in (searcher, twin):
                    each.tell(measure(task, proposed))

    def test_asks_for_nothing(self) -> None:
        """None are returned."""
        assert self.make(tiny_space()).ask(0) == []
