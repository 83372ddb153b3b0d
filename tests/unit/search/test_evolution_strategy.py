from __future__ import annotations

import numpy as np

from tunesmith.search.evolution_strategy import EvolutionOptions, EvolutionStrategySearcher
from tunesmith.search.random import RandomSearcher
from tunesmith.search.relaxed import LISTED, Relaxed
from tunesmith.space.knobs import Categorical, PerfectTile
from tunesmith.space.space import Sketch, Space
from tunesmith.testing.replay import Subset
from tunesmith.testing.simulated import measure, tune
from tunesmith.testing.synthetic import SyntheticTask, huge_space, matmul_space

QUICK = EvolutionOptions(evaluations=600)


def test_it_beats_chance_by_far() -> None:
    mine, chance = [], []
    for seed in range(5):
        task = SyntheticTask(Space(matmul_space().sketches[:1]), seed=seed)
        for out, searcher in (
            (mine, EvolutionStrategySearcher(task.space, seed, QUICK)),
            (chance, RandomSearcher(task.space, seed)),
        ):
            out.append(tune(searcher, task, rounds=4, noise=0.01)[-1])
    assert np.median(mine) < 0.6 * np.median(chance)


def test_points_are_the_nearest_to_their_own_coordinates() -> None:
    space = matmul_space(1024, 96, 7)
    for sketch in range(2):
        box = Relaxed(space, sketch)
        points = space.sample(np.random.default_rng(0), 200)
        points = points.take(points.sketch == sketch)
        place = box.place(points)
        assert place.shape == (len(points), box.dims)
        assert 0.0 <= place.min() < place.max() <= 1.0
        assert (box.nearest(place).choice == points.choice).all()
    assert space.sketches[0].knobs[2].size <= LISTED < huge_space().sketches[0].knobs[0].size
    huge = Relaxed(huge_space(), 0)
    assert (huge.nearest(np.full((3, huge.dims), 0.5)).choice >= 0).all()


def test_generations_climb_and_a_strategy_that_has_converged_starts_anew() -> None:
    task = SyntheticTask(Space(matmul_space().sketches[:1]), seed=3)
    populations, climbed = list[int](), list[float]()

    class Watched(EvolutionStrategySearcher):
        def _generations(self, prediction, box, strategy, most):  # type: ignore[no-untyped-def]
            found = super()._generations(prediction, box, strategy, most)
            populations.append(strategy.population_size)
            climbed.append(float(np.median(found[-1][1]) - np.median(found[0][1])))
            return found

    searcher = Watched(task.space, 0, EvolutionOptions(evaluations=4000))
    measured = searcher.ask(32)
    searcher.tell(measure(task, measured))
    searcher.ask(8)
    assert populations[:2] == [20, 40]
    assert climbed[1] > 0.5, "from anywhere towards what the draft promises"


def test_a_tile_of_two_close_factors_has_two_values() -> None:
    close = Subset(PerfectTile(1000, 2, 64), (6, 7))  # factors 20 and 25, a third of an octave apart
    space = Space([Sketch("close", (close, Categorical(2)))])
    assert Relaxed(space, 0).steps.max() <= 1.0
    assert len(EvolutionStrategySearcher(space, 0, QUICK).ask(8)) == space.size
