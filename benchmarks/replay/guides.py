"""What a ranker that learned elsewhere adds to searchers on recorded spaces, beside the static model alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.report import Report, Row
from benchmarks.replay.searchers import banded, budget_of
from benchmarks.replay.static import opened
from costmodels.base import CostModel, Features
from costmodels.registry import load_cost_model
from tunesmith.errors import InvalidInput
from tunesmith.names import FLOAT32
from tunesmith.names import RANKER as KIND
from tunesmith.search.base import Prior
from tunesmith.search.construction import ranks
from tunesmith.search.registry import make_searcher
from tunesmith.search.turns import Turns
from tunesmith.space.base import Floats, PointBatch, Scores
from tunesmith.testing import score
from tunesmith.testing.replay import Recording, replay

STATIC, SCORED = "static model", "static model, scored"
RANKER, RANKER_SCORED, IN_TURN = "ranker", "ranker, scored", "both in turn"
BESIDE = {RANKER: STATIC, IN_TURN: STATIC, RANKER_SCORED: SCORED}
"""What a guide by the ranker is held against: a searcher that the static model tells the same."""
GUIDES = tuple(dict.fromkeys((*BESIDE.values(), *BESIDE)))
"""What a searcher is told: estimates to begin with, or these as scores of all that it looks at, too."""


@dataclass(frozen=True)
class Guided:
    """A recorded space, and what is estimated of each of its points.

    Attributes:
        static, ranker: seconds, float64 [size]; infinity where a point is refused, NaN where nothing is known.
    """

    recording: Recording
    static: Floats
    ranker: Floats

    def seconds(self, guide: str) -> Floats:
        """What a guide estimates."""
        return self.ranker if guide in BESIDE else self.static

    def prior(self, guide: str) -> Prior:
        """What a searcher begins with."""
        if guide == IN_TURN:
            return Turns(self._looked_up(self.static), self._looked_up(self.ranker))
        return self._looked_up(self.seconds(guide))

    def _looked_up(self, seconds: Floats) -> Prior:
        def prior(points: PointBatch) -> Floats:
            out: Floats = seconds[self.recording.space.keys(points)]
            return out

        return prior


def ranker_in(file: Path) -> CostModel:
    """A saved ranker.

    Raises:
        InvalidInput: there is none in the file that this version reads.
    """
    try:
        return load_cost_model(KIND, file.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file.name} holds no ranker: {error}", field="ranker", value=file.name) from error


def guided(recording: Recording, model: CostModel) -> Guided | None:
    """Estimate every point; None as for :func:`benchmarks.replay.static.opened`."""
    found = opened(recording)
    if found is None:
        return None
    prior, family = found
    every = recording.space.at(np.arange(recording.space.size))
    static = prior(every)
    rows = prior.rows(every, family, FLOAT32)
    scores, _ = model.predict(Features(rows, np.arange(len(rows) + 1)))
    return Guided(recording, static, np.where(np.isfinite(static), np.exp2(-scores), static))


@dataclass(frozen=True)
class GuidedRuns:
    """P of a searcher's runs on one space, by guide: float64 [seeds]."""

    name: str
    searcher: str
    found: dict[str, Floats]


def run(space: Guided, searcher: str, seeds: Sequence[int], batch: int) -> GuidedRuns:
    """A replay for each guide and seed, up to the end of the space's budget."""
    recording, budget = space.recording, budget_of(space.recording)
    latency = recording.seconds[recording.points]
    found = {}
    for guide in GUIDES:
        curves = [_replayed(space, guide, searcher, seed, budget, batch) for seed in seeds]
        found[guide] = score.score(np.stack(curves), latency).mean(axis=1)
    return GuidedRuns(recording.name, searcher, found)


def _replayed(space: Guided, guide: str, searcher: str, seed: int, budget: int, batch: int) -> Floats:
    recording, seconds = space.recording, space.seconds(guide)
    mean = -ranks(np.where(np.isfinite(seconds), np.log2(seconds), np.nan))  # as the service scores: unknown is average

    def scored(points: PointBatch) -> Scores:
        return recording.scored(points, mean)

    made = make_searcher(searcher, recording.space, seed)
    known = scored if guide in (SCORED, RANKER_SCORED) else None
    return replay(made, recording, budget=budget, batch=batch, score=known, prior=space.prior(guide), seed=seed)


def report(outcomes: Sequence[GuidedRuns], setup: dict[str, str]) -> Report:
    """One line per searcher and guide, with what the ranker gains over it."""
    names = list(dict.fromkeys(each.searcher for each in outcomes))
    rows = [_row(name, guide, [o for o in outcomes if o.searcher == name]) for name in names for guide in GUIDES]
    spaces, seeds = len({o.name for o in outcomes}), len(outcomes[0].found[STATIC])
    summary = (
        f"Searchers on {spaces} recorded spaces, {seeds} seeds each, guided by estimates from the first batch on.\n\n"
        "- P is the score of Willemsen et al., see [searchers, replayed](#searchers-replayed).\n"
        "- The gain is the ranker's P less that of the static model which tells the searcher the same, paired by space "
        "and seed; its band is a 95 % bootstrap over spaces, and over seeds within them; `here`: over seeds alone, for "
        "these spaces. The ranker learned from other workloads.\n"
        "- `both in turn`: each has every other place of the first batch, as in the service's jobs.\n"
        "- `scored`: the estimates are also the scores of all points that the searcher looks at."
    )
    return Report.of("replay-guides", "Guided searchers, replayed", summary, rows, setup)


def _row(searcher: str, guide: str, mine: Sequence[GuidedRuns]) -> Row:
    own = np.stack([each.found[guide] for each in mine])
    beside = BESIDE.get(guide)
    gain = None if beside is None else own - np.stack([each.found[beside] for each in mine])
    band = None if gain is None else score.bootstrap(gain, spaces_too=True)
    here = None if gain is None else score.bootstrap(gain)
    return {
        "searcher": searcher,
        "guide": guide,
        **banded("P", score.bootstrap(own)),
        "gain": band and round(band.mean, 4),
        "gain from": band and round(band.low, 4),
        "gain to": band and round(band.high, 4),
        "here from": here and round(here.low, 4),
        "here to": here and round(here.high, 4),
        "spaces where it gains": None if gain is None else f"{int((gain.mean(axis=1) > 0).sum())} of {len(mine)}",
    }
