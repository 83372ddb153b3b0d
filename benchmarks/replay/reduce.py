"""From a design space of millions of points to one that can be measured completely."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tunesmith.space.base import Floats, Ints, PointBatch, Sketch
from tunesmith.space.knobs import Knob
from tunesmith.space.space import Space
from tunesmith.testing.replay import Subset

SKETCHES = 3
NEIGHBOUR_DRAWS = 32


def reduce(space: Space, pilot: PointBatch, seconds: Floats, points: int, rng: np.random.Generator) -> Space:
    """A space of at most ``points`` points around the fastest ones of a pilot and at random elsewhere.

    The sketches with the fastest pilot points are kept. Of each knob the pilot's best choice is kept, half of the
    others are next to it and the rest are drawn from all choices; large knobs keep more than small ones.

    Args:
        pilot: random points of ``space``.
        seconds: their latencies, infinity for failures.

    Raises:
        ValueError: when no pilot point is valid.
    """
    best = best_rows(pilot, seconds)[:SKETCHES]
    if not len(best):
        raise ValueError("no point of the pilot is valid")
    sketches = []
    for row in best:
        sketch = space.sketches[pilot.sketch[row]]
        sizes = share([knob.size for knob in sketch.knobs], points // len(best))
        knobs = tuple(
            Subset(knob, choose(knob, int(choice), size, rng))
            for knob, choice, size in zip(sketch.knobs, pilot.choice[row], sizes, strict=False)
        )
        sketches.append(Sketch(sketch.hash, knobs))
    return Space(sketches)


def best_rows(pilot: PointBatch, seconds: Floats) -> Ints:
    """The fastest valid row of each sketch, fastest sketch first."""
    order = np.argsort(seconds, kind="stable")
    order = order[np.isfinite(seconds[order])]
    _, first = np.unique(pilot.sketch[order], return_index=True)
    return order[np.sort(first)]


def share(sizes: Sequence[int], points: int) -> list[int]:
    """How many choices of each knob to keep, so that their product is at most ``points``."""
    kept = [1] * len(sizes)
    while True:
        fits = [
            i for i, size in enumerate(sizes) if kept[i] < size and math.prod(kept) // kept[i] * (kept[i] + 1) <= points
        ]
        if not fits:
            return kept
        grow = max(fits, key=lambda i: math.log2(sizes[i]) / kept[i])
        kept[grow] += 1


def choose(knob: Knob, best: int, count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """``count`` choices: the best one, neighbours of it, others at random."""
    chosen = {best}
    near = knob.neighbours(rng, np.full(NEIGHBOUR_DRAWS, best, dtype=np.int64)).tolist()
    for choice in near:
        if len(chosen) < 1 + (count - 1) // 2:
            chosen.add(int(choice))
    while len(chosen) < count:
        chosen.add(int(rng.integers(knob.size)))
    return tuple(sorted(chosen))
