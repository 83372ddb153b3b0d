from __future__ import annotations

import contextlib

import pytest

from workers.tvm_backend.evaluate import ROUNDS, SAMPLES, SLOW_ROUNDS, WARM_SECONDS, interleave


class Model:
    """Each of its runs takes a second more than the one before, from ``seconds`` on: so runs can be told apart."""

    def __init__(self, seconds: float, log: list[tuple[str, int]], name: str) -> None:
        self.seconds, self._log, self._name, self._ran = seconds, log, name, 0

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
    assert log == [("untuned", 1), ("tuned", warm + each)] * ROUNDS
    assert len(untuned) == ROUNDS
    assert len(tuned) == ROUNDS * each
    assert tuned[:each] == pytest.approx([0.001 + warm + at for at in range(each)])  # what ran before does not count


def test_models_that_are_equally_fast_are_treated_alike() -> None:
    log, (untuned, tuned) = turns(0.001, 0.001, 60.0)
    assert {count for _, count in log} == {round(WARM_SECONDS / 0.001) + SAMPLES // ROUNDS}
    assert len(untuned) == len(tuned) == SAMPLES


def test_what_is_slow_is_run_less_often_and_not_to_warm_up() -> None:
    log, (untuned, tuned) = turns(9.0, 9.0, 20.0)
    assert log == [("untuned", 1), ("tuned", 1)] * SLOW_ROUNDS
    assert len(untuned) == len(tuned) == SLOW_ROUNDS
