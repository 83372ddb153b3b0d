"""A job whose tasks an earlier job tuned begins at that job's quality, says so, and goes on from there."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from api_driver import GEMM, Api
from fake_fleet import TARGET

from db.models import Event, JobTask, Schedule
from db.queries import champions
from tunesmith.messages import MeasureBatch
from tunesmith.states import JobState
from tunesmith.types import CacheState

pytestmark = pytest.mark.parallel


def begin(api: Api, **values: Any) -> str:
    """A job that is running, with nothing measured."""
    job_id: str = api.client.post("/v1/jobs", json={**GEMM, "verify": False, **values}).json()["id"]
    api.work(lambda: api.state(job_id) is JobState.RUNNING)
    return job_id


def get(api: Api, job_id: str, what: str = "") -> Any:
    return api.client.get(f"/v1/jobs/{job_id}{what}").json()


def tasks(api: Api, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(api, job_id, "/tasks")["items"]
    return found


def test_a_second_job_begins_at_the_first_ones_quality(both: Api) -> None:
    first = both.finished_job(verify=False)
    done = get(both, first)["latency"]
    second = begin(both)
    body, curve = get(both, second), get(both, second, "/curve")
    assert body["progress"]["trials"] == 0
    assert (body["progress"]["tasks_measured"], curve["tasks_measured"]) == (3, 3)
    assert [body["latency"][name] for name in ("untuned", "current")] == pytest.approx(
        [done["untuned"], done["current"]]
    )
    (point,) = curve["points"]
    assert (point["seconds"], point["trials"], point["latency"]) == (0.0, 0, pytest.approx(done["current"]))
    assert curve["untuned"] == pytest.approx(done["untuned"])
    for mine, theirs in zip(tasks(both, second), tasks(both, first), strict=True):
        assert mine["known_latency"] == mine["best_latency"] == theirs["best_latency"]
        assert mine["untuned_latency"] == theirs["untuned_latency"]
    assert [event_["known"] for event_ in events(both, second, "job_running")] == [3]


def test_it_goes_on_from_there(api: Api) -> None:
    first = get(api, api.finished_job(verify=False))["latency"]["current"]
    second = api.finished_job(verify=False, budget={"trials": 100})
    curve = [point["latency"] for point in get(api, second, "/curve")["points"]]
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == pytest.approx(first)
    assert get(api, second)["latency"]["current"] == pytest.approx(curve[-1])
    assert sum(task["trials"] for task in tasks(api, second)) == 100
    assert get(api, second, "/forecast")["current"] == pytest.approx(curve[-1])


def test_the_champion_stands_beside_the_first_batch(api: Api) -> None:
    left = {task["workload"]: task["best_latency"] for task in tasks(api, api.finished_job(verify=False))}
    begin(api)
    sent = []
    for _ in range(20):
        api.loop.step()
        for each in api.broker.take():
            sent += [each.message] if isinstance(each.message, MeasureBatch) else []
            api.fleet.do(each.message)
    first = sent[0]
    assert first.champion is not None
    assert first.champion.sketch in first.sketches
    assert first.incumbent_seconds == left[first.workload]


@pytest.mark.parametrize("why", ["cold", "simulated", "another state of the caches", "another space"])
def test_a_job_does_not_begin_with_what_is_not_its_own(api: Api, why: str) -> None:
    first = api.finished_job(verify=False)
    with api.context.sessions.begin() as session:
        changed = {"simulated": {"simulated": True}, "another state of the caches": {"cache": other(session, first)}}
        if why in changed:
            session.execute(sa.update(Schedule).values(**changed[why]))
        if why == "another space":
            session.execute(sa.text("UPDATE records SET sketch_hash = NULL"))
    second = begin(api, warm_start=why != "cold")
    found = {task["known_latency"] for task in tasks(api, second)[1:]}
    assert found == {None}
    assert {task["best_latency"] for task in tasks(api, second)[1:]} == {None}


def other(session: Any, job_id: str) -> str:
    """The state of the caches in which none of the later tasks was measured."""
    workloads = session.scalars(sa.select(JobTask.workload_hash).where(JobTask.job_id == job_id)).all()
    found = champions.of_workloads(session, dict.fromkeys(workloads, CacheState.WARM), TARGET.hash)
    assert {found[key].cache for key in workloads[1:]} == {CacheState.WARM.value}
    return CacheState.STREAMED.value


def test_tasks_that_are_new_come_first(api: Api) -> None:
    api.fleet.tasks = 3
    first = api.finished_job(verify=False)
    last = tasks(api, first)[2]["workload"]
    with api.context.sessions.begin() as session:
        session.execute(sa.delete(Schedule).where(Schedule.workload_hash == last))
    second = begin(api)
    api.work(lambda: bool(get(api, second, "/decisions")["items"]))
    decided = get(api, second, "/decisions")["items"][0]
    assert decided["task"] == tasks(api, second)[2]["id"]


def test_jobs_that_tune_the_same_share_what_they_find(both: Api) -> None:
    both.fleet.register_device()
    first, second = (begin(both, budget={"trials": 60}, allocator=name) for name in ("gradient", "bandit"))
    both.work(lambda: any(events(both, job, "champion_adopted") for job in (first, second)))
    assert_foretold_from_where_it_stands(both, first, second)
    both.work(lambda: {both.state(job) for job in (first, second)} == {JobState.SUCCEEDED})
    both.loop.step()
    assert_foretold_from_where_it_stands(both, first, second)
    adopted = [event for job in (first, second) for event in events(both, job, "champion_adopted")]
    assert {event["found_by"] for event in adopted} <= {first, second}
    assert adopted
    assert all(event["before"] is None or event["seconds"] < event["before"] for event in adopted)
    for job in (first, second):
        line = [point["latency"] for point in get(both, job, "/curve")["points"]]
        assert line == sorted(line, reverse=True)
        assert line[-1] == pytest.approx(get(both, job)["latency"]["current"])
        assert get(both, job)["progress"]["trials"] == 60
    ended = [[task["best_latency"] for task in tasks(both, job)] for job in (first, second)]
    last = max((first, second), key=lambda job: get(both, job)["finished_at"])
    assert min(ended) == ended[(first, second).index(last)]


def assert_foretold_from_where_it_stands(api: Api, *jobs: str) -> None:
    for job in jobs:
        assert get(api, job, "/forecast")["current"] == pytest.approx(get(api, job)["latency"]["current"])


def test_what_another_job_is_trying_comes_later(api: Api) -> None:
    api.fleet.register_device()
    api.fleet.tasks = 8
    first, second = (begin(api, budget={"trials": 600}) for _ in range(2))
    api.work(lambda: bool(visited(api, second)))
    assert 0 < len(visited(api, first)) < 8
    assert not visited(api, first) & visited(api, second)


def visited(api: Api, job_id: str) -> set[str]:
    """Names of the tasks that had or are having rounds."""
    return {each["task_name"] for each in get(api, job_id, "/rounds")["items"]}


@pytest.mark.parametrize("values", [{"warm_start": False}, {"space": "tvm"}])
def test_who_shares_nothing_adopts_nothing(api: Api, values: dict[str, Any]) -> None:
    api.fleet.register_device()
    first, second = begin(api), begin(api, **values)
    api.work(lambda: {api.state(job) for job in (first, second)} == {JobState.SUCCEEDED})
    assert not events(api, second, "champion_adopted")


def events(api: Api, job_id: str, kind: str) -> list[dict[str, Any]]:
    with api.context.reading() as session:
        query = sa.select(Event).where(Event.kind == kind, Event.job_id == job_id)
        return [event.data for event in session.scalars(query.order_by(Event.id))]
