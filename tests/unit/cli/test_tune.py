"""``tunesmith tune`` against a server that answers from a table."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from services.coordinator.requests import JobRequest
from tunesmith import extras
from tunesmith.cli import main, progress, tune
from tunesmith.errors import TargetUnavailable
from tunesmith.options import JobOptions
from tunesmith.states import JobState

pytestmark = pytest.mark.usefixtures("quick")
RUNNING = {"id": "j1", "state": "running", "progress": {"trials": 3, "trials_budget": 9, "seconds": 4}}


def no_stack(*arguments, **options):
    raise AssertionError("nothing may be started")


FULL = Path("/dev/full")


def test_tune_on_a_server_writes_the_result(run, server, tmp_path):
    done = RUNNING | {"state": "succeeded", "target": "cpu", "latency": {"untuned": 1.0, "current": 0.1, "speedup": 10}}
    server["GET /readyz"] = {}
    server["POST /v1/jobs"] = RUNNING
    server["GET /v1/jobs/j1"] = [RUNNING, done]
    server["GET /v1/jobs/j1/tasks"] = {"items": [{"id": 1, "name": "gemm", "weight": 1}], "next_cursor": None}
    line = json.dumps({"schema": "tunesmith.schedule/1"})
    empty_zip = b"PK\x05\x06" + bytes(18)
    server["GET /v1/jobs/j1/best"] = [httpx2.Response(200, text=line), httpx2.Response(200, content=empty_zip)]
    arguments = ("tune", "gemm:8x8x8:float32", "--trials", "9", "--out", str(tmp_path), "--json")
    status, out, err = run(*arguments)
    assert status == 0, err
    assert (tmp_path / "best.jsonl").read_text() == line
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary == out[0]
    assert summary["speedup"] == 10
    assert {"job", "model", "target", "trials", "seconds", "untuned_seconds", "tuned_seconds", "tasks"} <= set(summary)
    body = next(json.loads(request.content) for request in server["seen"] if request.method == "POST")
    assert body["budget"] == {"trials": 9, "stop_when_converged": False}


def test_tune_without_a_budget_takes_the_documented_one(run, server):
    server["GET /readyz"] = {}
    server["POST /v1/jobs"] = RUNNING
    server["GET /v1/jobs/j1"] = RUNNING | {"state": "succeeded"}
    server["GET /v1/jobs/j1/tasks"] = {"items": [], "next_cursor": None}
    assert run("tune", "gemm:8x8x8:float32", "--json")[0] == 0
    body = next(json.loads(request.content) for request in server["seen"] if request.method == "POST")
    assert 0 < body["budget"]["seconds"] <= tune.DEFAULT_SECONDS
    assert "trials" not in body["budget"]
    assert run("tune", "--help")[1].count(f"{tune.DEFAULT_SECONDS:g}")


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        ((), {}),
        (("--fast-math",), {"fast_math": True}),
        (("--no-fast-math",), {"fast_math": False}),
        (("--winograd",), {"winograd": True}),
        (("--no-winograd",), {"winograd": False}),
        (("--space", "tvm"), {"space": "tvm"}),
    ],
)
def test_what_a_preparation_may_do_is_the_servers_choice_unless_it_is_said(run, server, flags, sent):
    server["GET /readyz"] = {}
    server["POST /v1/jobs"] = RUNNING
    server["GET /v1/jobs/j1"] = RUNNING | {"state": "succeeded"}
    server["GET /v1/jobs/j1/tasks"] = {"items": [], "next_cursor": None}
    assert run("tune", "gemm:8x8x8:float32", *flags, "--json")[0] == 0
    body = next(json.loads(request.content) for request in server["seen"] if request.method == "POST")
    assert {name: value for name, value in body.items() if name in ("fast_math", "winograd", "space")} == sent


def test_everything_that_a_job_can_be_told_has_an_option(run, server):
    server["GET /readyz"] = {}
    server["POST /v1/jobs"] = RUNNING
    server["GET /v1/jobs/j1"] = RUNNING | {"state": "succeeded"}
    server["GET /v1/jobs/j1/tasks"] = {"items": [], "next_cursor": None}
    given = ("--name", "nightly", "--tag", "a", "--tag", "b", "--priority", "-3", "--no-warm-start", "--no-verify")
    given = (*given, "--until-converged")
    assert run("tune", "gemm:8x8x8:float32", "--trials", "9", *given, "--json")[0] == 0
    body = next(json.loads(request.content) for request in server["seen"] if request.method == "POST")
    wanted = {"name": "nightly", "tags": ["a", "b"], "priority": -3, "warm_start": False, "verify": False}
    assert {name: body[name] for name in wanted} == wanted
    assert body["budget"] == {"trials": 9, "stop_when_converged": True}
    fields = set(JobRequest.model_fields) - {"model_id", "operator", "budget"}
    of_collecting = {"kind", "operators", "per_task", "shard", "shards"}
    assert fields - of_collecting <= set(inspect.signature(tune.tune).parameters)


@pytest.mark.parametrize(
    ("field", "name", "module"), [("search", "ppo", "torch"), ("cost_model", "lightgbm", "lightgbm")]
)
def test_a_choice_whose_extra_is_missing_starts_nothing(run, monkeypatch, field, name, module):
    monkeypatch.setattr(tune, "EmbeddedStack", no_stack)
    monkeypatch.setattr(extras, "here", lambda wanted: wanted != module)
    arguments = ("tune", "gemm:8x8x8:float32", "--embedded", f"--{field.replace('_', '-')}", name, "--json")
    status, (problem,), _ = run(*arguments)
    assert (status, problem["code"], problem["extra"]) == (1, "missing_dependency", extras.CHOICES[name][0])
    assert module in problem["detail"]


def test_a_pt2_model_without_torch_starts_nothing(run, monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "EmbeddedStack", no_stack)
    monkeypatch.setattr(extras, "here", lambda wanted: wanted != "torch")
    monkeypatch.setattr(tune, "check_content", lambda model: None)
    model = tmp_path / "model.pt2"
    model.write_bytes(b"an archive")
    _, (problem,), _ = run("tune", str(model), "--embedded", "--json")
    assert (problem["code"], problem.get("extra")) == ("missing_dependency", "torch")


@pytest.mark.parametrize("name", ["best.jsonl", "metaschedule/download.zip", "summary.json"])
def test_a_full_disk_is_named_with_what_could_not_be_written(run, server, tmp_path, name):
    done = RUNNING | {"state": "succeeded", "target": "cpu"}
    server["GET /readyz"] = {}
    server["POST /v1/jobs"] = RUNNING
    server["GET /v1/jobs/j1"] = done
    server["GET /v1/jobs/j1/tasks"] = {"items": [], "next_cursor": None}
    zipped = httpx2.Response(200, content=b"PK\x05\x06" + bytes(18))
    server["GET /v1/jobs/j1/best"] = [httpx2.Response(200, text="{}"), zipped]
    target = tmp_path / "out" / (name if name == "summary.json" else f"{name}.part")
    target.parent.mkdir(parents=True)
    target.symlink_to(FULL)
    arguments = ("tune", "gemm:8x8x8:float32", "--trials", "9", "--out", str(tmp_path / "out"), "--json")
    status, (problem,), _ = run(*arguments)
    assert (status, problem["code"]) == (1, "disk_full")
    assert str(tmp_path / "out" / name) in problem["detail"]
    assert not list((tmp_path / "out").rglob("*.part"))


def test_a_stack_of_its_own_refuses_another_cpu_and_ends(run, server, monkeypatch, tmp_path):
    ended = []

    class Stack:
        url, resumed = "http://server", ()

        def __init__(self, *arguments, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            ended.append(error[0])

    monkeypatch.setattr(tune, "EmbeddedStack", Stack)
    server["GET /v1/devices"] = {"items": [{"name": "d", "device_classes": ["llvm-znver4-1"], "alive": True}]}
    other = '{"kind": "llvm", "mcpu": "cascadelake", "num-cores": 1}'
    arguments = ("tune", "gemm:8x8x8:float32", "--target", other, "--data-dir", str(tmp_path), "--json")
    status, (problem,), _ = run(*arguments)
    assert (status, problem["code"], ended) == (2, "target_unavailable", [TargetUnavailable])
    assert "llvm-cascadelake-1 (it has llvm-znver4-1)" in problem["detail"]
    assert not [request for request in server["seen"] if request.method == "POST"]


def test_interrupting_tune_leaves_a_running_servers_job_alone(run, server, monkeypatch):
    server["GET /readyz"] = {}
    server["POST /v1/jobs"] = RUNNING

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "follow", interrupt)
    status, _, err = run("tune", "gemm:8x8x8:float32", "--trials", "9")
    assert status == main.INTERRUPTED
    assert "jobs watch j1" in err
    assert not [request for request in server["seen"] if request.url.path.endswith("/cancel")]


def test_the_float32_model_is_tuned_where_auto_does_not_choose_int8(monkeypatch, tmp_path, capsys):
    chosen, cancelled, submitted = ["int8", "bf16", "float32"], [], []
    made = SimpleNamespace

    class Answers:
        url = "http://h"

        def upload_model(self, path, inputs):
            return made(id=path)

        def wait_model(self, model):
            return made(id=model)

        def submit(self, **values):
            submitted.append(values["model_id"])
            return made(id=f"j{len(submitted)}")

        def follow(self, job):
            data = {"precision": chosen[len(submitted) - 1], "reason": "auto chose otherwise"}
            return iter([made(kind="job_queued", data={}), made(kind="precision_chosen", data=data)])

        def cancel(self, job):
            cancelled.append(job)

    monkeypatch.setattr(tune, "follow", lambda client, job, display: made(id=job, state=JobState.SUCCEEDED))
    request = tune.Request("q.onnx", "cpu", 4, None, False, None, JobOptions(precision="auto"), wide="m.onnx")
    with progress.shown("tuning") as display:
        assert tune.run(Answers(), request, False, display)[0].id == "j1"
        assert tune.run(Answers(), request, False, display)[0].id == "j3"
    assert (submitted, cancelled) == (["q.onnx", "q.onnx", "m.onnx"], ["j2"])
    assert "the float32 model is tuned instead: auto chose otherwise" in capsys.readouterr().err
