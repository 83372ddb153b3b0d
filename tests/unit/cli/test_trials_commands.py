"""`tunesmith trials` against a server that answers from a table."""

from __future__ import annotations

ROW = {"id": 7, "task": 3, "task_name": "fused_matmul", "batch": 1, "index": 0, "workload": "1", "sketch": "ab" * 32}
ROW |= {"latency": 0.002, "samples": [0.002], "interval": [0.0019, 0.0021], "failure": None, "message": ""}
ROW |= {"build_seconds": 0.1, "run_seconds": 0.1, "device_seconds": 0.1, "stopped": None, "duplicate": False}
ROW |= {"decisions": [[4, 64], 1], "confirmation": None, "environment": {}, "created_at": "2026-01-01T00:00:00Z"}
KNOBS = [
    {"name": "matmul.loop_0", "decision": [4, 64], "value": [4, 64], "about": "factors"},
    {"name": "unroll", "decision": 1, "value": 16, "about": "steps"},
]
DETAIL = ROW | {"knobs": KNOBS, "untuned_latency": 0.02, "best_latency": 0.001}
DETAIL |= {"gflops": 33.5, "batch_size": 8, "predicted_place": 2, "measured_place": 1}
DETAIL |= {"predicted_score": 0.71, "uncertainty": 0.042}


def test_trials_are_listed_and_shown(run, server):
    server["GET /v1/jobs/j-1/trials"] = {"items": [ROW], "next_cursor": None}
    _, shown, said = run("trials", "list", "j-1", "--task", "3")
    assert "2 ms" in shown, said
    asked = next(request for request in server["seen"] if request.url.path.endswith("/trials"))
    assert dict(asked.url.params) == {"task": "3", "sort": "latency", "limit": "50"}
    server["GET /v1/jobs/j-1/trials/7"] = DETAIL
    shown = run("trials", "show", "j-1", "7")[1]
    assert "fused_matmul (3)" in shown
    assert "2 ms, 1.9 ms to 2.1 ms" in shown
    assert "1 of 8, 2 predicted" in shown
    assert "0.71 ± 0.042" in shown
    assert [line.split() for line in shown.splitlines() if "unroll" in line] == [["unroll", "16"]]


def test_a_program_is_waited_for_and_shown_as_a_difference(run, server):
    waiting = {"state": "queued", "error": None, "plain": None, "scheduled": None}
    done = {"state": "done", "error": None, "plain": "a\nb\n", "scheduled": "a\nc\n"}
    server["POST /v1/jobs/j-1/trials/7/program"] = [waiting, done]
    assert run("trials", "program", "j-1", "7")[1].startswith("a\nc\n")
    server["POST /v1/jobs/j-1/trials/7/program"] = done
    shown = run("trials", "program", "j-1", "7", "--diff")[1]
    assert "-b\n+c\n" in shown
    problem = {"code": "invalid_candidate", "detail": "the trace does not apply"}
    server["POST /v1/jobs/j-1/trials/7/program"] = waiting | {"state": "failed", "error": problem}
    assert run("trials", "program", "j-1", "7", "--json")[1][0]["code"] == "invalid_candidate"


def test_knobs_are_told_by_what_they_explain(run, server):
    knobs = [{"name": "matmul.loop_0[1]", "about": "factors", "importance": 0.62}]
    rounds = [{"round": n, "programs": 16, "pairwise": right, "top1": None} for n, right in ((1, None), (2, 0.75))]
    found = {"task": 3, "name": "fused_matmul", "simulated": False, "trials": 40, "sketch": "ab", "sketches": []}
    server["GET /v1/jobs/j-1/tasks/3/analysis"] = found | {"knobs": knobs, "points": [], "rounds": rounds}
    shown = run("trials", "knobs", "j-1", "3")[1]
    assert "62%" in shown
    assert "40 trials of fused_matmul; the cost model ordered 75% of the pairs of its rounds right" in shown
