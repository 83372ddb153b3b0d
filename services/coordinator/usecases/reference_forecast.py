"""When a job that is slower than its reference is expected to be faster."""

from __future__ import annotations

from collections.abc import Callable

MAX_ROUNDS = 1 << 14
"""Rounds that are looked ahead."""


def rounds_to_pass(expected: Callable[[int], float | None], goal: float) -> int | None:
    """Fewest rounds, within an eighth of them, after which the model is expected to take ``goal`` seconds or less.

    Args:
        expected: seconds of the model after so many rounds, which never rise; None where that cannot be told.

    Returns:
        None where ``MAX_ROUNDS`` do not suffice.
    """

    def passed(rounds: int) -> bool:
        seconds = expected(rounds)
        return seconds is not None and seconds <= goal

    high = 1
    while not passed(high):
        high *= 2
        if high > MAX_ROUNDS:
            return None
    low = high // 2  # not enough
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return high
