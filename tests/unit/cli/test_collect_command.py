"""``tunesmith dataset collect`` against a server that answers from a table."""

from __future__ import annotations

import json

import pytest

from tunesmith.cli import tune
from tunesmith.dataset.workloads import content_hash
from tunesmith.operators import parse_operator

pytestmark = pytest.mark.usefixtures("quick")
LIST = ("gemm:64x64x64:float32", "softmax:8x128:float32")
JOB = {
    "id": "j1",
    "model_id": "m1",
    "state": "running",
    "kind": "collect",
    "target": "cpu",
    "search": "uniform",
    "per_task": 8,
    "progress": {"trials": 9, "failures": 1, "labels": 12, "labels_wanted": 16, "tasks_tunable": 2, "seconds": 3},
}
BEGUN = JOB | {"progress": {"trials": 4, "failures": 1, "rounds": 2, "rounds_in_flight": 1, "tasks_tunable": 2}}
DONE = JOB | {"state": "succeeded", "stop_reason": "collected"}
NOTHING = {"items": [], "next_cursor": None}


@pytest.fixture
def ready(server, tmp_path):
    """A server without jobs, and a list."""
    (tmp_path / "list.txt").write_text("\n".join(LIST))
    rounds = [
        {"number": number, "metrics": metrics}
        for number, metrics in enumerate(({"run_seconds": 900.0}, {"run_seconds": 1800.0}, None), 1)
    ]
    server |= {
        "GET /readyz": {},
        "GET /v1/jobs": NOTHING,
        "GET /v1/devices": NOTHING,
        "POST /v1/jobs": JOB,
        "GET /v1/jobs/j1": [BEGUN, JOB, DONE],
        "GET /v1/jobs/j1/rounds": {"items": rounds, "next_cursor": None},
    }
    return server, ("dataset", "collect", "--workloads", str(tmp_path / "list.txt"), "--per-task", "8")


def sent(server, method):
    return [json.loads(request.content) for request in server["seen"] if request.method == method and request.content]


def test_a_list_is_submitted_followed_and_summed_up(run, ready):
    server, command = ready
    status, out, err = run(*command, "--shard", "2/4", "--time", "60", "--json")
    assert status == 0, err
    (body,) = sent(server, "POST")
    assert (body["kind"], body["per_task"], body["shard"], body["shards"]) == ("collect", 8, 1, 4)
    assert (body["operators"], body["budget"]["seconds"]) == (list(LIST), 60)
    assert out[0].items() >= {"records": 5, "valid": 5, "failed": 0, "labels": 12, "device_hours": 0.5}.items()
    server["GET /v1/jobs/j1"] = [BEGUN, JOB, DONE]
    text = run(*command)
    assert "labelling  12/16 labels  3.00 a second, 89% valid" in text[2]
    assert "5: 5 valid, 0 failed" in text[1]


def test_an_unfinished_job_of_the_same_list_continues(run, ready):
    server, command = ready
    server["GET /v1/jobs"] = {"items": [JOB | {"state": "paused"}], "next_cursor": None}
    server["GET /v1/models/m1"] = {"id": "m1", "sha256": content_hash(list(map(parse_operator, LIST)))}
    server["POST /v1/jobs/j1/resume"] = server["PATCH /v1/jobs/j1"] = JOB
    status, out, err = run(*command, "--time", "60", "--json")
    assert (status, out[0]["jobs"]) == (0, ["j1"]), err
    assert [request.url.path for request in server["seen"] if request.method == "POST"] == ["/v1/jobs/j1/resume"]
    assert sent(server, "PATCH") == [{"budget": {"seconds": 63}}]
    server["GET /v1/jobs/j1"] = [JOB, DONE]
    run(*command, "--seed", "1", "--json")
    assert len(sent(server, "POST")[-1]["operators"]) == 2, "another seed is another run"


def test_drawn_operators_are_a_job_for_each_precision(run, ready):
    server, _ = ready
    narrow = {"peak_flops": 1, "narrow_flops": {"bf16": 1.0}, "bandwidth": 1, "noise_floor": 0.1}
    server["GET /v1/devices"] = {"items": [{"alive": True, "calibration": narrow}], "next_cursor": None}
    assert run("dataset", "collect", "--families", "gemm,softmax", "--count", "3", "--json")[0] == 0
    assert [[text.rsplit(":")[-1] for text in body["operators"]] for body in sent(server, "POST")] == [
        ["float32"] * 3,
        ["bf16"] * 3,
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to collect: give --workloads FILE, --models FILE or --families"),
        (("--families", "conv9d"), "there is no family 'conv9d'"),
        (("--families", "gemm", "--shard", "4"), "--shard must look like 2/4"),
        (("--families", "gemm", "--sampler", "best"), "there is no search 'best'"),
        (("--families", "gemm", "--precision", "int4"), "the type 'int4' is not one of"),
        (("--workloads", "none.txt"), "cannot read --workloads none.txt: No such file"),
    ],
)
def test_what_cannot_be_collected_is_refused_before_anything_is_started(run, monkeypatch, arguments, said):
    monkeypatch.setattr(tune, "DEFAULT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(tune, "EmbeddedStack", None)
    status, out, _ = run("dataset", "collect", *arguments, "--json")
    assert status == 2
    assert said in out[0]["detail"]
