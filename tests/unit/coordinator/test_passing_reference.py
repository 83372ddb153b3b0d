"""After how much more tuning a job is expected to pass its reference."""

from __future__ import annotations

import pytest

from db.models import Evaluation
from services.coordinator.usecases.forecast import seconds_until_passing
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.table import Table
from tunesmith.messages import ReferenceTiming
from tunesmith.states import WorkState


def evaluation(ratio: float) -> Evaluation:
    """A model that takes 10 ms, ``ratio`` times as long as with another runtime."""
    timing = ReferenceTiming(runtime="onnxruntime", samples=[0.01 / ratio] * 9)
    return Evaluation(state=WorkState.DONE, tuned_samples=[0.01] * 9, references=[timing.model_dump(mode="json")])


def tasks(untuned: float = 4e-3, count: int = 6) -> Table:
    """Half of them were tuned for three rounds, the others run their default schedules."""
    views = [
        TaskView(
            number,
            weight=1.0,
            flops=1e9,
            family=f"f{number % 3}",
            untuned=untuned,
            history=(3e-3, 1.5e-3, 1e-3) if number % 2 else (),
        )
        for number in range(count)
    ]
    return Table.of(views)


def test_it_takes_longer_the_further_it_is() -> None:
    found = [seconds_until_passing(tasks(), evaluation(ratio), 9, 90.0) for ratio in (1.1, 1.3, 2.0)]
    assert all(seconds is not None for seconds in found), found
    assert found == sorted(found, key=lambda seconds: seconds or 0.0)
    assert found[0] is not None
    assert found[0] >= 10.0, "a round takes ten seconds"


@pytest.mark.parametrize("ratio", [0.7, 1.0])
def test_what_is_not_slower_has_nothing_to_pass(ratio: float) -> None:
    assert seconds_until_passing(tasks(), evaluation(ratio), 9, 90.0) is None


def test_what_cannot_be_told_is_not_told() -> None:
    assert seconds_until_passing(tasks(), evaluation(1e4), 9, 90.0) is None, (
        "no number of rounds makes it ten thousand times faster"
    )
    assert seconds_until_passing(tasks(), evaluation(1.3), 0, 90.0) is None
    assert seconds_until_passing(tasks(), None, 9, 90.0) is None
    assert seconds_until_passing(Table.of([]), evaluation(1.3), 9, 90.0) is None
