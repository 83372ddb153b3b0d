from __future__ import annotations

import contextlib

import pytest

from tunesmith.measuring.ratio import PLACEMENTS
from workers.tvm_backend.run.compare_models import ROUNDS, SAMPLES, SLOW_ROUNDS, WARM_SECONDS, interleave

LEFT, PLACED = -1, 0
"""Stand in the log of runs for a model whose buffers were given back, and that was set up anew."""


class Model:
    """Each of its runs takes a second more than the one before, from ``seconds`` on: so runs can be told apart."""

    def __init__(self, seconds: float, log: list[tuple[str, int]], name: str) -> None:
        self.seconds, self._log, self._name, self._ran = seconds, log, name, 0

    def leave(self) -> None:
        self._log.append((self._name, LEFT))

    def place(self) -> None:
        self._log.append((self._name, PLACED))

    def time(self, count: int) -> list[float]:
        self._log.append((self._name, count))
        self._ran += count
        return [self.seconds + ran for ran in range(self._ran - count, self._ran)]


def turns(untuned: float, tuned: float, seconds: float) -> tuple[list[tuple[str, int]], list[list[float]]]:
    log: list[tuple[str, int]] = []
    found = interleave(Model(untuned, log, "untuned"), Model(tuned, log, "tuned"), seconds, contextlib.nullcontext)
    return log, found


def test_the_tuned_model_warms_up_in_each_turn() -> None:
    log, (untuned, tuned) = turns(2.5, 0.001, 60.0)
    warm, each = round(WARM_SECONDS / 0.001), SAMPLES // ROUNDS
    assert log[:2] == [("untuned", 1), ("tuned", warm + each)]
    assert [entry for entry in log if entry[1] > PLACED].count(("tuned", warm + each)) == ROUNDS
    assert len(untuned) == ROUNDS
    assert len(tuned) == ROUNDS * each
    assert tuned[:each] == pytest.approx([0.001 + warm + at for at in range(each)])  # what ran before does not count


def test_each_model_has_several_places_and_comes_first_in_turn() -> None:
    log, _ = turns(0.1, 0.1, 60.0)
    began = [at for at, entry in enumerate(log) if entry[1] == LEFT][::2]
    places = [log[at:next_] for at, next_ in zip([0, *began], [*began, len(log)], strict=True)]
    assert len(places) == PLACEMENTS
    for number, place in enumerate(places):
        order = ["untuned", "tuned"] if number % 2 == 0 else ["tuned", "untuned"]
        assert [name for name, _ in place] == order * (2 * (number > 0) + ROUNDS // PLACEMENTS)
        assert [count for _, count in place if count <= PLACED] == ([LEFT] * 2 + [PLACED] * 2 if number else [])


def test_models_that_are_equally_fast_are_treated_alike() -> None:
    log, (untuned, tuned) = turns(0.001, 0.001, 60.0)
    assert {count for _, count in log} == {LEFT, PLACED, round(WARM_SECONDS / 0.001) + SAMPLES // ROUNDS}
    assert len(untuned) == len(tuned) == SAMPLES


def test_a_very_quick_model_warms_up_no_longer_than_another() -> None:
    """Its samples are means over many runs."""
    log, _ = turns(1e-6, 0.001, 60.0)
    assert len({count for _, count in log} - {LEFT, PLACED}) == 1


def test_what_is_slow_is_run_less_often_and_not_to_warm_up() -> None:
    log, (untuned, tuned) = turns(9.0, 9.0, 20.0)
    assert log == [("untuned", 1), ("tuned", 1)] * SLOW_ROUNDS
    assert len(untuned) == len(tuned) == SLOW_ROUNDS
