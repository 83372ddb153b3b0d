"""What coordinator and workers share is set in one class."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from services.coordinator.settings import Settings as CoordinatorSettings
from tunesmith.settings import SharedSettings
from workers.settings import Settings as WorkerSettings

pytestmark = pytest.mark.parallel


def test_neither_side_restates_what_both_share() -> None:
    sides = [set(inspect.get_annotations(side)) for side in (CoordinatorSettings, WorkerSettings)]
    for own in sides:
        assert own.isdisjoint(SharedSettings.model_fields)
    # The same variables, which mean another thing on the other side.
    assert sides[0] & sides[1] == {"coordinator_url", "enrolment_key"}


@pytest.mark.parametrize("side", [CoordinatorSettings, WorkerSettings])
def test_both_sides_read_the_same_variables_alike(
    side: type[SharedSettings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TUNESMITH_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TUNESMITH_BLOB_DIR", "")
    monkeypatch.setenv("TUNESMITH_MAX_ATTEMPTS", "7")
    settings = side()
    assert (settings.blobs(), settings.max_attempts) == (tmp_path / "blobs", 7)


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNESMITH_REFERENCES", " onnxruntime, ,torch ")
    monkeypatch.setenv("TUNESMITH_UNAVAILABLE", "ppo,")
    assert WorkerSettings().references == ("onnxruntime", "torch")
    assert CoordinatorSettings().unavailable == ("ppo",)
