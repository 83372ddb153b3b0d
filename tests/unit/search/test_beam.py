from __future__ import annotations

import numpy as np
from search_runs import reached

from tunesmith.search.beam import BeamOptions, BeamSearcher
from tunesmith.search.codes import Codes
from tunesmith.search.kernel_ridge import KernelRidgeSurrogate
from tunesmith.search.random import RandomSearcher
from tunesmith.space.space import Space
from tunesmith.testing.simulated import measure
from tunesmith.testing.synthetic import SyntheticTask, matmul_space


def test_beats_random_search_with_and_without_scores() -> None:
    chance = reached(RandomSearcher, "validity")
    assert reached(BeamSearcher, "score") < 0.7 * chance
    assert reached(BeamSearcher, "validity") < 0.7 * chance


def test_the_value_of_a_prefix_is_the_best_of_its_completions() -> None:
    """Prefixes with the optimum's first decision have greater values than others, whatever they were completed with."""
    task = SyntheticTask(Space(matmul_space(64, 64, 64).sketches[:1]), seed=3)
    space = task.space
    searcher = BeamSearcher(space, options=BeamOptions(tried=32))
    points = space.sample(np.random.default_rng(0), 160)
    codes = Codes(space)
    values = searcher._values(KernelRidgeSurrogate(codes.of(points), task.score(points).mean), points)
    assert len(values) == len(space.sketches[0].knobs)
    first = space.sample(np.random.default_rng(1), 200)
    best = space.batch([task.best])
    completed = first.take(slice(None))
    completed.choice[:, 1:] = best.choice[:, 1:]  # what each first decision can reach
    wanted = task.score(completed).mean
    found = values[0].predict(codes.of(first, 1))
    assert np.corrcoef(found, wanted)[0, 1] > 0.6


def test_a_beam_of_random_values_is_no_better_than_chance() -> None:
    """The values lead it: with values learned from noise its ends are as good as random points, not better."""
    task = SyntheticTask(Space(matmul_space().sketches[:1]), seed=1)
    searcher = BeamSearcher(task.space, seed=0)
    points = task.space.sample(np.random.default_rng(0), 128)
    latency = []
    for score in (task.score(points).mean, np.random.default_rng(1).normal(size=128)):
        draft = KernelRidgeSurrogate(Codes(task.space).of(points), score)
        ends = searcher._beam(searcher._values(draft, points), points, 64)
        best = ends.take(np.argsort(-draft.predict(Codes(task.space).of(ends)))[:32])
        latency.append(float(np.median(task.latency(best))))
    assert latency[0] < 0.5 * latency[1]
    assert len(measure(task, task.space.candidates(best))) == 32
