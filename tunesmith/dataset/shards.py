"""Disjoint parts of a design space: who collects on several machines labels no program twice."""

from __future__ import annotations

import numpy as np

from tunesmith.dataset.collecting import Collecting
from tunesmith.search.base import Score
from tunesmith.space.base import Bools, PointBatch, Scores
from tunesmith.space.space import Space


def in_shard(space: Space, batch: PointBatch, collecting: Collecting) -> Bools:
    """Which points are of the shard, by their content: bool [n]. Every point of a space is of exactly one."""
    return np.asarray(space.keys(batch) % collecting.shards == collecting.shard)


def restricted(space: Space, score: Score, collecting: Collecting) -> Score:
    """The score function by which only programs of the shard are valid; spellings of others are not looked at."""

    def scored(batch: PointBatch) -> Scores:
        rows = np.flatnonzero(in_shard(space, batch, collecting))
        found = score(batch.take(rows))
        choice, valid = batch.choice.copy(), np.zeros(len(batch), dtype=np.bool_)
        mean, std = np.zeros(len(batch)), np.zeros(len(batch))
        choice[rows], mean[rows], std[rows] = found.batch.choice, found.mean, found.std
        valid[rows] = found.valid & in_shard(space, found.batch, collecting)
        return Scores(PointBatch(batch.sketch, choice), mean, std, valid)

    return score if collecting.shards == 1 else scored
