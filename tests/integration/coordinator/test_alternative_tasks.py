"""A task and its alternative in one job: who counts, who is exported, who gets rounds, and what the API says."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_driver import Api
from fake_fleet import Folder

from db.models import Job
from db.queries import sums
from services.coordinator.dispatch import Packer, tuned_workloads
from services.coordinator.scheduling.history import Histories
from services.coordinator.scheduling.load import load

pytestmark = pytest.mark.parallel

DIRECT, ALTERNATIVE = 1, 3


SQLITE, POSTGRESQL = "sqlite", "postgresql"
CASES = {
    "direct": (SQLITE, DIRECT, ALTERNATIVE),
    "alternative on PostgreSQL": (POSTGRESQL, ALTERNATIVE, DIRECT),
}
PARAMS = [
    pytest.param(case, id=name, marks=[pytest.mark.postgres] if case[0] == POSTGRESQL else [])
    for name, case in CASES.items()
]


@pytest.fixture(scope="module", params=PARAMS)
def job(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path
) -> Iterator[tuple[Api, str, int, int]]:
    """A finished job of four tasks, the last an alternative of the second: with who wins of the two, and who loses.

    Tests only read it.
    """
    kind, winner, loser = request.param
    folder = tmp_path_factory.mktemp("job")
    if kind == POSTGRESQL:
        url = request.getfixturevalue("postgres").create()
    else:
        url = f"sqlite:///{shutil.copyfile(migrated_sqlite, folder / 'tunesmith.db')}"
    api = Api(Folder(folder, url))
    api.fleet.tasks, api.fleet.alternative_of, api.fleet.slowness = 4, {ALTERNATIVE: DIRECT}, {loser: 8.0}
    yield api, api.finished_job(verify=False, budget={"trials": 400}, allocator="round-robin"), winner, loser
    api.close()


def tasks_of(api: Api, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.client.get(f"/v1/jobs/{job_id}/tasks").json()["items"]
    return found


def test_of_a_pair_the_faster_one_counts(job: tuple[Api, str, int, int]) -> None:
    api, job_id, winner, loser = job
    tasks = tasks_of(api, job_id)
    assert [task["alternative_of"] for task in tasks] == [None, None, None, tasks[DIRECT]["workload"]]
    assert [task["in_use"] for task in tasks] == [number != loser for number in range(4)]
    assert [task["weight"] for task in tasks] == [1, 2, 3, 2]
    used = [task for task in tasks if task["in_use"]]
    body = api.client.get(f"/v1/jobs/{job_id}").json()
    total = sum(task["weight"] * task["best_latency"] for task in used)
    untuned = sum(task["weight"] * task["untuned_latency"] for task in tasks if task["alternative_of"] is None)
    assert (body["latency"]["current"], body["latency"]["untuned"]) == pytest.approx((total, untuned))
    assert body["progress"]["tasks"] == body["progress"]["tasks_measured"] == 4
    assert body["progress"]["trials"] == sum(task["trials"] for task in tasks)
    curve = api.client.get(f"/v1/jobs/{job_id}/curve").json()
    assert (curve["points"][0]["latency"], curve["points"][-1]["latency"]) == pytest.approx((untuned, total))
    assert [task["share"] is None for task in tasks] == [number == loser for number in range(4)]
    assert sum(task["share"] for task in used) == pytest.approx(1.0)
    (family,) = api.client.get(f"/v1/jobs/{job_id}/families").json()["items"]
    assert (family["best_latency"], family["untuned_latency"]) == pytest.approx((total, untuned))
    assert tasks[loser]["trials"] < tasks[winner]["trials"] / 2


def test_the_log_and_the_archive_hold_the_winner_alone(job: tuple[Api, str, int, int]) -> None:
    api, job_id, _, _ = job
    used = [task["workload"] for task in tasks_of(api, job_id) if task["in_use"]]
    text = api.client.get(f"/v1/jobs/{job_id}/best").text
    assert [json.loads(line)["workload"]["hash"] for line in text.splitlines()] == used
    zipped = api.client.get(f"/v1/jobs/{job_id}/best", params={"format": "metaschedule"})
    records = zipfile.ZipFile(io.BytesIO(zipped.content)).read("database_tuning_record.json").decode()
    assert len(records.splitlines()) == len(used) == 3
    with api.context.reading() as session:
        row = session.get_one(Job, job_id)
        packer = Packer(api.context.blobs, api.context.urls)
        assert [record.workload for record in tuned_workloads(session, row, packer)] == used


def test_without_a_record_of_the_alternative_the_direct_task_stands(both: Api) -> None:
    both.fleet.tasks, both.fleet.alternative_of, both.fleet.failing = 2, {1: 0}, 1.0
    job_id = both.finished_job(verify=False)
    tasks = tasks_of(both, job_id)
    assert [task["in_use"] for task in tasks] == [True, False]
    assert (tasks[0]["best_latency"], tasks[1]["best_latency"], tasks[1]["untuned_latency"]) == (0.1, None, 0.1)
    (line,) = [json.loads(text) for text in both.client.get(f"/v1/jobs/{job_id}/best").text.splitlines()]
    assert (line["workload"]["hash"], line["trace"]) == (tasks[0]["workload"], None)
    with both.context.reading() as session:
        assert sums.sums(session, [job_id])[job_id].best == pytest.approx(0.1)


def test_the_planner_knows_who_stands_for_whom(both: Api) -> None:
    both.fleet.tasks, both.fleet.alternative_of = 2, {1: 0}
    both.fleet.register_device()
    body = {"operator": "gemm:64x64x64", "budget": {"trials": 500}}
    job_id = both.client.post("/v1/jobs", json=body).json()["id"]
    both.work(lambda: both.client.get(f"/v1/jobs/{job_id}").json()["progress"]["tasks"] == 2)
    with both.context.reading() as session:
        (snapshot,) = load(session, Histories(), 60.0).jobs
    first, second = snapshot.tasks
    assert (first.alternative_of, second.alternative_of) == (None, first.id)
    model_id = both.client.get(f"/v1/jobs/{job_id}").json()["model_id"]
    listed = both.client.get(f"/v1/models/{model_id}/tasks").json()["items"]
    assert [task["alternative_of"] for task in listed] == [None, listed[0]["workload"]]
