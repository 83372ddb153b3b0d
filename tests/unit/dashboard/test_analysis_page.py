"""Charts of a task's analysis and of a device's history, and the rows beside them."""

from __future__ import annotations

from typing import Any

from services.dashboard import analysis, analysis_charts, compare, cost_model, device, families, listings, worker

KNOBS = [
    {"name": "loop_0[1]", "about": "factors", "importance": 0.6},
    {"name": "same", "about": "never changes", "importance": 0.0},
]


def point(trial: int, latency: float, score: float | None, values: list[float] | None) -> dict[str, Any]:
    return {"trial": trial, "round": trial, "latency": latency, "score": score, "values": values}


POINTS = [point(1, 0.002, 0.5, [4.0, 1.0]), point(2, 0.001, None, [8.0, 1.0]), point(3, 0.004, 0.1, None)]


def test_scores_stand_against_latencies_and_rounds_are_colours() -> None:
    options = analysis_charts.predicted(POINTS)
    assert options["dataset"]["source"] == [[0.5, 2.0, 1, 1], [0.1, 4.0, 3, 3]]
    assert (options["visualMap"]["min"], options["visualMap"]["max"]) == (1, 3)
    assert analysis_charts.predicted([])["yAxis"]["type"] == "value"
    rounds = [{"round": 1, "pairwise": 0.75, "top1": None}, {"round": 2, "pairwise": None, "top1": 1.0}]
    pairs, best = analysis_charts.ranking(rounds)["series"]
    assert (pairs["data"], best["data"]) == ([[1, 75.0]], [[2, 100.0]])


def test_coordinates_leave_out_what_never_changes_and_end_with_the_latency() -> None:
    options = analysis_charts.parallel(KNOBS, POINTS)
    assert [axis["name"] for axis in options["parallelAxis"]] == ["loop_0[1]", "latency (ms)"]
    assert options["series"][0]["data"] == [[4.0, 2.0], [8.0, 1.0]]
    assert options["visualMap"]["dimension"] == 1
    assert analysis_charts.parallel([], [])["series"][0]["data"] == []
    bars = analysis_charts.importance(KNOBS)
    assert (bars["yAxis"]["data"], bars["series"][0]["data"]) == (["same", "loop_0[1]"], [0.0, 60.0])
    assert analysis_charts.slices("loop_0[1]", 0, POINTS)["dataset"]["source"] == [[4.0, 2.0, 1, 1], [8.0, 1.0, 2, 2]]
    assert analysis.knob_rows({"knobs": KNOBS})[0]["importance"] == "60.0 %"
    sketches = [{"sketch": "ab" * 32, "trials": 40, "latency": 0.002}, {"sketch": None, "trials": 1, "latency": 0.1}]
    assert analysis.sketch_options({"sketches": sketches}) == {"ab" * 32: "abababababab: 40 trials, 2.00 ms"}


def test_a_device_is_drawn_over_time() -> None:
    step = {"start": "2026-01-01T00:00:00Z", "seen": 600.0, "busy": 150.0, "noise_floor": 0.02, "drift": 1.1}
    away = {**step, "seen": 0.0, "busy": 0.0, "noise_floor": None, "drift": None}
    drift, noise, used = (line["data"] for line in device.history([step, away])["series"])
    assert [drift[0][1], noise[0][1], used[0][1]] == [1.1, 2.0, 25.0]
    assert [drift[1][1], noise[1][1], used[1][1]] == [None, None, None]


def test_a_worker_is_idle_or_works_and_says_what_it_broke_on() -> None:
    idle = {"name": "search@h", "roles": ["core"], "queues": ["search"], "version": "", "alive": True, "holds": 0}
    row = listings.worker_row({**idle, "seen_at": None, "failures": []})
    assert (row["state"], row["version"], row["failed"], row["what"]) == ("idle", "–", "–", "core, search")
    assert row["link"] == "/workers/search%40h"
    failures = [{"kind": "round", "row": "7", "problem": {"detail": "it broke"}}] * 2
    row = listings.worker_row({**idle, "holds": 2, "seen_at": None, "version": "0.1.0", "failures": failures})
    assert (row["state"], row["failed"]) == ("working", "Round 7: it broke (and 1 before)")


def test_lines_of_a_log_say_when_how_bad_and_from_where() -> None:
    line = {"at": "2026-01-01T00:00:00Z", "level": "error", "logger": "tunesmith.x", "process": 7, "text": "<b>\nno"}
    first, second = worker.line_rows([line, {**line, "level": "info"}])
    assert (first["colour"], second["colour"]) == ("bad", "idle")
    assert (first["source"], first["text"]) == ("tunesmith.x (7)", "<b>\nno")
    failures = [{"kind": "round", "row": "7", "problem": {"title": "No"}, "created_at": "2026-01-01T00:00:00Z"}]
    (row,) = worker.failure_rows(failures)
    assert (row["what"], row["why"]) == ("Round 7", "No")


def test_versions_of_a_cost_model_are_of_one_job_or_target_and_have_a_line_for_each_metric() -> None:
    first = {"id": "a", "kind": "xgboost", "job_id": "j", "target": "t", "precision": "float32", "number": 1}
    first |= {"state": "done", "trained_on": 64, "trained_through": 70, "simulated": False, "error": None}
    first |= {"created_at": "2026-01-01T00:00:00Z", "metrics": {"pair_accuracy": 0.7, "text": "x"}}
    second = {**first, "id": "b", "number": 2, "metrics": {"pair_accuracy": 0.8, "rmse": 0.1}, "trained_through": 140}
    failed = {**first, "id": "c", "number": 3, "metrics": None, "error": {"detail": "no memory"}, "trained_through": 0}
    other = {**first, "id": "d", "job_id": None}
    versions = cost_model.family(first, [failed, second, other])
    assert [each["id"] for each in versions] == ["a", "b", "c"]
    assert cost_model.family(other, [{**other, "id": "e", "target": "u"}]) == [other]
    rows = cost_model.version_rows(versions, "a")
    assert [(row["number"], row["link"]) for row in rows[1:]] == [("2", "/costmodels/b"), ("1 (this one)", "")]
    assert (rows[0]["metrics"], rows[0]["through"]) == ("no memory", "–")
    drawn = cost_model.over_versions(versions)
    assert [line["data"] for line in drawn["series"]] == [[0.7, 0.8, None], [None, 0.1, None]]
    assert drawn["xAxis"]["data"] == ["1", "2", "3"]


def test_a_model_says_why_it_was_rejected_and_a_long_name_is_cut() -> None:
    model = {"id": "m", "name": "n", "source": "onnx", "tasks": 0, "size": 0, "owner": "", "note": None}
    model |= {"state": "rejected", "error": {"detail": "no model"}, "created_at": "2026-01-01T00:00:00Z"}
    row = listings.model_row(model)
    assert (row["state"], row["owner"], row["size"]) == ("Rejected: no model", "–", "–")
    assert compare.title({"id": "j-0123456789", "name": "x" * 100}) == f"{'x' * 35}… (456789)"


def test_the_family_with_the_most_trials_comes_first() -> None:
    pool = {"name": "pool", "tasks": 1, "trials": 8, "failures": 0, "untuned_latency": None, "best_latency": None}
    conv = {**pool, "name": "conv2d", "trials": 24, "untuned_latency": 0.04, "best_latency": 0.01, "budget_share": 0.75}
    first, second = families.rows([{**pool, "budget_share": 0.25}, conv])
    assert (first["name"], first["trials"], first["speedup"]) == ("conv2d", "24 (75.0 %)", "4.00 ×")
    assert (second["best"], second["speedup"]) == ("–", "–")
