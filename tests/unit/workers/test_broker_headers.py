"""Headers of a message that Celery would stumble over once it has taken a place in its pool."""

from __future__ import annotations

from typing import Any

import pytest

from tunesmith.messages import TRAIN
from workers.broker import foreign

pytestmark = pytest.mark.parallel
SENT: dict[str, Any] = {
    "lang": "py",
    "task": "tunesmith.train",
    "id": "one",
    "shadow": None,
    "group": None,
    "root_id": "one",
    "parent_id": None,
    "argsrepr": "",
    "kwargsrepr": "",
    "origin": "gen1@host",
    "retries": 0,
    "timelimit": [None, None],
    "eta": None,
    "expires": None,
}


def test_what_celery_sends() -> None:
    assert foreign(SENT, TRAIN) == ""


@pytest.mark.parametrize("name", ["shadow", "root_id", "parent_id", "group", "origin", "argsrepr"])
@pytest.mark.parametrize("value", [[1], {}, 5])
def test_names_that_are_no_texts(name: str, value: object) -> None:
    assert foreign({**SENT, name: value}, TRAIN) == f"its {name} is no text"


@pytest.mark.parametrize("name", ["eta", "expires"])
def test_times_that_a_worker_would_wait_for(name: str) -> None:
    assert name in foreign({**SENT, name: "2999-01-01T00:00:00+00:00"}, TRAIN)
