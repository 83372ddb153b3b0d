"""Candidates that are proposed from outside: taken in, judged by a worker, measured next to the searcher's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import core_flow
import pytest
from api_driver import Api, problem
from fake_fleet import Folder

from db.engine import migrate
from db.models import Batch, Round
from services.coordinator.usecases import proposals
from tunesmith.errors import InvalidCandidate
from tunesmith.messages import JudgeProposals
from tunesmith.states import RoundState
from workers.core import judge_proposals
from workers.core.context import Context

pytestmark = pytest.mark.parallel


@dataclass(frozen=True)
class Served:
    """A job of one task, ``url``, with a service and a worker."""

    api: Api
    core: Context
    url: str

    def space(self) -> dict[str, Any]:
        """The task's design space."""
        found: dict[str, Any] = self.api.client.get(f"{self.url}/space").json()
        return found

    def post(self, *candidates: dict[str, Any], **more: Any) -> Any:
        """The answer to a request that proposes candidates."""
        return self.api.client.post(f"{self.url}/proposals", json={"candidates": list(candidates), **more})

    def judged(self) -> list[dict[str, Any]]:
        """Every proposal, once a worker has judged those that wait for it."""
        self.api.loop.step()
        for message in [each.message for each in self.api.broker.take() if isinstance(each.message, JudgeProposals)]:
            assert judge_proposals.judge_proposals(self.core, message)
            assert not judge_proposals.judge_proposals(self.core, message)  # a doubled message
        return self.listed()

    def listed(self) -> list[dict[str, Any]]:
        """Every proposal, oldest first."""
        found: list[dict[str, Any]] = self.api.client.get(f"{self.url}/proposals", params={"limit": 200}).json()[
            "items"
        ]
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("proposals")
    url = f"sqlite:///{folder / 'tunesmith.db'}"
    migrate(url)
    api, core = Api(Folder(folder, url)), core_flow.core_context(folder, url)
    core_flow.import_and_prepare(core, search="random", cost_model="none", proposal_share=0.5)
    (task,) = api.client.get("/v1/jobs/j1/tasks").json()["items"]
    made = Served(api, core, f"/v1/jobs/j1/tasks/{task['id']}")
    core_flow.report(core, core_flow.propose(core, size=6))
    yield made
    api.close()


def first_of(sketch: dict[str, Any], **change: Any) -> dict[str, Any]:
    """A candidate with all of a tile in its outermost loop and every other knob at its first choice."""
    knobs: dict[str, Any] = {}
    for knob in sketch["knobs"]:
        tile = [knob["extent"], *[1] * ((knob["parts"] or 1) - 1)]
        knobs[knob["name"]] = tile if knob["kind"] == "perfect_tile" else knob["low"] or 0
    return {"sketch": sketch["sketch"], "knobs": {**knobs, **change}}


def tiled(space: dict[str, Any], *factors: tuple[int, int]) -> list[dict[str, Any]]:
    """Candidates of a sketch of TVM's, with other tiles of the first loop."""
    sketch = next(each for each in space["sketches"] if any(knob["parts"] == 4 for knob in each["knobs"]))
    name = next(knob["name"] for knob in sketch["knobs"] if knob["parts"] == 4)
    return [first_of(sketch, **{name: [64 // (a * b), 1, a, b]}) for a, b in factors]


def test_proposals_are_judged_then_measured_beside_the_searchers(served: Served) -> None:
    given = tiled(served.space(), (1, 1), (2, 4), (4, 4), (2, 8))
    answer = served.post(*given, source="agent", author="a tester")
    assert answer.status_code == 202, answer.text
    assert {each["state"] for each in answer.json()["items"]} == {"judging"}
    found = served.judged()
    assert [each["state"] for each in found] == ["waiting"] * 4, [each["reason"] for each in found]
    assert [{knob["name"]: knob["decision"] for knob in each["knobs"]} for each in found] == [
        each["knobs"] for each in given
    ]
    assert all(each["estimate"] is None or 0 < each["estimate"] < 1 for each in found)
    assert any(each["estimate"] for each in found), "the static model knows some"

    assert served.post(*tiled(served.space(), (8, 4)), measure=False).status_code == 202
    assert served.judged()[-1]["state"] == "judged"
    problem(served.post(*tiled(served.space(), (8, 4)), measure=False), 409, "duplicate_proposal")

    batch = core_flow.propose(served.core, size=6)
    assert len(batch.candidates) == 6
    after = served.listed()
    assert [each["state"] for each in after] == ["measuring"] * 3 + ["waiting", "judged"], (
        "half of the places are theirs"
    )
    core_flow.report(served.core, batch)
    after = served.listed()
    assert {each["state"] for each in after[:3]} <= {"measured", "failed"}
    trials = {row["id"]: row for row in served.api.client.get("/v1/jobs/j1/trials?limit=200").json()["items"]}
    for each in after[:3]:
        trial = trials[each["trial"]]
        assert trial["decisions"] == [knob["decision"] for knob in each["knobs"]]
        assert (trial["latency"], trial["failure"]) == (each["latency"], each["failure"])

    curve = served.api.client.get(f"{served.url}/curve").json()
    search, agent = curve["sources"]
    assert (search["source"], search["trials"], agent["source"], agent["trials"]) == ("search", 9, "agent", 3)
    latencies = [each["latency"] for each in after[:3] if each["latency"] is not None]
    assert agent["best"] == min(latencies) == agent["points"][-1]["latency"]
    best = [point["latency"] for point in search["points"]]
    assert best == sorted(best, reverse=True)
    assert agent["points"][0]["task_trials"] > agent["points"][0]["trials"]


def test_what_is_wrong_is_refused_by_name_and_nothing_is_taken_in(served: Served) -> None:
    space, before = served.space(), len(served.listed())
    good, other = tiled(space, (8, 8), (1, 8))
    name = next(iter(good["knobs"]))
    cases = [
        ({**good, "sketch": "0" * 64}, "unknown_sketch", 422),
        ({**good, "knobs": {**good["knobs"], "thread": 1}}, "unknown_knob", 422),
        ({**good, "knobs": {key: value for key, value in good["knobs"].items() if key != name}}, "missing_knob", 422),
        ({**good, "knobs": {**good["knobs"], name: [1, 2, 3, 5]}}, "knob_out_of_range", 422),
        ({**good, "colour": "red"}, "invalid_input", 422),
        (tiled(space, (2, 4))[0], "duplicate_proposal", 409),
    ]
    for bad, code, status in cases:
        found = problem(served.post(other, bad), status, code)
        assert code == "invalid_input" or found["errors"][0]["field"].startswith("candidates.1"), found
    assert problem(served.post(good, good), 409, "duplicate_proposal")["detail"].endswith("candidate 0")
    problem(served.post(*[good] * 65), 422, "invalid_input")
    problem(served.post(), 422, "invalid_input")
    problem(served.post(good, source="ghost"), 422, "invalid_input")
    trial = next(row for row in served.api.client.get("/v1/jobs/j1/trials").json()["items"] if row["decisions"])
    shown = served.api.client.get(f"/v1/jobs/j1/trials/{trial['id']}").json()
    known = {"sketch": shown["sketch"], "knobs": {knob["name"]: knob["decision"] for knob in shown["knobs"]}}
    assert f"trial {trial['id']}" in problem(served.post(known), 409, "duplicate_proposal")["detail"]
    problem(served.api.client.get("/v1/jobs/j1/tasks/999/proposals"), 404, "not_found")
    problem(served.api.client.post("/v1/jobs/j1/tasks/999/proposals", json={"candidates": [good]}), 404, "not_found")
    assert len(served.listed()) == before


def test_what_waits_and_what_there_ever_was_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    good, other = tiled(served.space(), (8, 2), (16, 2))
    before = len(served.listed())
    monkeypatch.setattr(proposals, "MAX_WAITING", 2)  # one waits, from the test above
    problem(served.post(good, other, measure=False), 409, "proposals_refused")
    monkeypatch.setattr(proposals, "MAX_WAITING", 256)
    monkeypatch.setattr(proposals, "MAX_PROPOSED", before + 1)
    assert "in all" in problem(served.post(good, other, measure=False), 409, "proposals_refused")["detail"]
    long = {**good, "knobs": {**good["knobs"], "x" * 10_000: 1}}
    assert len(problem(served.post(long), 422, "unknown_knob")["detail"]) < 1000
    wide = {**good, "knobs": {**good["knobs"], next(iter(good["knobs"])): [1] * 10_000}}
    assert len(problem(served.post(wide), 422, "knob_out_of_range")["errors"][0]["value"]) < 300
    assert len(served.listed()) == before


def test_what_does_not_apply_or_was_overtaken_says_why_and_takes_no_place(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (space,) = served.core.spaces.values()
    bad, good = tiled(served.space(), (1, 16), (2, 16))
    replay, name = space.replayer.replay, next(iter(bad["knobs"]))

    def refusing(body: Any, decisions: Any) -> Any:
        if list(decisions[0]) == bad["knobs"][name]:
            raise InvalidCandidate("the trace does not apply: no such loop")
        return replay(body, decisions)

    monkeypatch.setattr(space.replayer, "replay", refusing)
    assert served.post(bad, good, source="person").status_code == 202
    refused, waiting = served.judged()[-2:]
    assert (refused["state"], refused["reason"]) == ("refused", "the trace does not apply: no such loop")
    assert waiting["state"] == "waiting"

    with served.core.sessions.begin() as session:
        candidate = [waiting["sketch"], [knob["decision"] for knob in waiting["knobs"]]]
        round_ = session.get_one(Round, core_flow.open_round(served.core))
        round_.state = RoundState.MEASURING
        session.add(Batch(round_id=round_.id, job_id="j1", device_class="x", candidates=[candidate]))
    batch = core_flow.propose(served.core, size=6)
    assert candidate not in batch.candidates
    overtaken = served.listed()[-1]
    assert overtaken["state"] == "refused"
    assert "the searcher proposed the same program meanwhile" in overtaken["reason"]


def test_a_job_that_is_over_takes_none_and_drops_what_waits(served: Served) -> None:
    (last,) = tiled(served.space(), (4, 8))
    assert served.post(last).status_code == 202
    assert served.judged()[-1]["state"] == "waiting"
    assert served.api.client.post("/v1/jobs/j1/cancel").status_code == 200
    assert served.listed()[-1]["state"] == "dropped"
    assert problem(served.post(last), 409, "proposals_refused")["state"] == "cancelling"
