from __future__ import annotations

import pytest

from services.coordinator.usecases.forecast import MAX_ROUNDS, rounds_to_pass


@pytest.mark.parametrize("needed", [1, 2, 3, 7, 8, 40, 1000])
def test_the_fewest_rounds_within_an_eighth(needed: int) -> None:
    asked: list[int] = []

    def expected(rounds: int) -> float:
        asked.append(rounds)
        return 1.0 / rounds

    found = rounds_to_pass(expected, 1.0 / needed)
    assert found is not None
    assert needed <= found <= max(needed, 1.2 * needed)
    assert len(asked) < 20


def test_what_is_never_reached_or_cannot_be_told() -> None:
    assert rounds_to_pass(lambda _: 1.0, 0.9) is None
    assert rounds_to_pass(lambda _: None, 0.9) is None
    assert rounds_to_pass(lambda rounds: 1.0 / rounds, 0.5 / MAX_ROUNDS) is None
