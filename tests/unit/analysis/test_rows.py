"""Decision rows: one width for everything, the same in every company, and honest about what is not known."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
from marked_nests import AVX512, marked

from tunesmith.analysis.model import Costs
from tunesmith.analysis.rows import (
    COLUMNS,
    FAMILIES,
    FAMILY,
    PLACE,
    STATIC,
    VERSION,
    Subject,
    decision_rows,
    family_number,
    unknown_rows,
)
from tunesmith.space.base import Sketch
from tunesmith.space.space import Space
from tunesmith.testing.replay import Subset

NEST, KNOBS = marked()
SUBJECT = Subject("matmul", "bf16", KNOBS, {"Split": 3, "Reorder": 1, "GetLoops": 9}, 1.5)
CHOICE = Space([Sketch("s", KNOBS)]).sample(np.random.default_rng(0), 40).choice
COSTS = Costs(NEST, KNOBS, CHOICE, AVX512)
ROWS = decision_rows(COSTS, SUBJECT)


def column(name: str) -> np.ndarray:
    found: np.ndarray = ROWS[:, PLACE[name]]
    return found


def test_other_columns_need_another_version() -> None:
    digest = hashlib.sha256(" ".join(COLUMNS).encode()).hexdigest()[:16]
    assert {VERSION: digest} == {"decisions/8": "84fba0ad0067e50f"}


def test_rows_do_not_depend_on_the_company() -> None:
    assert ROWS.dtype == np.float32
    assert ROWS.shape == (40, len(COLUMNS)) == (40, len(set(COLUMNS)))
    for size in (1, 3, 17):
        for start in range(0, 40, size):
            some = decision_rows(Costs(NEST, KNOBS, CHOICE[start : start + size], AVX512), SUBJECT)
            assert np.array_equal(some, ROWS[start : start + size], equal_nan=True)


def test_rows_say_what_was_decided_and_estimated() -> None:
    assert np.allclose(column("tile.0.0") + column("tile.0.1"), 4)
    assert np.allclose(2 ** column("tile.1.1"), KNOBS[1].values(CHOICE[:, 1])[:, 1])
    assert np.allclose(column("category.0"), np.log2(1 + np.array([0, 16]))[CHOICE[:, 2]]), "what the choice stands for"
    assert np.allclose(column(STATIC), np.log2(1.5 * COSTS.seconds()), rtol=1e-6)
    assert (column("primitive.Split") == 3).all()
    assert (column("primitive.Fuse") == 0).all()
    assert (column("precision.bf16") == 1).all()
    assert (column("precision.int8") == 0).all()
    assert np.allclose(column("loop.2"), 2), "the reduction"
    assert np.isnan(column("loop.5")).all()
    assert (column(FAMILY) == family_number("matmul")).all()
    shares = [column(f"static.{name}") for name in ("compute", "forks")]
    assert all(((share >= 0) & (share <= 1)).all() for share in shares)


def test_choices_of_part_of_a_knob_are_described_as_the_knobs() -> None:
    some = tuple(Subset(knob, (0, knob.size - 1)) for knob in KNOBS)
    small = np.array([[0, 1, 1], [1, 0, 0]])
    large = np.stack([np.array(knob.choices)[small[:, at]] for at, knob in enumerate(some)], axis=1)
    mine = decision_rows(Costs(NEST, some, small, AVX512), dataclasses.replace(SUBJECT, knobs=some))
    assert np.array_equal(mine, decision_rows(Costs(NEST, KNOBS, large, AVX512), SUBJECT), equal_nan=True)


def test_without_a_nest_only_decisions_device_and_sketch_are_known() -> None:
    rows = unknown_rows(SUBJECT, AVX512, CHOICE)
    known = {COLUMNS[at].split(".")[0].rstrip("0123456789") for at in np.flatnonzero(~np.isnan(rows).all(axis=0))}
    assert known == {"family", "device", "precision", "primitive", "tile", "category"}
    assert np.array_equal(rows[:, PLACE["tile.0.0"]], column("tile.0.0"))


def test_families_have_whole_numbers_that_float32_holds() -> None:
    numbers = [family_number(name) for name in ("conv2d", "matmul", "softmax", "")]
    assert len(set(numbers)) == 4
    assert all(0 <= number < FAMILIES and int(np.float32(number)) == number for number in numbers)
