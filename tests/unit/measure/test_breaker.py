"""When a device rests, for how long, and what wakes it."""

from __future__ import annotations

import math

import pytest

from workers.measure.breaker import Breaker, BreakerRules, Circuit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(BreakerRules(in_row=3, window=10, share=0.6, rest=15.0, longest=100.0), clock)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.failed("it was lost")


def test_failures_in_a_row_open_it(breaker: Breaker) -> None:
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert (breaker.circuit, breaker.reason) == (Circuit.CLOSED, "")
    fail(breaker, 1)
    assert breaker.circuit is Circuit.OPEN
    assert breaker.reason == "the device failed 3 times in a row, at last: it was lost; it rests for 15 s"
    assert breaker.left == 15.0


def test_many_failures_among_successes_open_it(breaker: Breaker) -> None:
    for _ in range(3):
        fail(breaker, 2)
        breaker.succeeded()
    assert breaker.circuit is Circuit.CLOSED
    fail(breaker, 1)
    assert breaker.circuit is Circuit.OPEN
    assert "7 of 10 times" in breaker.reason or "failed 1" not in breaker.reason


def test_a_rest_ends_with_one_trial_and_doubles_until_one_succeeds(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 3)
    for expected in (15.0, 30.0, 60.0, 100.0, 100.0):
        assert breaker.left == expected
        clock.now += expected
        assert (breaker.circuit, breaker.left) == (Circuit.HALF_OPEN, 0.0)
        fail(breaker, 1)
    clock.now += 100.0
    assert breaker.circuit is Circuit.HALF_OPEN
    breaker.succeeded()
    assert breaker.circuit is Circuit.CLOSED
    fail(breaker, 3)
    assert breaker.left == 15.0


def test_it_can_be_switched_off(clock: Clock) -> None:
    breaker = Breaker(BreakerRules(in_row=math.inf), clock)
    fail(breaker, 100)
    assert breaker.circuit is Circuit.CLOSED
