"""One trial through the API: its knobs by name, and its program as text, which a core worker writes when asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import core_flow
import pytest
from api_driver import Api, problem
from fake_fleet import Folder

from db.engine import migrate
from tunesmith.messages import ListProgram
from workers.core import list_program
from workers.core.context import Context

pytestmark = pytest.mark.parallel
URL = "/v1/jobs/j1/trials"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Context]]:
    folder = tmp_path_factory.mktemp("listing")
    url = f"sqlite:///{folder / 'tunesmith.db'}"
    migrate(url)
    made = Api(Folder(folder, url)), core_flow.core_context(folder, url)
    core_flow.import_and_prepare(made[1], search="random", cost_model="none")
    core_flow.report(made[1], core_flow.propose(made[1], size=24))
    yield made
    made[0].close()


def fetch(api: Api, path: str = "", **query: Any) -> Any:
    answer = api.client.get(URL + path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_trials_come_in_the_order_asked_for(api: tuple[Api, Context]) -> None:
    served, _ = api
    everything = fetch(served, limit=200)["items"]
    ran = sorted((row["latency"], row["id"]) for row in everything if row["latency"] is not None)
    paged, cursor = list[int](), None
    for _ in range(len(ran)):
        page = fetch(served, sort="latency", limit=7, **({"cursor": cursor} if cursor else {}))
        paged += [row["id"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == [number for _, number in ran]
    newest = [row["id"] for row in fetch(served, sort="-id", limit=200)["items"]]
    assert newest == [row["id"] for row in everything][::-1]
    half = newest[len(newest) // 2]
    assert fetch(served, sort="-id", cursor=str(half), limit=200)["items"][0]["id"] < half


def test_a_trial_has_its_knobs_by_name_and_its_program(api: tuple[Api, Context]) -> None:
    served, core = api
    best = next(row for row in fetch(served, sort="latency")["items"] if row["decisions"])
    found = fetch(served, f"/{best['id']}")
    names = [knob["name"] for knob in found["knobs"]]
    assert [knob["decision"] for knob in found["knobs"]] == best["decisions"]
    assert len(set(names)) == len(names)
    assert any(name.startswith("matmul.loop_") for name in names)
    assert found["task_name"].startswith("matmul")
    assert 1 <= found["measured_place"] <= found["batch_size"]

    path = f"{URL}/{best['id']}/program"
    problem(served.client.get(path), 404, "not_found")
    for _ in range(2):  # whoever asks again waits for the same one
        asked = served.client.post(path)
        assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    served.loop.step()
    (message,) = [each.message for each in served.broker.take() if isinstance(each.message, ListProgram)]
    assert list_program.list_program(core, message)
    done = served.client.post(path)
    assert (done.status_code, done.json()["state"]) == (200, "done")
    text = served.client.get(path).json()
    assert "T.parallel" in text["scheduled"]
    assert "T.parallel" not in text["plain"]
    assert "def main" in text["plain"]
    assert not list_program.list_program(core, message)  # a doubled message


def test_a_tasks_space_has_its_knobs_by_name_and_the_champions(api: tuple[Api, Context]) -> None:
    served, _ = api
    (task,) = served.client.get("/v1/jobs/j1/tasks").json()["items"]
    found = served.client.get(f"/v1/jobs/j1/tasks/{task['id']}/space").json()
    assert found["points"] == sum(sketch["points"] for sketch in found["sketches"]) > 1000
    tiles = [knob for sketch in found["sketches"] for knob in sketch["knobs"] if knob["kind"] == "perfect_tile"]
    assert all(knob["parts"] >= 2 and knob["extent"] >= 1 for knob in tiles)
    best = found["champion"]
    sketch = next(sketch for sketch in found["sketches"] if sketch["sketch"] == best["sketch"])
    assert [knob["name"] for knob in best["knobs"]] == [knob["name"] for knob in sketch["knobs"]]
    assert best["latency"] == task["best_latency"]
    assert {failure["failure"] for failure in found["failures"]} <= {"run_timeout"}
    problem(served.client.get("/v1/jobs/j1/tasks/999/space"), 404, "not_found")

    ran = fetch(served, failure="none", limit=1)["total"]
    analysis = served.client.get(f"/v1/jobs/j1/tasks/{task['id']}/analysis").json()
    assert analysis["trials"] == len(analysis["points"]) == sum(each["trials"] for each in analysis["sketches"]) == ran
    assert analysis["sketch"] in {each["sketch"] for each in analysis["sketches"]}
    weights = [knob["importance"] for knob in analysis["knobs"]]
    assert weights == sorted(weights, reverse=True)
    assert 0 <= weights[-1] <= weights[0] <= 1
    assert any(knob["name"].endswith("[0]") for knob in analysis["knobs"]), "each factor of a tile is a column"
    valued = [point for point in analysis["points"] if point["values"] is not None]
    assert {len(point["values"]) for point in valued} == {len(weights)}
    few = served.client.get(f"/v1/jobs/j1/tasks/{task['id']}/analysis?points=10").json()["points"]
    assert len(few) == 10
    assert min(point["latency"] for point in few) == min(point["latency"] for point in analysis["points"])
    problem(served.client.get(f"/v1/jobs/j1/tasks/{task['id']}/analysis?sketch=none"), 404, "not_found")


def test_what_is_no_trial_of_the_job_is_not_there(api: tuple[Api, Context]) -> None:
    served, _ = api
    problem(served.client.get(f"{URL}/999999"), 404, "not_found")
    problem(served.client.post(f"{URL}/999999/program"), 404, "not_found")
    problem(served.client.get("/v1/jobs/none/trials/1"), 404, "not_found")
    problem(served.client.get(f"{URL}/seven"), 422, "invalid_input")
