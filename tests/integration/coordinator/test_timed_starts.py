"""Jobs with a budget of seconds, which begin with a schedule of each task."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from api_driver import GEMM, Api

from benchmarks.starts.tuned import history_of
from tunesmith.answers.jobs import TaskBody
from tunesmith.messages import MeasureBatch
from tunesmith.states import JobState
from tunesmith.types import Candidate

pytestmark = pytest.mark.parallel


def test_a_timed_job_begins_with_schedules_that_its_first_rounds_measure(both: Api) -> None:
    both.fleet.register_device()
    both.fleet.answers, both.fleet.rough = True, 1.5
    both.fleet.points = 20
    body = {**GEMM, "budget": {"seconds": 600}, "allocator": "bandit"}
    job_id = both.client.post("/v1/jobs", json=body).json()["id"]
    asked: dict[str, MeasureBatch] = {}
    first_log = None
    while both.state(job_id) is not JobState.SUCCEEDED:
        both.loop.step()
        for sent in both.broker.take():
            if isinstance(sent.message, MeasureBatch):
                asked.setdefault(sent.message.workload, sent.message)
                if first_log is None:
                    first_log = both.client.get(f"/v1/jobs/{job_id}/best")
            both.fleet.do(sent.message)
    assert first_log is not None
    lines = [json.loads(line) for line in first_log.text.splitlines()]
    assert [line["provenance"]["source"] for line in lines] == ["estimated"] * 3, "before anything was measured"
    assert [len(message.candidates) for message in asked.values()] == [2] * 3, "the default schedule, and that one"
    assert all(not message.defaults for message in asked.values())
    rounds = both.client.get(f"/v1/jobs/{job_id}/rounds").json()["items"]
    assert [row["size"] for row in rounds[:3]] == [1] * 3
    assert len({row["task"] for row in rounds[:3]}) == 3


def test_what_a_job_had_when_is_told_by_its_trials(api: Api) -> None:
    """As ``tunesmith bench starts`` reads it."""
    api.fleet.register_device()
    api.fleet.answers, api.fleet.failing, api.fleet.points = True, 0.0, 20
    job_id = api.client.post("/v1/jobs", json={**GEMM, "budget": {"seconds": 600}, "allocator": "bandit"}).json()["id"]
    api.work(lambda: api.state(job_id) is JobState.SUCCEEDED)
    job, tasks, trials = (
        api.client.get(f"/v1/jobs/{job_id}{path}").json() for path in ("", "/tasks", "/trials?limit=200")
    )
    began = dt.datetime.fromisoformat(job["started_at"])
    for task in map(TaskBody.read, tasks["items"]):
        own = [trial for trial in trials["items"] if trial["task"] == task.id]
        found = history_of(task, own, began)
        assert found.given == Candidate(own[1]["sketch"], tuple(own[1]["decisions"]))
        assert (found.workload, found.default) == (task.workload, task.untuned_latency)
        assert found.champions[-1].latency == task.best_latency
        assert [each.at for each in found.champions] == sorted(each.at for each in found.champions)
        assert history_of(task, own[2:], began).given is None, "a larger first batch"
