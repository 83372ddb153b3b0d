"""Kinds of events, and the objects that are stored of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from tunesmith import events
from tunesmith.event_kinds import EventKind
from tunesmith.events import EventData
from tunesmith.states import NOUNS, can_move

pytestmark = pytest.mark.parallel


def test_every_kind_has_one_class_or_is_a_change_of_state() -> None:
    own = Counter(said.kind for said in EventData.__subclasses__() if "kind" in vars(said))
    changes = {f"{noun}_{new.value}" for noun, states in NOUNS.items() for new in states}
    retried = {f"{noun}_retried" for noun in NOUNS}
    assert set(own.values()) == {1}
    named = {kind.value for kind in own} | changes | retried | {EventKind.ROUND_FINISHED.value}
    assert {kind.value for kind in EventKind} <= named
    for noun, states in NOUNS.items():
        for new in states:
            if any(can_move(old, new) for old in states):
                assert events.kind_of(noun, new.value).value == f"{noun}_{new.value}"


def test_a_change_of_state_says_what_its_step_knows() -> None:
    said = events.StateChanged(
        events.kind_of("model", "rejected"), "m-1", "O2", "importing", "rejected", {"problem": {}}
    )
    assert said.to_json() == {"id": "m-1", "preparation": "O2", "from": "importing", "to": "rejected", "problem": {}}
    of_a_job = events.StateChanged(events.kind_of("job", "paused"), "j-1", None, "running", "paused")
    assert of_a_job.to_json() == {"id": "j-1", "from": "running", "to": "paused"}


def test_members_without_a_value_are_null_unless_they_are_optional() -> None:
    assert events.TaskExhausted(1, "conv").to_json() == {"task": 1, "name": "conv"}
    health = events.DeviceHealthChanged("cpu", "ok", "resting", None).to_json()
    assert health == {"name": "cpu", "from": "ok", "to": "resting", "drift": None}
    assert events.JobChanged("j-1", {"priority": 2, "budget_seconds": None}).to_json() == {
        "id": "j-1",
        "priority": 2,
        "budget_seconds": None,
    }


def test_every_member_has_a_name_of_its_own() -> None:
    for said in EventData.__subclasses__():
        names = [events.member(each) for each in fields(said)]
        assert len(names) == len(set(names))
