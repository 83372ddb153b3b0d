"""The dashboard's parts that need no browser: numbers, charts, rows, sessions, clients, downloads, the mount."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from services.dashboard import downloads, job_edit, job_parts, login, overview
from services.dashboard import format as fmt
from services.dashboard import job as job_page
from services.dashboard.api import Clients
from services.dashboard.context import Context
from services.dashboard.event_text import describe, shown
from services.dashboard.login import local_path
from services.dashboard.sessions import TICKET_SECONDS, Sessions
from services.rates import Rate
from tunesmith.errors import NotFound, ServerUnreachable, Unauthorized


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2317, "232 ms"),
        (1.5, "1.50 s"),
        (0.000541, "541 µs"),
        (3.2e-8, "32.0 ns"),
        (12.34e-6, "12.3 µs"),
        (1e-3, "1.00 ms"),
        (None, "–"),
        (math.inf, "–"),
        (math.nan, "–"),
    ],
)
def test_latency_has_three_digits_and_a_unit(value: float | None, text: str) -> None:
    assert fmt.latency(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7800, "2 h 10 min"),
        (30 * 86400, "30 d"),
        (None, "–"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    assert fmt.duration(value) == text


def test_other_numbers() -> None:
    assert fmt.speedup(56.27) == "56.3 ×"
    assert fmt.speedup(None) == "–"
    assert fmt.rate(4.22e11) == "422 GFLOP/s"
    assert fmt.rate(1.5e13) == "15.0 TFLOP/s"
    assert fmt.share(0.0953) == "9.5 %"
    assert fmt.count(1200, 5000) == "1,200 / 5,000"
    assert fmt.count(None) == "0"
    assert fmt.trials({"trials": 7, "trials_budget": 9}) == "7 / 9"
    assert fmt.trials({"trials": 7, "labels": 812, "labels_wanted": 4480}) == "812 / 4,480 labels"


def test_times_without_a_zone_are_utc() -> None:
    now = dt.datetime(2030, 1, 1, 12, 0, 7, tzinfo=dt.timezone.utc)
    assert fmt.ago("2030-01-01T12:00:00", now) == "7 s ago"
    assert fmt.ago("2030-01-01T12:00:00Z", now) == "7 s ago"
    assert fmt.ago("2030-01-01T13:00:00+01:00", now) == "7 s ago"
    assert fmt.ago(None, now) == "never"


def job(**values: Any) -> dict[str, Any]:
    return {
        "id": "j1",
        "name": "",
        "model_id": "m1",
        "model_name": "net.onnx",
        "target": "cpu",
        "state": "running",
        "progress": {"trials": 50, "trials_budget": 200, "seconds": 30.0, "seconds_budget": 40.0, "eta_seconds": 10.0},
        "latency": {"untuned": 0.2, "current": 0.01, "speedup": 20.0},
        "waiting_for": None,
        "error": None,
        **values,
    }


def test_rows_have_values_to_sort_by_and_texts() -> None:
    row = overview.row(job())
    assert (row["name"], row["speedup"], row["speedup_text"]) == ("net.onnx", 20.0, "20.0 ×")
    assert row["trials_text"] == "50 / 200"
    assert row["done"] == 75  # the nearer limit
    assert overview.row(job(state="succeeded"))["done"] == 100
    assert overview.row(job(state="succeeded"))["eta_text"] == "–"
    assert overview.row(job(waiting_for={"device_class": "cuda-sm_90"}))["waiting"] == "cuda-sm_90"


def test_a_job_says_what_it_was_asked_for_and_how_it_ended() -> None:
    asked = job(search="genetic", seed=3, fast_math=False, stop_reason="trials")
    assert job_page.facts(asked) == "net.onnx · cpu · genetic · seed 3 · no fast math · all trials spent · j1"
    assert "fast math" not in job_page.facts(job(fast_math=True)) + job_page.facts(job())
    assert "space tvm" in job_page.facts(job(space="tvm"))
    assert "space" not in job_page.facts(job(space="all"))
    assert "no fast math · no Winograd" in job_page.facts(job(fast_math=False, winograd=False))
    assert job_page.facts(job(per_task=64, stop_reason="collected")).startswith("collects 64 of each task · net.onnx")


def test_a_device_shows_what_it_can_do_and_that_it_is_ill() -> None:
    figures = {"peak_flops": 5.3e11, "bandwidth": 3.8e10, "noise_floor": 0.021, "drift": 1.62}
    device = {"name": "d", "alive": True, "busy": True, "cores": 2, "device_classes": ["llvm-x-2"]}
    now = dt.datetime.now(dt.timezone.utc)
    chip = overview.DeviceStrip._chip
    assert chip(device, now)[1:3] == ("busy", "measuring · 2 cores")
    well = {**device, "health": "ok", "calibration": figures}
    assert chip(well, now)[1:3] == ("busy", "measuring · 2 cores · 530 GFLOP/s · noise ±2.1 %")
    sick = {**well, "health": "quarantined"}
    assert chip(sick, now)[1] == "bad"
    assert chip(sick, now)[2].startswith("quarantined · 2 cores")
    assert "1.62 × its first latency" in chip(sick, now)[2]
    assert chip({**sick, "alive": False, "seen_at": None}, now)[1] == "idle"


def test_part_of_a_models_latency_is_not_shown_as_its_latency() -> None:
    early = job(progress={"trials": 5, "tasks_tunable": 23, "tasks_measured": 12}, latency={"current": None})
    assert overview.row(early)["current_text"] == "12 / 23 tasks"
    later = job(progress={"trials": 50, "tasks_tunable": 23, "tasks_measured": 23})
    assert overview.row(later)["current_text"] == "10.0 ms"


def test_a_task_without_results_has_dashes() -> None:
    row = job_parts.row({"id": 3, "name": "t", "weight": 1, "trials": 0, "tunable": False, "best_latency": None})
    assert (row["best_text"], row["speedup_text"], row["rate_text"], row["note"]) == ("–", "–", "–", "nothing to tune")


def test_of_many_tasks_the_table_says_which_it_has() -> None:
    said = [
        job_parts.part_of_tasks(shown, 10_000, found=found) for shown, found in ((200, False), (7, True), (0, True))
    ]
    assert said == [
        "The 200 with the largest share of the latency, of 10,000",
        "7 of 10,000",
        "None of 10,000 has this in its name",
    ]


def test_of_a_pair_the_table_says_which_is_used() -> None:
    direct = {"id": 3, "name": "t", "weight": 1, "trials": 9, "best_latency": 1e-3, "in_use": False}
    other = {**direct, "alternative_of": "w", "in_use": True}
    kept = {**direct, "in_use": True, "tunable": False, "reason": "its space cannot be opened"}
    assert job_parts.row(kept)["note"] == "default schedule: its space cannot be opened"
    notes = [job_parts.row(task)["note"] for task in (direct, other, {**other, "in_use": False, "exhausted": True})]
    assert notes == ["not used", "alternative", "alternative, not used, exhausted"]


def test_events_are_told_in_words_and_units() -> None:
    best = {"task": 3, "name": "conv", "seconds": 0.00171, "before": 0.0021, "record": 7}
    assert describe("new_best", best) == "conv: 1.71 ms (was 2.10 ms)"
    done = {"number": 4, "name": "conv", "measured": 16, "failed": 2, "best_after": 0.001, "task": 3, "trials": 15}
    assert describe("round_finished", done) == "round 4 of conv: 16 measured, 2 failed, best 1.00 ms"
    moved = {"id": "j1", "from": "running", "to": "failed", "problem": {"detail": "no candidate ran"}}
    assert describe("job_failed", moved) == "running → failed, no candidate ran"
    assert describe("job_changed", {"id": "j1", "budget_seconds": 60.0, "list": [1]}) == "budget seconds 60.0 s"


def test_a_rejected_challenger_says_why() -> None:
    data = {
        "name": "conv",
        "reason": "not_faster",
        "seconds": 0.00171,
        "champion_seconds": 0.0018,
        "p_value": 0.117,
        "error": 1e-7,
        "tolerance": 1e-4,
    }
    assert describe("challenger_rejected", data) == "conv: 1.71 ms is not significantly faster than 1.80 ms (p 0.12)"
    overtaken = {**data, "reason": "overtaken"}
    assert describe("challenger_rejected", overtaken) == "conv: 1.71 ms, but a faster one became champion meanwhile"
    wrong = {**data, "reason": "wrong_result", "error": 0.25}
    unchecked = "conv: 1.71 ms, but its outputs could not be compared with the default schedule's"
    assert describe("challenger_rejected", {**data, "reason": "unchecked"}) == unchecked
    assert describe("challenger_rejected", wrong) == "conv: wrong outputs, error 2.5e-01, allowed 1e-04"
    unknown = {**data, "p_value": None}
    assert describe("challenger_rejected", unknown) == "conv: 1.71 ms is not significantly faster than 1.80 ms"
    nothing = {"name": "conv", "seconds": None, "champion_seconds": None, "p_value": None, "error": None}
    for reason, words in (("wrong_result", "wrong result"), ("run_timeout", "run timeout")):
        assert describe("challenger_rejected", {**nothing, "reason": reason}) == f"conv: {words} when measured again"
    assert shown("challenger_rejected")


def test_a_task_shows_how_far_its_outputs_are_from_the_default_ones() -> None:
    task = {"id": 3, "name": "t", "weight": 1, "trials": 9, "best_latency": 1e-3}
    row = job_parts.row({**task, "verified": {"error": 2.4e-7, "tolerance": 1e-4}})
    assert (row["verified"], row["verified_text"]) == (2.4e-7, "2.4e-07")
    assert job_parts.row({**task, "verified": None})["verified_text"] == "–"


def test_inner_steps_are_only_told_when_they_go_wrong() -> None:
    kinds = ["job_running", "new_best", "round_finished", "batch_retried", "round_failed", "evaluation_done"]
    assert all(map(shown, kinds))
    assert not any(map(shown, ["batch_running", "batch_done", "round_opened", "round_measuring", "cost_model_queued"]))


def test_sessions_forget_the_least_recently_used() -> None:
    sessions = Sessions(capacity=2)
    sessions.login("a", "ka")
    sessions.login("b", "kb")
    assert sessions.key("a") == "ka"
    sessions.login("c", "kc")
    assert not sessions.known("b")
    assert sessions.key("b") is None
    sessions.logout("a")
    assert not sessions.known("a")


def test_a_ticket_gives_its_own_session_a_fresh_id_once() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    sessions.login("old", "former")
    context = Context(lambda _: pytest.fail("no call"), sessions, Rate(""))

    def enter(ticket: str, session: str) -> tuple[Any, str]:
        scope = {"type": "http", "session": {"id": session}, "headers": [], "query_string": b"", "path": "/"}
        request = Request(scope)
        answer = login.enter(context, request, ticket, "/jobs/j1")
        return answer, request.session["id"]

    ticket = sessions.issue("old", "the-key")
    other = sessions.issue("old", "the-key")
    late = sessions.issue("old", "the-key")
    answer, fresh = enter(ticket, "old")
    assert answer.headers["location"] == "/jobs/j1"
    assert (fresh != "old", sessions.key(fresh), sessions.known("old")) == (True, "the-key", False)
    for wrong, session in ((ticket, "old"), (other, "planted"), (other, "old"), ("", "old"), ("made-up", "old")):
        answer, same = enter(wrong, session)
        assert (answer.headers["location"], same) == ("/login", session)
        assert not sessions.known(session)
    now[0] = TICKET_SECONDS + 1
    assert enter(late, "old")[0].headers["location"] == "/login"


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", ""])
def test_a_login_leads_nowhere_else(target: str) -> None:
    assert local_path(target) == "/"
    assert local_path("/jobs/j1") == "/jobs/j1"


def test_clients_are_reused_by_key_and_bounded() -> None:
    seen: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("authorization"))
        return httpx2.Response(200, json={"items": [], "next_cursor": None})

    clients = Clients("http://coordinator", httpx2.MockTransport(answer), idle=1)
    assert clients("a").jobs(5) == {"items": [], "next_cursor": None, "total": None}
    with clients.borrow("a") as first:
        pass
    with clients.borrow("a") as repeated:
        assert repeated is first
    with clients.borrow("b") as other:
        assert other is not first
    clients("a").jobs(5)
    clients.close()
    assert seen == ["Bearer a", "Bearer a"]


class Best:
    def __init__(self, outcome: Exception | list[bytes]) -> None:
        self.outcome, self.closed = outcome, False

    @contextmanager
    def best(self, job_id: str, form: str) -> Iterator[Iterator[bytes]]:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        yield iter(self.outcome)
        self.closed = True


@pytest.mark.parametrize(
    ("outcome", "form", "status"),
    [
        ([b"x"], "jsonl", 200),
        ([b"x"], "metaschedule", 200),
        ([b"x"], "exe", 404),
        (Unauthorized("no"), "jsonl", 303),
        (NotFound("no such job"), "jsonl", 404),
        (ServerUnreachable("gone"), "jsonl", 503),
    ],
)
def test_downloads_answer_with_the_file_or_the_problem(outcome: Any, form: str, status: int) -> None:
    response = downloads.best(Best(outcome), "j1", form)  # type: ignore[arg-type]
    assert response.status_code == status
    if status == 200:
        assert response.headers["content-disposition"] == f'attachment; filename="{downloads.FORMS[form][0]}"'


def test_a_job_s_page_begins_with_the_fastest_runtime() -> None:
    found = {
        "runtime": "onnxruntime",
        "precision": "model",
        "seconds": 0.0066,
        "ratio": 0.7576,
        "verdict": "faster",
        "interval": [0.7354, 0.7801],
    }
    assert job_page.against({"reference": found}) == ("0.758", "Of onnxruntime's 6.60 ms, 0.735 – 0.78")
    same = found | {"verdict": "no_difference", "precision": "default"}
    assert job_page.against({"reference": same})[0] == "no difference"
    assert "default precision" in job_page.against({"reference": same})[1]
    assert job_page.against({"reference": None, "reference_missing": "it died"}) == ("–", "No reference: it died")
    assert job_page.against({}) == ("–", "Reference")


def test_a_job_in_a_narrow_precision_says_how_far_its_outputs_are_from_float32s() -> None:
    found = {"runtime": "onnxruntime", "error": 4.2e-3, "rms": 3.1e-3, "tolerance": 0.01}
    job = {"check": {"state": "agree", "error": 1e-6}, "references": [{"error": None}, found]}
    assert job_page.checked(job).endswith("error 1.0e-06 · 4.2e-03 from onnxruntime in float32, 0.01 allowed")
    assert "TOO FAR" in job_page.checked(job | {"references": [found | {"error": 0.2}]})


def test_a_speed_up_has_an_interval_or_is_none() -> None:
    assert job_page.change({"speedup": 3.0, "interval": [2.9, 3.1], "verdict": "faster"}) == (
        "3.00 ×",
        "Speed-up, 2.90 × – 3.10 ×",
    )
    assert job_page.change({"speedup": 1.1, "interval": [0.9, 1.2], "verdict": "no_difference"})[0] == "no difference"
    assert job_page.change({"speedup": 1.0, "verdict": "no_difference", "schedules": 0}) == (
        "no difference",
        "No schedule changed",
    )
    assert job_page.change({"speedup": 2.0}) == ("2.00 ×", "Speed-up")


def test_a_check_that_checked_nothing_is_no_verification() -> None:
    assert job_page.checked({"check": {"state": "agree", "error": 2e-6}}) == "outputs verified, error 2.0e-06"
    assert job_page.checked({"check": {"state": "nothing_checked", "error": 0.0}}).startswith("nothing was checked")
    assert job_page.checked({"check": {"state": "not_compared", "error": None}}) == job_page.checked({}) == ""


def test_a_form_sends_what_differs() -> None:
    before = job(tags=["a"], comment="", priority=0, budget={"trials": 200, "seconds": None})
    same = {"name": "", "tags": ["a"], "comment": "", "priority": 0.0, "trials": 200.0, "seconds": None}
    assert job_edit.changes(before, same) == {}
    written = {**same, "tags": [], "comment": "why", "priority": 3.0, "trials": 2.5, "seconds": 60.5}
    found = job_edit.changes(before, written)
    assert found == {"tags": [], "comment": "why", "priority": 3, "trials": 2.5, "seconds": 60.5}
    assert type(found["priority"]) is int
