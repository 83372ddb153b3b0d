"""The dashboard in a real browser, served by a real coordinator on a real database."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dashboard_rows
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_pages import CURVE, CURVES, card, curve, get_json, row, shape, write_program
from coordinator_process import coordinator
from playwright.sync_api import Browser, Page, expect

from db.engine import create_engine, session_factory
from db.models import Job, Record
from services.dashboard import format as fmt
from tools.browsing import Watched
from tunesmith.options import JobOptions

pytestmark = pytest.mark.browser
LOG_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "json-log.md"
WEEK = str(7 * 86400)
LISTS = "/devices /workers /models /records /costmodels /keys /audit /login /jobs/done/families"
OTHERS = ("/devices/workstation/cpu", "/records/fused_softmax", *LISTS.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    dashboard_rows.fill(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with coordinator(folder, device_timeout=WEEK) as url:
        yield url


@pytest.fixture(scope="module")
def watched(browser: Browser, server: str) -> Iterator[Watched]:
    """A visitor whose browser keeps the scripts, which take longest to load, from page to page."""
    watched = Watched(browser, server)
    yield watched
    watched.context.close()


@pytest.fixture
def page(watched: Watched) -> Iterator[Page]:
    page = watched.opened()
    yield page
    page.close()
    complaints, watched.complaints = watched.complaints, []
    assert complaints == []


def test_overview_lists_jobs_and_devices(page: Page, server: str) -> None:
    page.goto(server)
    done = row(page, "Succeeded")
    expect(done).to_contain_text("42.7 ×")
    expect(done).to_contain_text("5.43 ms")
    running = row(page, "squeezenet nightly")
    expect(running).to_contain_text("Running")
    expect(running).to_contain_text("waiting for llvm-znver4-16")
    expect(row(page, "Failed")).to_contain_text("0 / 500")
    device = page.locator(".ts-device")
    expect(device).to_have_count(3)
    expect(device.filter(has_text="workstation/cpu")).to_contain_text("measuring · 2 cores · 530 GFLOP/s")
    expect(device.filter(has_text="board-7/cpu")).to_contain_text("quarantined · 4 cores")
    expect(device.filter(has_text="lab-4/cpu")).to_contain_text("gone, seen 30 d ago")
    expect(page.get_by_text(f"tunesmith tune model.onnx --trials 500 --server {server}")).to_be_visible()
    running.get_by_role("link").click()
    expect(page).to_have_url(f"{server}/jobs/running")


def test_job_page_draws_the_curve_of_the_api(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/running")
    wanted = get_json(f"{server}/v1/jobs/running/curve")
    drawn = curve(page, "Trials")
    first = next(at for at, point in enumerate(wanted["points"]) if not point["tasks_rough"])
    assert [x for x, _ in drawn["dotted"]] == [point["trials"] for point in wanted["points"][: first + 1]]
    assert [x for x, _ in drawn["solid"]] == [point["trials"] for point in wanted["points"][first:]]
    assert drawn["solid"][-1][1] == pytest.approx(wanted["points"][-1]["latency"] * 1e3)
    assert drawn["untuned"][0]["yAxis"] == pytest.approx(wanted["untuned"] * 1e3)
    page.get_by_role("button", name="Wall time").click()
    drawn = curve(page, "Wall time (s)")
    assert drawn["solid"][-1][0] == pytest.approx(wanted["points"][-1]["seconds"])
    least = get_json(f"{server}/v1/jobs/running/roofline")["seconds"]
    assert {mark["name"]: mark["yAxis"] for mark in drawn["untuned"]} == {
        "untuned": pytest.approx(wanted["untuned"] * 1e3),
        "limit of the machine": pytest.approx(least * 1e3, abs=1e-6),
    }
    page.get_by_role("button", name="Device time").click()
    assert curve(page, "Device time (s)")["solid"][-1][0] == pytest.approx(wanted["points"][-1]["device_seconds"])
    page.get_by_label("Other jobs of this model").click()
    page.get_by_role("option", name="squeezenet-random.onnx (done)").click()
    page.wait_for_function(f"() => ({CURVE})()?.others === 1")


def test_job_page_shows_tasks_failures_events_and_what_it_waits_for(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/running")
    expect(page.get_by_text("No live device of class llvm-znver4-16 is registered")).to_be_visible()
    tasks = card(page, "Tasks").locator("tbody tr")
    expect(tasks.filter(has_text="concatenate")).to_contain_text("nothing to tune")
    softmax = tasks.filter(has_text="fused_softmax")
    expect(softmax).to_contain_text("softmax")
    expect(softmax).to_contain_text("µs")
    expect(page.get_by_text("Build timeout")).to_be_visible()
    expect(page.get_by_text("latest: no object code after 10 s")).to_be_visible()
    expect(page.get_by_text(re.compile(r"round 48 of \w+: 8 measured"))).to_be_visible()
    expect(page.get_by_text("estimate").first).to_be_visible()


def test_job_page_shows_why_rounds_were_chosen_and_what_is_expected(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/running")
    newest = get_json(f"{server}/v1/jobs/running/decisions?sort=-number&limit=1")["items"][0]
    line = card(page, "Allocation").locator("tbody tr").first
    expect(line).to_contain_text(newest["task_name"])
    expect(line).to_contain_text(newest["reason"])
    bounds = get_json(f"{server}/v1/jobs/running/forecast")
    assert 0 < bounds["low"] <= bounds["expected"] <= bounds["high"] <= bounds["current"]
    shown = [fmt.latency(bounds[name]) for name in ("low", "high")]
    expect(page.get_by_text(" – ".join(shown))).to_be_visible()


def test_a_trial_is_found_and_opened(page: Page, server: str, folder: Path) -> None:
    page.goto(f"{server}/jobs/done")
    page.get_by_role("link", name="fused_conv2d1_add_relu", exact=True).click()
    expect(page).to_have_url(re.compile(r"/jobs/done/trials\?(.*&)?task=\d+"))
    lines = page.locator("tbody tr")
    task = re.search(r"task=(\d+)", page.url).group(1)
    best = get_json(f"{server}/v1/jobs/done/trials?sort=latency&task={task}")["items"]
    expect(lines.first).to_contain_text(str(best[0]["id"]))
    expect(lines.first).to_contain_text(fmt.latency(best[0]["latency"]))
    page.get_by_label("Outcome").click()
    page.get_by_role("option", name="Build timeout").click()
    expect(lines.first.locator(".ts-badge")).to_have_text("Build timeout")
    expect(page).to_have_url(re.compile("failure=build_timeout"))
    page.reload()
    expect(lines.first.locator(".ts-badge")).to_have_text("Build timeout")

    write_program(folder, server, best[0]["id"])
    page.goto(f"{server}/jobs/done/trials/{best[0]['id']}")
    expect(card(page, "Decisions").locator("tbody tr")).to_have_count(2)
    expect(card(page, "Decisions").locator("tbody tr").last).to_contain_text("unroll")
    expect(page.get_by_label("Program in TVMScript")).to_contain_text("parallel")
    page.get_by_role("button", name="Difference").click()
    expect(page.get_by_label("Program in TVMScript")).to_contain_text("-    loop")
    expect(card(page, "Circumstances")).to_contain_text("0.27.0")
    page.goto(f"{server}/jobs/done/trials/999999")
    expect(page.get_by_text("job done has no trial 999999 (not_found)")).to_be_visible()


def test_a_task_is_analysed(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/done")
    row(page, "fused_conv2d1_add_relu").get_by_role("link", name="analysis").click()
    expect(page.get_by_role("heading", name="fused_conv2d1_add_relu")).to_be_visible()
    task = re.search(r"tasks/(\d+)/", page.url).group(1)
    found = get_json(f"{server}/v1/jobs/done/tasks/{task}/analysis")
    table = page.locator("tbody tr")
    expect(table).to_have_count(len(found["knobs"]))
    expect(table.first).to_contain_text(found["knobs"][0]["name"])
    lines = "() => [...document.querySelectorAll('.nicegui-echart')].map(e => getElement(e.id.slice(1))?.chart)"
    lines += ".map(c => c?.getOption()?.series?.[0]).filter(s => s?.type === 'parallel')[0]?.data.length"
    page.wait_for_function(f"() => ({lines})() === {sum(point['values'] is not None for point in found['points'])}")
    expect(page.get_by_text("No score yet")).to_be_visible()


def test_a_job_is_submitted_by_the_form_and_again(page: Page, server: str, tmp_path: Path) -> None:
    page.goto(server)
    page.get_by_role("link", name="Submit a job").click()
    submit = page.get_by_role("button", name="Submit", exact=True)
    submit.click()
    expect(page.get_by_text("Nothing to tune")).to_be_visible()
    page.get_by_label("Operator").fill("gemm:64xhello")
    submit.click()
    expect(page.get_by_text("(invalid_operator)")).to_be_visible()
    page.get_by_label("Operator").fill("gemm:64x64x64:float32")
    page.get_by_label("Name").fill("by the form")
    page.get_by_label("Trials").fill("32")
    submit.click()
    expect(page).to_have_url(re.compile("/jobs/j"))
    expect(page.get_by_role("heading", name="by the form")).to_be_visible()
    first = get_json(f"{server}/v1/jobs/{page.url.rsplit('/', 1)[1]}")
    assert (first["budget"]["trials"], first["target"], first["search"]) == (32, "cpu", JobOptions().search)

    page.get_by_role("link", name="Submit one like it").click()
    expect(page.get_by_label("Operator")).to_have_value("gemm:64x64x64:float32")
    expect(page.get_by_label("Trials")).to_have_value("32")
    model = tmp_path / "small.onnx"
    model.write_bytes(b"no model, which a worker would find out")
    page.locator("input[type=file]").set_input_files(model)
    expect(page.get_by_label("Known model")).to_have_value("small.onnx")
    expect(page.get_by_text("The model is being imported")).to_be_visible()
    expect(page.get_by_label("Operator")).to_have_value("")
    submit.click()
    expect(page.get_by_text("Importing the model")).to_be_visible()
    for number in (first["id"], page.url.rsplit("/", 1)[1]):
        assert page.request.post(f"{server}/v1/jobs/{number}/cancel").ok


def test_jobs_are_found_and_compared(page: Page, server: str) -> None:
    page.goto(server)
    page.get_by_label("Find").fill("NIGHTLY")
    expect(row(page, "Succeeded")).to_have_count(0)
    expect(row(page, "squeezenet nightly")).to_be_visible()
    page.get_by_label("Find").fill("100%")
    expect(page.get_by_text("No such job")).to_be_visible()
    page.get_by_label("Find").fill("")
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()
    for text in ("Succeeded", "squeezenet nightly"):
        row(page, text).get_by_role("checkbox").click()
    compare.click()
    expect(page).to_have_url(re.compile(r"/compare\?jobs=\w+,\w+"))
    expect(row(page, "Speed-up")).to_contain_text("42.7 ×")
    drawn = "() => " + CURVES
    page.wait_for_function(f"() => ({drawn})()?.every(line => line.data.length > 1)")
    assert [line["name"].rpartition(" ")[0] for line in page.evaluate(drawn)] == [
        "squeezenet-random.onnx",
        "squeezenet nightly",
    ]


def test_records_fleet_and_keys_have_pages(page: Page, server: str) -> None:
    page.goto(server)
    for name, cell in (("Devices", "board-7/cpu"), ("Workers", "workstation/cpu"), ("Records", "fused_softmax")):
        page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()
        expect(row(page, cell).first).to_be_visible()
    page.get_by_label("Operator or name").fill("softm")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="fused_softmax").click()
    best = get_json(f"{server}/v1/records?workload=fused_softmax&sort=latency&limit=1")["items"][0]
    expect(card(page, "Fastest records").locator("tbody tr").first).to_contain_text(fmt.latency(best["latency"]))
    page.get_by_role("navigation").get_by_role("link", name="Cost models", exact=True).click()
    expect(row(page, "xgboost")).to_contain_text("running")  # it is begun as soon as the coordinator is there
    row(page, "xgboost").get_by_role("link").click()
    expect(row(page, "1 (this one)")).to_contain_text("Queued")
    page.get_by_role("navigation").get_by_role("link", name="Models", exact=True).click()
    expect(row(page, "squeezenet-random.onnx")).to_contain_text("Ready")
    page.get_by_role("navigation").get_by_role("link", name="Keys", exact=True).click()
    expect(page.get_by_text("No key was made.")).to_be_visible()


def test_a_failed_job_shows_its_problem(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/broken")
    expect(page.get_by_text("none of the model's 2 tasks has a decision to take (nothing_to_tune)")).to_be_visible()
    expect(page.get_by_text("No tasks yet")).to_be_visible()
    expect(page.get_by_text("Nothing measured yet")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()


def test_figures_stay_in_their_cards_and_end_with_the_job(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/running")
    expect(page.get_by_text("Expected at the end")).to_be_visible()
    wide = "[...document.querySelectorAll('.ts-kpi')].filter(card => card.scrollWidth > card.clientWidth).length"
    assert page.evaluate(wide) == 0
    page.goto(f"{server}/jobs/done")
    expect(page.get_by_text("Elapsed")).to_be_visible()
    expect(page.get_by_text("Time left")).to_be_hidden()


def test_invented_figures_are_called_so(page: Page, server: str, folder: Path) -> None:
    engine = create_engine(f"sqlite:///{folder / 'tunesmith.db'}")

    def mark(simulated: bool) -> None:
        with session_factory(engine).begin() as session:
            session.get_one(Job, "done").simulated = simulated
            fastest = session.query(Record).filter_by(job_id="done").order_by(Record.latency.nulls_last()).first()
            fastest.environment = {**fastest.environment, "simulated": simulated}

    mark(simulated=True)
    page.goto(f"{server}/jobs/done")
    expect(page.get_by_text("Its latencies are invented; nothing was measured.")).to_be_visible()
    expect(page.get_by_text("Current latency, simulated")).to_be_visible()
    page.goto(server)
    expect(row(page, "Succeeded")).to_contain_text("(simulated)")
    page.goto(f"{server}/jobs/done/trials")
    expect(page.locator("tbody tr").first).to_contain_text("(simulated)")
    expect(page.get_by_text("Its latencies are invented; nothing was measured.")).to_be_visible()
    mark(simulated=False)
    engine.dispose()


def test_an_unknown_job_is_a_problem_and_a_wrong_address_has_a_page(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/nobody")
    expect(page.get_by_text("there is no job nobody (not_found)")).to_be_visible()
    missing = page.request.get(f"{server}/jobs/done/trails")
    assert missing.status == 404
    for text in ("No such page · Tunesmith", "There is no page at /jobs/done/trails.", "To the list of jobs"):
        assert text in missing.text()
    assert page.request.get(f"{server}/_nicegui/nothing.js").status == 404


def test_best_log_and_database_download(page: Page, server: str, tmp_path: Path) -> None:
    page.goto(f"{server}/jobs/done")
    with page.expect_download() as started:
        page.get_by_role("link", name="JSON log").click()
    assert started.value.suggested_filename == "best.jsonl"
    started.value.save_as(tmp_path / "best.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "best.jsonl").read_text().splitlines()]
    assert {line["schema"] for line in lines} == {"tunesmith.schedule/1"}
    assert {line["task"] for line in lines} == {layer[0] for layer in dashboard_rows.LAYERS}
    documented = json.loads(re.search(r"```json\n(.*?)```", LOG_PAGE.read_text("utf-8"), re.DOTALL).group(1))
    assert shape(lines[0]) == shape(documented)
    with page.expect_download() as started:
        page.get_by_role("link", name="MetaSchedule").click()
    started.value.save_as(tmp_path / "metaschedule.zip")
    with zipfile.ZipFile(tmp_path / "metaschedule.zip") as archive:
        assert {"database_workload.json", "database_tuning_record.json", "module.json"} <= set(archive.namelist())


def test_pages_fit_a_telephone_and_the_dark(browser: Browser, server: str) -> None:
    watched = Watched(browser, server, color_scheme="dark")
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 844})
    tasks, trials = (get_json(f"{server}/v1/jobs/done/{kind}?limit=1")["items"] for kind in ("tasks", "trials"))
    more = (f"/jobs/done/trials/{trials[0]['id']}", f"/jobs/done/tasks/{tasks[0]['id']}/analysis", *OTHERS)
    for path in ("/", "/jobs/done", "/jobs/done/trials", "/submit", "/compare?jobs=done,running", *more):
        page.goto(server + path)
        expect(page.locator(":is(tbody tr, .ts-drop, .ts-empty, .ts-login):visible").first).to_be_visible()
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (path, width)
        if path in more:
            continue
        dark = "() => getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(dark)
        page.get_by_role("button", name="Switch between light and dark").click()
        page.wait_for_function(f"before => ({dark})() !== before", arg=before)
    watched.context.close()
    assert watched.complaints == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_barrier(browser: Browser, server: str, colours: Any) -> None:
    watched = Watched(browser, server, color_scheme=colours)
    page, found, jobs = watched.page, {}, ("/jobs/done", "/jobs/done/trials", "/compare?jobs=done,running")
    for path in ("/", "/submit", "/workers/workstation/cpu", *jobs, *OTHERS):
        page.goto(server + path)
        page.wait_for_selector(":is(tbody tr, .ts-drop, .ts-login, .ts-empty, .ts-grid) >> visible=true")
        for violation in Axe().run(page).response["violations"]:
            found[path, violation["id"]] = [(node["html"][:90], node["any"][:1]) for node in violation["nodes"]]
    watched.context.close()
    assert not found


def test_a_job_is_changed_steered_and_deleted(page: Page, server: str) -> None:
    page.goto(f"{server}/jobs/running")
    state = page.locator("main .ts-badge").first
    expect(state).to_have_text("Running")
    page.get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Tags").fill('nightly two,words "')
    form.get_by_label("Trials").fill("900")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_text("tag 4, '\"', is no tag")).to_be_visible()
    form.get_by_label("Tags").fill("nightly two,words")
    form.get_by_label("Comment").fill("before the new rule")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("before the new rule", exact=True)).to_be_visible()
    changed = get_json(f"{server}/v1/jobs/running")
    assert (changed["tags"], changed["budget"]["trials"]) == (["nightly", "two", "words"], 900)
    page.get_by_role("button", name="Pause").click()
    expect(state).to_have_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("Running")
    cancel = page.get_by_role("button", name="Cancel")
    for answer, then in (("Let it run", "Running"), ("Stop it", "Cancelled")):
        cancel.click()
        page.get_by_role("dialog").get_by_role("button", name=answer).click()
        expect(state).to_have_text(then)
    expect(cancel).to_be_hidden()
    page.get_by_role("link", name="nightly").click()
    expect(row(page, "squeezenet nightly")).to_contain_text("words")
    expect(page.locator("main tbody tr")).to_have_count(1)
    expect(page.get_by_text("1 of 1")).to_be_visible()
    page.goto(f"{server}/jobs/running")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove it").click()
    expect(row(page, "Succeeded")).to_be_visible()
    expect(row(page, "squeezenet nightly")).to_have_count(0)
    assert get_json(f"{server}/v1/records/stats")["records"] > 500, "records stay"


def test_the_api_answers_with_problems_where_it_has_no_route(server: str) -> None:
    for path in ("/v1", "/v1/nothing", "/v1/jobs/nobody"):
        with pytest.raises(urllib.error.HTTPError) as error:
            get_json(server + path)
        with error.value as answer:
            assert (answer.code, answer.headers["content-type"]) == (404, "application/problem+json")
