"""Which rounds are for candidates that were proposed from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from snapshots import CLASS, job, task

from services.coordinator.scheduling.actions import MoveJob, OpenRound
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot
from tunesmith.proposals import places_for_proposals


def chosen(found: JobSnapshot) -> list[int]:
    actions = plan(Snapshot(jobs=(found,), slots={CLASS: 1}))
    return [action.task for action in actions if isinstance(action, OpenRound)]


@pytest.mark.parametrize(("share", "theirs"), [(0.25, 5), (0.5, 10), (1.0, 20), (0.1, 2)])
def test_a_task_with_proposals_has_its_share_of_the_rounds(share: float, theirs: int) -> None:
    known = {"rounds": 2, "history": (2.0, 1.0), "untuned": 3.0, "best": 1.0}
    dull = task(2, proposed=9, **{**known, "history": (1.0,) * 9})
    base = job(tasks=0, allocator="gradient", proposal_share=share, budget_trials=100000)
    numbered = (replace(base, tasks=(task(1, weight=99.0, **known), dull), next_number=n) for n in range(1, 21))
    assert [chosen(each)[0] for each in numbered].count(2) == theirs


def test_proposals_keep_an_exhausted_task_open_until_they_are_measured() -> None:
    over = job(tasks=0)
    spent = task(1, exhausted=True, rounds=3, history=(1.0,) * 3, best=1.0, untuned=2.0)
    ended = plan(Snapshot(jobs=(replace(over, tasks=(spent,)),), slots={CLASS: 1}))
    assert any(isinstance(each, MoveJob) for each in ended)
    waits = replace(over, tasks=(replace(spent, proposed=20),))
    assert chosen(waits) == [1]
    assert chosen(replace(waits, tasks=(replace(spent, proposed=20, proposing=True, in_flight=1),))) == []


def test_places_in_a_batch() -> None:
    assert [places_for_proposals(0.25, size) for size in (0, 1, 3, 4, 5, 16)] == [0, 1, 1, 1, 2, 4]
    assert [places_for_proposals(share, 16) for share in (0.0, 0.1, 0.5, 1.0)] == [0, 2, 8, 16]
