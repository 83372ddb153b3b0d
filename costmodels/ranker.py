"""A forest on decision rows that corrects the static model: LambdaRank (Burges, 2010) in LightGBM.

The score of a program is the static model's, the negative logarithm to base two of its estimate, plus a correction.
Boosting starts from the static model's scores, so that trees learn only where that model ranks wrongly. The gain of a
program grows exponentially with the best latency of its workload over its own.

The data are cut into folds, and each member of the forest learns from all folds but one. So every program is judged
by a member that never saw it. By these judgements the correction gets its strength: where it does not rank better
than the static model, none at all, and the scores are exactly the static model's. Members' spread is the deviation.

After the forest of all families each family may have a small one that goes on from there. It counts for less where
its family has few programs, and for nothing where it does not help the programs that it did not see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import lightgbm
import numpy as np

from costmodels.base import CostModel, Features, Floats, Floats32, Guard, Ints, TrainingSet
from costmodels.metrics import peak_at_k
from tunesmith.analysis.rows import COLUMNS, FAMILY, PLACE, STATIC, VERSION
from tunesmith.names import RANKER
from tunesmith.space.base import Bools

FORMAT = 1
LEVELS = 32
"""Whole numbers that best latency over latency is rounded to."""
MAX_GROUP = 2048
"""Programs of a workload that are learned from at most."""
FEWEST = 16
"""Programs below which nothing is learned."""
SLICE = 10
"""Boosting rounds per entry of the guard."""
STRENGTHS = (0.25, 0.5, 1.0)
JUDGED_PROGRAMS = 10
"""Best ranked programs by which a correction is judged: a first batch measures as many."""
MARGIN = 0.005
"""What a correction must add to their peak score at least."""
DOUBT = 0.5
"""Standard errors of that gain over workloads which a gain must exceed, and which a weaker correction may lose."""

SHARED = {
    "objective": "lambdarank",
    "num_leaves": 15,
    "learning_rate": 0.1,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.7,
    "feature_pre_filter": False,
    "max_bin": 63,
    "label_gain": [2.0 ** (level / 4) - 1 for level in range(LEVELS)],
    "lambdarank_truncation_level": MAX_GROUP,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
OWN = {**SHARED, "num_leaves": 7, "min_data_in_leaf": 10}
"""Settings of a family's forest, which sees less."""


@dataclass(frozen=True)
class RankerOptions:
    """Settings of the forest.

    Attributes:
        folds: parts of the data, and members of the forest.
        rounds: trees of a member.
        family_rounds: trees that a family adds to it.
        shrinkage: programs of a family at which its own trees count half.
    """

    folds: int = 4
    rounds: int = 50
    family_rounds: int = 20
    shrinkage: float = 256.0


@dataclass
class _Forest:
    """Members by fold, None where one had nothing to learn from, and what their output is multiplied by."""

    members: list[lightgbm.Booster | None] = field(default_factory=list)
    weight: float = 0.0


class RankerModel(CostModel):
    """Ranks by the static model, and by what the forest adds to it; takes decision rows, one for each program."""

    kind: ClassVar[str] = RANKER
    rows: ClassVar[str] = VERSION
    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, seed: int = 0, options: RankerOptions = RankerOptions()) -> None:
        self.seed, self.options = seed, options
        self._shared, self._families = _Forest(), dict[int, _Forest]()
        self._fitted = False

    @property
    def strength(self) -> float:
        """How much of the correction counts: 0 is the static model alone."""
        return self._shared.weight

    def fit(self, data: TrainingSet, guard: Guard = nullcontext) -> None:
        """See :class:`CostModel`. Programs without an estimate of the static model are left out."""
        if not len(data) or not np.isfinite(data.latency).any():
            raise ValueError("there is no program with a valid latency to learn from")
        self._check(data.features)
        data = _usable(data, self.seed)
        self._shared, self._families, self._fitted = _Forest(), {}, True
        if len(data) < FEWEST or not np.isfinite(data.latency).any():
            return
        folds = _folds(data, self.options.folds, self.seed)
        base = _base(data.features.rows)
        shared = self._forest(data, base, folds, SHARED, self.options.rounds, guard)
        outside = _outside(shared, data.features.rows, folds)
        shared.weight = _strength(base, outside, data)
        if not shared.weight:
            return
        self._shared = shared
        family = data.features.rows[:, PLACE[FAMILY]].astype(np.int64)
        for number in np.unique(family).tolist():
            own = np.flatnonzero(family == number)
            if len(own) >= FEWEST:
                self._learn_family(number, data.take(own), folds[own], guard)

    def _learn_family(self, number: int, data: TrainingSet, folds: Ints, guard: Guard) -> None:
        rows, starts = data.features.rows, _base(data.features.rows)
        before = starts + self._shared.weight * _outside(self._shared, rows, folds)
        forest = self._forest(data, before, folds, OWN, self.options.family_rounds, guard)
        outside, share = _outside(forest, rows, folds), len(data) / (len(data) + self.options.shrinkage)
        gain, doubt = _gain(before, before + share * outside, data)
        if gain > max(MARGIN, doubt):
            forest.weight = share
            self._families[number] = forest

    def _forest(
        self, data: TrainingSet, start: Floats, folds: Ints, settings: dict[str, Any], rounds: int, guard: Guard
    ) -> _Forest:
        """A member for each fold, which learns from the others; ``start`` is the score that it goes on from."""
        out = _Forest()
        for fold in range(self.options.folds):
            index = np.flatnonzero(folds != fold)
            if not len(index) or len(index) == len(folds) or not np.isfinite(data.latency[index]).any():
                out.members.append(None)
                continue
            parameters = {**settings, "seed": self.seed + fold}
            with guard():
                booster = _start(data.take(index), start[index], parameters)
            for first in range(0, rounds, SLICE):
                with guard():
                    for _ in range(first, min(first + SLICE, rounds)):
                        booster.update()
            with guard():  # the text holds what rounding left: the model that is used is the one that is saved
                out.members.append(_parsed(booster.model_to_string(), len(self.columns)))
        return out

    def _check(self, features: Features) -> None:
        """Raises ValueError for what are not this model's rows."""
        if features.rows.shape[1] != len(self.columns):
            raise ValueError(
                f"the model takes {len(self.columns)} columns of {self.rows}, not {features.rows.shape[1]}"
            )
        if len(features.rows) != len(features):
            raise ValueError("the model takes one row for each program")

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        """See :class:`CostModel`; NaN for a program that the static model does not know."""
        if not self._fitted:
            raise ValueError("the model is not fitted")
        if not len(features):
            return np.zeros(0), np.zeros(0)
        self._check(features)
        rows = features.rows
        corrections = self._shared.weight * _each(self._shared, rows)
        family = rows[:, PLACE[FAMILY]].astype(np.int64)
        for number, forest in self._families.items():
            mine = np.flatnonzero(family == number)
            if len(mine):
                corrections[:, mine] += forest.weight * _each(forest, rows[mine])
        return _base(rows) + corrections.mean(axis=0), corrections.std(axis=0)

    def save(self) -> bytes:
        """See :class:`CostModel`: JSON with the members as LightGBM's text, and a checksum."""
        body = {
            "format": FORMAT,
            "kind": self.kind,
            "rows": self.rows,
            "seed": self.seed,
            "shared": _to_json(self._shared),
            "families": {str(number): _to_json(forest) for number, forest in self._families.items()},
        }
        text = json.dumps(body)
        return json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "model": body}).encode()

    @classmethod
    def load(cls, data: bytes) -> CostModel:
        """See :class:`CostModel`."""
        try:
            whole = json.loads(data)
            body = whole["model"]
            if (body["format"], body["kind"], body["rows"]) != (FORMAT, cls.kind, cls.rows):
                raise ValueError(f"format {body['format']} of {body['kind']} for rows {body['rows']}")
            if hashlib.sha256(json.dumps(body).encode()).hexdigest() != whole["sha256"]:
                raise ValueError("its checksum is another one")
            model = cls(seed=int(body["seed"]))
            model._shared = _from_json(body["shared"], len(cls.columns))
            model._families = {
                int(number): _from_json(each, len(cls.columns)) for number, each in body["families"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"there is no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"not a saved {cls.kind} of format {FORMAT} for rows {cls.rows}: {what}") from error
        model._fitted = True
        return model


def _base(rows: Floats32) -> Floats:
    """The static model's scores."""
    return -rows[:, PLACE[STATIC]].astype(np.float64)


def _usable(data: TrainingSet, seed: int) -> TrainingSet:
    """Programs that the static model knows, at most so many of a workload, sorted by workload."""
    rng, kept = np.random.default_rng(seed), []
    known = ~np.isnan(_base(data.features.rows))
    for group in np.unique(data.group):
        mine = np.flatnonzero((data.group == group) & known)
        kept.append(np.sort(rng.permutation(mine)[:MAX_GROUP]))
    return data.take(np.concatenate(kept))


def _folds(data: TrainingSet, folds: int, seed: int) -> Ints:
    """The fold of each program: whole workloads while each fold gets two, else programs at random."""
    rng = np.random.default_rng([seed, 1])
    groups, member = np.unique(data.group, return_inverse=True)
    if len(groups) >= 2 * folds:
        return (rng.permutation(len(groups)) % folds)[member].astype(np.int64)
    return (rng.permutation(len(data)) % folds).astype(np.int64)


def _start(data: TrainingSet, start: Floats, parameters: dict[str, Any]) -> lightgbm.Booster:
    counts = np.unique(data.group, return_counts=True)[1]
    relevance = np.round(data.labels() * (LEVELS - 1))
    rows = _inputs(data.features.rows)
    given = lightgbm.Dataset(rows, label=relevance, group=counts, init_score=start, params=parameters)
    return lightgbm.Booster(parameters, given)


def _inputs(rows: Floats32) -> Floats32:
    """What trees see of rows; in one piece, or LightGBM takes half as long again to read them."""
    return np.ascontiguousarray(rows[:, 1:])


def _margins(booster: lightgbm.Booster, inputs: Floats32) -> Floats:
    return np.asarray(booster.predict(inputs, raw_score=True, num_threads=1), dtype=np.float64)


def _each(forest: _Forest, rows: Floats32) -> Floats:
    """What each member says, float64 [members, n]; zeros of a member that never learned, and without any."""
    out = np.zeros((max(1, len(forest.members)), len(rows)))
    inputs = _inputs(rows)
    for at, booster in enumerate(forest.members):
        if booster is not None:
            out[at] = _margins(booster, inputs)
    return out


def _outside(forest: _Forest, rows: Floats32, folds: Ints) -> Floats:
    """What the member says of each program that never saw it, float64 [n]."""
    out = np.zeros(len(rows))
    for fold, booster in enumerate(forest.members):
        mine = np.flatnonzero(folds == fold)
        if booster is not None and len(mine):
            out[mine] = _margins(booster, _inputs(rows[mine]))
    return out


def _strength(base: Floats, outside: Floats, data: TrainingSet) -> float:
    """The smallest strength that ranks what was not seen about as well as the best one; 0 without a clear gain."""
    found = [_gain(base, base + each * outside, data) for each in STRENGTHS]
    most, doubt = max(found)
    if most <= max(MARGIN, doubt):
        return 0.0
    return next(each for each, (gain, _) in zip(STRENGTHS, found, strict=True) if gain >= most - doubt)


def _gain(before: Floats, after: Floats, data: TrainingSet) -> tuple[float, float]:
    """Peak score that is gained in the mean of the workloads, and its doubt."""
    gains = _gains(before, after, data)
    error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0
    return float(np.mean(gains)), DOUBT * error


def _gains(before: Floats, after: Floats, data: TrainingSet) -> Floats:
    """Peak score that is gained in each workload, float64 [workloads with a latency], at least one."""
    out = []
    for group in np.unique(data.group):
        mine: Bools = data.group == group
        old, new = (peak_at_k(scores[mine], data.latency[mine], JUDGED_PROGRAMS) for scores in (before, after))
        if old == old:
            out.append(new - old)
    return np.array(out or [0.0])


def _to_json(forest: _Forest) -> dict[str, Any]:
    members: Sequence[str | None] = [None if each is None else each.model_to_string() for each in forest.members]
    return {"weight": forest.weight, "members": members}


def _from_json(body: dict[str, Any], columns: int) -> _Forest:
    return _Forest(
        [None if each is None else _parsed(each, columns) for each in body["members"]], float(body["weight"])
    )


def _parsed(text: str, columns: int) -> lightgbm.Booster:
    """A forest on all of these columns but the first, the family's number.

    Raises:
        ValueError: it is none.
    """
    try:
        booster = lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot read it: {error}") from error
    if booster.num_feature() != columns - 1:
        raise ValueError(f"a forest of {booster.num_feature()} columns, not {columns - 1}")
    return booster
