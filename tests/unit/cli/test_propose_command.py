"""`tunesmith propose` against a server that answers from a table."""

from __future__ import annotations

import json

KNOBS = [
    {"name": "matmul.loop_0", "decision": [4, 64], "value": [4, 64], "about": "factors"},
    {"name": "unroll", "decision": 1, "value": 16, "about": "steps"},
]
FOUND = {"id": 5, "set": 2, "source": "person", "author": "ann", "state": "judging", "reason": None, "sketch": "ab"}
FOUND |= {"knobs": KNOBS, "estimate": None, "score": None, "trial": None, "latency": None, "failure": None}
FOUND |= {"created_at": "2026-01-01T00:00:00Z"}
PATH = "/v1/jobs/j-1/tasks/3"


def page(**change: object) -> dict[str, object]:
    return {"items": [FOUND | change], "next_cursor": None, "total": 1}


def sent(server):
    request = next(each for each in server["seen"] if each.method == "POST")
    return json.loads(request.content)


def test_a_file_is_proposed_and_waited_for(run, server, tmp_path):
    file = tmp_path / "candidates.json"
    file.write_text(json.dumps([{"sketch": "ab", "knobs": {"unroll": 1}}]))
    server[f"POST {PATH}/proposals"] = page()
    waiting, measured = page(state="waiting", estimate=2e-4), page(state="measured", latency=1.5e-3, trial=7)
    server[f"GET {PATH}/proposals"] = [waiting, measured]
    status, shown, said = run("propose", "j-1", "3", str(file), "--author", "ann", "--source", "agent", "--wait")
    assert status == 0, said
    assert "measured  1.5 ms" in shown
    body = {
        "candidates": [{"sketch": "ab", "knobs": {"unroll": 1}}],
        "source": "agent",
        "author": "ann",
        "measure": True,
    }
    assert sent(server) == body
    server[f"GET {PATH}/proposals"] = waiting
    assert "200 µs" in run("trials", "proposals", "j-1", "3")[1]


def test_knobs_change_the_champion(run, server):
    champion = {"trial": 9, "latency": 1e-3, "sketch": "ab", "knobs": KNOBS}
    space = {"task": 3, "name": "t", "workload": "w", "points": 1.0, "sketches": [], "failures": []}
    server[f"GET {PATH}/space"] = space | {"champion": champion}
    server[f"POST {PATH}/proposals"] = page(state="refused", reason="it makes the same program as trial 9")
    shown = run("propose", "j-1", "3", "--knob", "matmul.loop_0=8,32", "--knob", "unroll=2")[1]
    assert "same program as trial 9" in shown
    assert sent(server)["candidates"] == [{"sketch": "ab", "knobs": {"matmul.loop_0": [8, 32], "unroll": 2}}]
    server[f"GET {PATH}/space"] = space | {"champion": None}
    assert run("propose", "j-1", "3", "--knob", "unroll=2", "--json")[1][0]["code"] == "invalid_input"


def test_what_is_no_candidate_is_refused_before_it_is_sent(run, server, tmp_path):
    file = tmp_path / "candidates.json"
    for text in ("{", "[]", "[1]", '"x"'):
        file.write_text(text)
        assert run("propose", "j-1", "3", str(file), "--json")[1][0]["code"] == "invalid_input", text
    for arguments in ((), (str(file), "--knob", "unroll=1"), ("--knob", "unroll")):
        status, shown, _ = run("propose", "j-1", "3", *arguments, "--json")
        assert (status, shown[0]["code"]) == (2, "invalid_input"), arguments
