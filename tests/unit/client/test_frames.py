"""Trials as a table, figures, and what notebooks show of answers."""

from __future__ import annotations

import asyncio
import math

import httpx2
import pytest
from answers import whole

from tunesmith.answers.jobs import JobBody, TrialBody
from tunesmith.client import AsyncClient, Client, frames
from tunesmith.errors import MissingDependency

TRIALS = [(1, 7, 3e-3), (2, 7, None), (3, 8, 5e-3), (4, 7, 1e-3), (5, 7, 2e-3)]
POINTS = [{"trials": n, "seconds": 1.0, "device_seconds": 0.1, "latency": 1e-3 / n} for n in (1, 2)]


def answer(request):
    if request.url.path.endswith("/curve"):
        curve = {"untuned": 2e-3, "tasks": 1, "tasks_measured": 1, "points": POINTS}
        return httpx2.Response(200, json=curve)
    first = "cursor" not in request.url.params
    items = [
        whole(TrialBody, {"id": i, "task": task, "task_name": f"t{task}", "latency": latency, "interval": [1e-3, 2e-3]})
        for i, task, latency in (TRIALS[:3] if first else TRIALS[3:])
    ]
    return httpx2.Response(200, json={"items": items, "next_cursor": "3" if first else None})


@pytest.fixture
def client():
    with Client("http://server", transport=httpx2.MockTransport(answer)) as made:
        yield made


def test_trials_are_a_table(client):
    table = client.trials_dataframe("j1")
    assert list(table.index) == [1, 2, 3, 4, 5]
    assert {"task", "task_name", "sketch", "decisions", "latency", "low", "high", "best", "created_at"} < set(table)
    assert math.isnan(table.latency[2])
    assert list(table[table.task == 7].best.dropna()) == [3e-3, 1e-3, 1e-3]
    assert str(table.created_at.dtype).endswith("UTC]")
    assert list(frames.trials_frame([]).columns) == list(table.columns)

    async def same():
        async with AsyncClient("http://server", transport=httpx2.MockTransport(answer)) as other:
            return await other.trials_dataframe("j1")

    assert asyncio.run(same()).equals(table)


def test_jobs_are_drawn(client):
    (axes,) = client.plot_trials("j1").axes
    assert [dots.get_label() for dots in axes.collections] == ["t7", "t8"]
    assert axes.figure._repr_png_().startswith(b"\x89PNG")
    assert [len(dots.get_offsets()) for dots in axes.collections] == [3, 1]
    (axes,) = client.plot_curve("j1").axes
    assert list(axes.lines[0].get_ydata()) == [1.0, 0.5]


@pytest.mark.parametrize(("name", "library"), [("trials_dataframe", "pandas"), ("plot_trials", "matplotlib")])
def test_the_extra_is_named(monkeypatch, client, name, library):
    def missing(module):
        raise ModuleNotFoundError(module, name=library)

    monkeypatch.setattr(frames.importlib, "import_module", missing)
    with pytest.raises(MissingDependency, match=rf"needs {library}.*\[notebook\]") as caught:
        getattr(client, name)("j1")
    assert caught.value.extra["extra"] == "notebook"


def test_notebooks_show_jobs_and_no_foreign_markup():
    job = JobBody.read(whole(JobBody, {"id": "j1", "name": "<script>alert(1)</script>", "latency": {"current": 2e-3}}))
    shown = job._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "2 ms" in shown
