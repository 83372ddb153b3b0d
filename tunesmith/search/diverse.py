"""Which of many promising points to take, so that they differ."""

from __future__ import annotations

import numpy as np

from tunesmith.search.shares import turn
from tunesmith.space.base import Floats, Ints, PointBatch


def diverse(
    batch: PointBatch, value: Floats, n: int, share: Floats, *, novelty: float, shared: float, start: Floats
) -> Ints:
    """Positions of up to ``n`` points, in the order of choice.

    Greedily the largest value plus a bonus for every choice of a knob that no point has which was taken before: the
    submodular objective of AutoTVM (Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, section 3.3).

    Args:
        value: value of each point, higher is better.
        share: share of each sketch, float64 [sketches].
        novelty: the bonus, in deviations of the values.
        shared: part of the points that sketches take in turn by their shares; the others go to the best of all.
        start: see ``tunesmith.search.shares.turn``.
    """
    value, sketches = _finite(value), len(share)
    tokens = _tokens(batch, sketches)
    bonus = novelty * float(value.std()) if len(value) else 0.0
    untaken = np.ones(tokens.max(initial=-1) + 1)
    open_, taken = np.ones(len(batch), dtype=np.bool_), list[int]()
    count = np.zeros(sketches, dtype=np.int64)
    while len(taken) < min(n, len(batch)):
        allowed = open_
        if int(shared * (len(taken) + 1)) > int(shared * len(taken)):
            present = np.bincount(batch.sketch[open_], minlength=sketches) > 0
            allowed = open_ & (batch.sketch == turn(share, count, present, start))
        gain = value + bonus * untaken[tokens].sum(axis=1)
        row = int(np.argmax(np.where(allowed, gain, -np.inf)))
        taken.append(row)
        open_[row] = False
        count[batch.sketch[row]] += 1
        untaken[tokens[row]] = 0.0
    return np.array(taken, dtype=np.int64)


def _finite(value: Floats) -> Floats:
    """Values with the worst finite one for what has none."""
    known = value[np.isfinite(value)]
    return np.where(np.isfinite(value), value, known.min() if len(known) else 0.0)


def _tokens(batch: PointBatch, sketches: int) -> Ints:
    """A number for each choice of each knob of each sketch: int64 [n, knobs]."""
    out, offset = np.zeros(batch.choice.shape, dtype=np.int64), 0
    for j, column in enumerate(batch.choice.T):
        choices, place = np.unique(column, return_inverse=True)
        out[:, j] = offset + place * sketches + batch.sketch
        offset += len(choices) * sketches
    return out
