"""What every design space must honour: subclass, set ``space``, and pytest collects the checks."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from tunesmith.space.base import PointBatch
from tunesmith.space.knobs import PerfectTile
from tunesmith.space.space import LINEAR_LIMIT, Space
from tunesmith.types import Candidate

COUNT = 300


class SpaceConformance:
    """Checks of a space and its knobs."""

    @abstractmethod
    def space(self) -> Space:
        """The space under test."""

    def _batch(self, seed: int = 0) -> tuple[Space, PointBatch]:
        space = self.space()
        return space, space.sample(np.random.default_rng(seed), COUNT)

    def _assert_inside(self, space: Space, batch: PointBatch) -> None:
        assert batch.sketch.dtype == batch.choice.dtype == np.int64
        assert batch.choice.shape == (len(batch), space.width)
        for s, row in zip(batch.sketch, batch.choice, strict=True):
            knobs = space.sketches[s].knobs
            assert all(0 <= c < k.size for c, k in zip(row, knobs, strict=False))
            assert (row[len(knobs) :] == -1).all()

    def test_samples_lie_inside_and_repeat_under_a_seed(self) -> None:
        """Same seed, same points."""
        space, batch = self._batch()
        self._assert_inside(space, batch)
        repeated = space.sample(np.random.default_rng(0), COUNT)
        assert (batch.choice == repeated.choice).all()
        assert (batch.sketch == repeated.sketch).all()

    def test_candidates_and_back(self) -> None:
        """Candidates, their JSON and batches say the same."""
        space, batch = self._batch()
        candidates = space.candidates(batch)
        assert [Candidate.from_json(c.to_json()) for c in candidates] == candidates
        repeated = space.batch(candidates)
        assert (repeated.sketch == batch.sketch).all()
        assert (repeated.choice == batch.choice).all()
        assert all(space.known(candidates))

    def test_unknown_candidates_are_refused(self) -> None:
        """A wrong sketch, a wrong number of decisions, no sketch."""
        space, batch = self._batch()
        known = space.candidates(batch)[0]
        for bad in (Candidate("no such sketch"), Candidate(None), Candidate(known.sketch, (*known.decisions, 0))):
            assert space.known([bad]) == [False]
            try:
                space.batch([known, bad])
            except ValueError:
                continue
            raise AssertionError(f"{bad} was accepted")

    def test_neighbours_differ_in_one_knob(self) -> None:
        """And in none only where the sketch has a single point."""
        space, batch = self._batch()
        moved = space.neighbours(np.random.default_rng(1), batch)
        self._assert_inside(space, moved)
        assert (moved.sketch == batch.sketch).all()
        changed = (moved.choice != batch.choice).sum(axis=1)
        single = np.array([space.sizes[s] == 1 for s in batch.sketch])
        assert (changed == np.where(single, 0, 1)).all()

    def test_what_lies_around_is_what_neighbours_draw_from(self) -> None:
        """Each point once, without the point itself; neighbours of small steps are among them."""
        space, batch = self._batch()
        for i in range(0, COUNT, COUNT // 5):
            point = batch.take(slice(i, i + 1))
            around = space.around(point)
            self._assert_inside(space, around)
            assert (around.sketch == point.sketch).all()
            assert ((around.choice != point.choice).sum(axis=1) == 1).all()
            keys = space.keys(around)
            assert len(np.unique(keys)) == len(keys)
            drawn = space.neighbours(np.random.default_rng(i), point.take(np.zeros(20, dtype=np.int64)))
            tiles = [isinstance(knob, PerfectTile) for knob in space.sketches[point.sketch[0]].knobs]
            moved = (drawn.choice != point.choice)[:, : len(tiles)] & np.array(tiles, dtype=np.bool_)
            assert np.isin(space.keys(drawn.take(moved.any(axis=1))), keys).all()

    def test_children_take_after_their_parents(self) -> None:
        """Each knob comes from a parent, and so does the sketch."""
        space, a = self._batch()
        b = space.sample(np.random.default_rng(2), COUNT)
        child = space.crossover(np.random.default_rng(3), a, b)
        self._assert_inside(space, child)
        assert (child.sketch == a.sketch).all()
        other = a.sketch != b.sketch
        assert (child.choice[other] == a.choice[other]).all()
        assert ((child.choice == a.choice) | (child.choice == b.choice)).all()

    def test_encoding_tells_points_apart(self) -> None:
        """Finite float32 of fixed width, equal exactly for equal points."""
        space, batch = self._batch()
        code = space.encode(batch)
        assert code.dtype == np.float32
        assert code.shape == (COUNT, space.dims)
        assert np.isfinite(code).all()
        assert len(np.unique(code, axis=0)) == len(np.unique(space.keys(batch)))

    def test_keys_tell_points_apart(self) -> None:
        """One key per point, and for spaces that can be numbered the way back."""
        space, batch = self._batch()
        keys = space.keys(batch)
        points = set(space.candidates(batch))
        assert len(np.unique(keys)) == len(points)
        assert (space.keys(space.batch(space.candidates(batch))) == keys).all()
        if space.size <= LINEAR_LIMIT:
            assert ((keys >= 0) & (keys < space.size)).all()
            repeated = space.at(keys)
            assert (repeated.choice == batch.choice).all()
            assert (repeated.sketch == batch.sketch).all()

    def test_empty_batches(self) -> None:
        """Nothing in, nothing out."""
        space = self.space()
        rng = np.random.default_rng(0)
        empty = space.sample(rng, 0)
        assert len(empty) == len(space.neighbours(rng, empty)) == len(space.crossover(rng, empty, empty)) == 0
        assert space.candidates(empty) == []
        assert len(space.batch([])) == len(space.keys(empty)) == 0
        assert space.encode(empty).shape == (0, space.dims)
