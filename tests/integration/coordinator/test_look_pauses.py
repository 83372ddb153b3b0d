"""How often the scheduling loop looks at everything while nothing happens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from api_driver import GEMM, Api

from services.coordinator.scheduling import loop as module

pytestmark = pytest.mark.parallel


def looks(api: Api, monkeypatch: pytest.MonkeyPatch, took: float, until: float) -> list[float]:
    """When looks began that take ``took`` seconds each, of a loop that ticks ten times a second."""
    clock, begun = [0.0], []

    def step() -> None:
        begun.append(clock[0])
        clock[0] += took

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(api.loop, "step", step)
    while clock[0] < until:
        api.loop.tick()
        clock[0] += 0.1
    return begun


@pytest.mark.parametrize(("took", "pause"), [(0.01, 1.0), (0.8, 4.0), (60.0, 60.1)])
def test_looks_that_take_long_are_rare_but_never_far_apart(
    api: Api, monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    first, second, third, *_ = looks(api, monkeypatch, took, 3 * pause + 2 * took)
    assert second - first == pytest.approx(pause, abs=0.2)
    assert third - second == pytest.approx(pause, abs=0.2)


def test_what_happens_is_looked_at_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(api, monkeypatch, 0.8, 1.5) == [0.0]
    api.client.post("/v1/jobs", json=GEMM)
    assert len(looks(api, monkeypatch, 0.8, 0.5)) == 1
