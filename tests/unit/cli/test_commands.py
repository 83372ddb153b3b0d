"""Commands against a server that answers from a table: statuses, output, errors."""

from __future__ import annotations

import contextlib
import json
from importlib.metadata import EntryPoint
from pathlib import Path

import httpx2
import pytest

from tunesmith.cli import main, options, plugins, tune
from tunesmith.errors import StackFailed, Unauthorized

pytestmark = pytest.mark.usefixtures("quick")
RUNNING = {"id": "j1", "state": "running", "progress": {"trials": 3, "trials_budget": 9, "seconds": 4}}


def no_stack(*arguments, **options):
    raise AssertionError("nothing may be started")


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        ((), "usage", 2),
        (("bogus",), "usage", 2),
        (("tune",), "usage", 2),
        (("tune", "gemm:8x8x8:float32", "--trials", "many"), "usage", 2),
        (("jobs", "show"), "usage", 2),
        (("jobs", "list", "--nope"), "usage", 2),
        (("tune", "no-such-file.onnx", "--trials", "4"), "not_a_model", 2),
        (("tune", "gemm:8x8:float32", "--trials", "4"), "invalid_operator", 2),
        (("tune", "gemm:8x8x8:float32", "--trials", "0", "--time", "9"), "invalid_budget", 2),
        (("tune", "gemm:8x8x8:float32", "--trials", "-5"), "invalid_budget", 2),
        (("tune", "gemm:8x8x8:float32", "--time", "0"), "invalid_budget", 2),
        (("tune", "gemm:8x8x8:float32", "--time", "nan"), "invalid_budget", 2),
        (("tune", "gemm:8x8x8:float32", "--search", "magic"), "unknown_searcher", 2),
        (("tune", "gemm:8x8x8:float32", "--cost-model", "magic"), "unknown_cost_model", 2),
        (("tune", "gemm:8x8x8:float32", "--allocator", "magic"), "unknown_allocator", 2),
        (("tune", "gemm:8x8x8:float32", "--target", "abacus"), "unknown_target", 2),
        (("tune", "gemm:8x8x8:float32", "--target", "nvidia/nvidia-h100"), "target_unavailable", 2),
        (("tune", "gemm:8x8x8:float32", "--target", "cpu:1000"), "target_unavailable", 2),
        (("tune", "gemm:8x8x8:float32", "--input", "x"), "invalid_input", 2),
        (("tune", "gemm:8x8x8:float32", "--input", "x=8,8"), "invalid_input", 2),
        (("tune", str(Path(__file__).parent), "--trials", "4"), "not_a_model", 2),
        (("tune", __file__, "--trials", "4"), "not_a_model", 2),
        (("tune", "gemm:8x8x8:float32", "--trials", "1000000000"), "invalid_budget", 2),
        (("tune", "gemm:8x8x8:float32", "--time", "1e12"), "invalid_budget", 2),
        (("tune", "gemm:8x8x8:float32", "--seed", "-1"), "invalid_input", 2),
        (("tune", "gemm:8x8x8:float32", "--out", f"{__file__}/out"), "invalid_input", 2),
        (("tune", "gemm:8x8x8:float32", "--out", "/proc/out"), "invalid_input", 2),
        (("tune", "gemm:8x8x8:float32", "--server", "http://127.0.0.1:9"), "server_unreachable", 1),
        (("best", "j1", "-o", str(Path(__file__).parent)), "invalid_input", 2),
        (("best", "j1", "-o", "/proc/best.jsonl"), "invalid_input", 2),
        (("best", "j1", "--format", "metaschedule", "-o", __file__), "invalid_input", 2),
        (("best", "j1", "--format", "xml"), "usage", 2),
        (("jobs", "list", "--server", "http://127.0.0.1:9"), "server_unreachable", 1),
        (("device", "list", "--server", "nonsense"), "server_unreachable", 1),
    ],
)
def test_errors_are_problem_objects_with_the_right_status(run, monkeypatch, arguments, code, status):
    monkeypatch.setattr(tune, "EmbeddedStack", no_stack)
    monkeypatch.setattr(tune, "DEFAULT_URL", "http://127.0.0.1:9")
    got, out, err = run(*arguments, "--json")
    assert [problem["code"] for problem in out] == [code], err
    assert got == status


def test_errors_for_people_go_to_stderr(run):
    status, out, err = run("tune", "no-such-file.onnx")
    assert (status, out) == (2, "")
    assert "not_a_model" in err
    assert "no-such-file.onnx" in err


def test_the_servers_problem_keeps_its_code(run, server):
    status, out, _ = run("jobs", "show", "j9", "--json")
    assert (status, out[0]["code"]) == (1, "not_found")


def test_jobs_list_and_show(run, server):
    server["GET /v1/jobs"] = {"items": [RUNNING], "next_cursor": None}
    server["GET /v1/jobs/j1"] = RUNNING | {"waiting_for": {"device_class": "nvidia-h100"}}
    status, out, _ = run("jobs", "list", "--json")
    assert status == 0
    assert out[0]["items"][0]["id"] == "j1"
    assert "3/9" in run("jobs", "list")[1]
    server["GET /v1/jobs/j1/forecast"] = {"expected": 0.0023, "low": 0.0021, "high": 0.0025, "level": 0.9}
    shown = run("jobs", "show", "j1")[1]
    assert "nvidia-h100" in shown
    assert "at the end  2.3 ms, 2.1 ms to 2.5 ms (90%)" in shown
    server["GET /v1/jobs/j1/forecast"] = {"expected": None}
    assert "at the end" not in run("jobs", "show", "j1")[1]


def test_the_newest_job_is_called_last(run, server):
    server["GET /v1/jobs"] = {"items": [RUNNING], "next_cursor": None}
    server["GET /v1/jobs/j1"] = RUNNING
    assert run("jobs", "show", "last", "--json")[1][0]["id"] == "j1"
    asked = next(request for request in server["seen"] if request.url.path == "/v1/jobs")
    assert dict(asked.url.params) == {"sort": "-created_at", "limit": "1"}
    server["GET /v1/jobs"] = {"items": [], "next_cursor": None}
    status, (problem,), _ = run("best", "last", "--json")
    assert (status, problem["code"]) == (1, "not_found")


def test_a_checked_job_is_shown_with_its_reference_and_its_check(run, server):
    reference = {
        "runtime": "onnxruntime",
        "seconds": 0.0066,
        "ratio": 0.7576,
        "interval": [0.7354, 0.7801],
        "verdict": "faster",
    }
    check = {"state": "nothing_checked", "error": 0.0, "tolerance": 0.01, "signal": 0.0}
    server["GET /v1/jobs/j1"] = RUNNING | {"state": "succeeded", "reference": reference, "check": check}
    shown = run("jobs", "show", "j1")[1]
    assert "reference   0.758 of onnxruntime's 6.6 ms (0.735 to 0.78)" in shown
    assert "outputs     nothing was checked: they hardly depend on the inputs" in shown


def test_jobs_watch_ends_with_the_job(run, server):
    server["GET /v1/jobs/j1"] = [RUNNING, RUNNING, RUNNING | {"state": "succeeded"}]
    assert run("jobs", "watch", "j1")[0] == 0


def test_jobs_watch_of_a_failing_job_fails(run, server):
    error = StackFailed("why").problem()
    server["GET /v1/jobs/j1"] = [RUNNING, RUNNING | {"state": "failed", "error": error}]
    status, _, err = run("jobs", "watch", "j1")
    assert status == 1
    assert "stack_failed" in err


def test_jobs_set_sends_what_changes(run, server):
    server["PATCH /v1/jobs/j1"] = RUNNING
    assert run("jobs", "set", "j1", "--priority", "3", "--trials", "50")[0] == 0
    assert json.loads(server["seen"][-1].content) == {"priority": 3, "budget": {"trials": 50}}


def test_keys_are_made_listed_and_revoked(run, capsys, server):
    made = {"id": "k1", "owner": "ann", "scopes": ["viewer"], "created_at": "2026-01-01T00:00:00Z"}
    server["POST /v1/keys"] = {**made, "key": "tsm_k1_secret"}
    server["GET /v1/keys"] = {"items": [made], "next_cursor": None}
    server["DELETE /v1/keys/k1"] = httpx2.Response(204)
    assert main.run_command_line(("keys", "create", "--owner", "ann", "--scope", "viewer")) == 0
    assert capsys.readouterr().out.strip() == "tsm_k1_secret"
    assert json.loads(server["seen"][-1].content) == {"owner": "ann", "scopes": ["viewer"]}
    assert run("keys", "create", "--json")[1][0]["key"] == "tsm_k1_secret"
    assert json.loads(server["seen"][-1].content) == {"owner": "local", "scopes": ["user"]}
    listed = run("keys", "list", "--json")[1][0]
    assert [(item["id"], "key" in item) for item in listed] == [("k1", False)]
    assert run("keys", "revoke", "k1", "--json")[:2] == (0, [{"id": "k1", "revoked": True}])


def test_models_are_listed_shown_and_deleted(run, capsys, server):
    model = {"id": "m1", "name": "net", "source": "onnx", "state": "ready", "tasks": 1}
    server["GET /v1/models"] = {"items": [model], "next_cursor": None}
    server["GET /v1/models/m1"] = model
    server["GET /v1/models/m1/tasks"] = {"items": [{"name": "conv", "weight": 2, "workload": "w"}], "next_cursor": None}
    server["DELETE /v1/models/m1"] = httpx2.Response(204)
    assert run("models", "list", "--json")[1][0]["items"][0]["tasks"] == 1
    assert run("models", "show", "m1", "--json")[1][0]["task_list"][0]["name"] == "conv"
    assert main.run_command_line(("models", "show", "m1")) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("net", "ready", "conv"))
    assert run("models", "delete", "m1", "--json")[:2] == (0, [{"id": "m1", "deleted": True}])
    assert server["seen"][-1].method == "DELETE"


def test_a_model_is_uploaded_and_waited_for(run, server, monkeypatch, tmp_path):
    monkeypatch.setattr("tunesmith.cli.models.check_content", lambda model: None)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"a model")
    model = {"id": "m1", "name": "mine", "source": "onnx", "state": "importing", "tasks": 0}
    server["POST /v1/models"] = model
    server["GET /v1/models/m1"] = [model, model | {"state": "ready", "tasks": 7}]
    arguments = ("models", "upload", str(path), "--name", "mine", "--input", "x=1,3", "--json")
    status, (found,), _ = run(*arguments)
    assert (status, found["state"], found["tasks"]) == (0, "ready", 7)
    sent = next(request for request in server["seen"] if request.method == "POST").read()
    assert b"mine" in sent
    assert b'{"x": [1, 3]}' in sent
    assert run("models", "upload", str(tmp_path / "none.onnx"), "--json")[:1] == (2,)


def test_the_audit_is_listed(run, server):
    entry = {
        "id": 3,
        "owner": "ann",
        "address": "10.0.0.7",
        "action": "POST /v1/jobs",
        "target": "/v1/jobs",
        "status": 202,
        "created_at": "2026-01-01T00:00:00Z",
    }
    server["GET /v1/audit"] = {"items": [entry], "next_cursor": None}
    assert run("keys", "audit", "--owner", "ann", "--json")[1][0]["items"][0]["id"] == 3
    assert dict(server["seen"][-1].url.params) == {"owner": "ann", "limit": "50"}
    shown = run("keys", "audit")[1]
    assert all(text in shown for text in ("10.0.0.7", "POST /v1/jobs", "202"))


def test_device_list(run, server):
    server["GET /v1/devices"] = {"items": [{"name": "d", "device_classes": ["llvm-x-2"], "alive": True}]}
    assert run("device", "list", "--json")[1][0][0]["name"] == "d"


def test_device_list_shows_what_devices_can_do_and_how_they_are(capsys, server):
    figures = {
        "peak_flops": 5.3e11,
        "bandwidth": 3.8e10,
        "noise_floor": 0.021,
        "drift": 1.62,
        "measured_at": "2026-01-01T00:00:00Z",
    }
    sick = {
        "name": "sick",
        "alive": True,
        "device_classes": ["llvm-x-2"],
        "health": "quarantined",
        "calibration": figures,
    }
    server["GET /v1/devices"] = {"items": [sick, {"name": "new", "health": "ok", "calibration": None}]}
    assert main.run_command_line(("device", "list")) == 0
    lines = capsys.readouterr().out.splitlines()
    (first,), (second,) = ([line for line in lines if name in line] for name in ("sick", "new"))
    for text in ("quarantined", "530 GFLOP/s", "38 GB/s", "2.1%", "1.62"):
        assert text in first
    assert second.count("–") == 4


@pytest.mark.parametrize(
    ("given", "url"),
    [("localhost:8741", "http://localhost:8741"), ("lab", "http://lab"), ("https://lab/tune/", "https://lab/tune")],
)
def test_a_server_needs_no_scheme(given, url):
    with options.connect(given, None) as client:
        assert client.url == url


def test_a_list_of_jobs_fits_80_columns_and_marks_invented_latencies(run, monkeypatch, server):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tunesmith.cli.output.WIDE", 80)
    progress = {"trials": 10000, "trials_budget": 20000, "tasks_tunable": 123, "tasks_measured": 117}
    jobs = [
        {
            "id": "j-00112233445566aa",
            "state": "cancelling",
            "name": "efficientnet_lite4_quantized.onnx",
            "progress": progress,
        },
        {
            "id": "j-00112233445566bb",
            "state": "succeeded",
            "name": "net",
            "simulated": True,
            "progress": progress,
            "latency": {"untuned": 0.2, "current": 0.0123, "speedup": 16.2, "source": "simulated"},
        },
    ]
    server["GET /v1/jobs"] = {"items": jobs, "next_cursor": None}
    lines = run("jobs", "list")[1].splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
    first, second, note = lines[1:]
    assert "117/123 tasks" in first
    assert first.startswith("j-00112233445566aa  cancelling  10000/20000  ")
    assert "12.3 ms*" in second
    assert note == "* invented by a simulated device, nothing was measured"
    server["GET /v1/jobs"] = {"items": jobs[:1], "next_cursor": None}
    assert "invented" not in run("jobs", "list")[1]


def test_jobs_are_sorted_renamed_and_deleted(run, server):
    server["GET /v1/jobs"] = {"items": [], "next_cursor": None}
    assert run("jobs", "list", "--sort", "-priority", "--target", "cpu", "--cursor", "c")[0] == 0
    assert dict(server["seen"][-1].url.params) == {"sort": "-priority", "target": "cpu", "cursor": "c", "limit": "50"}
    server["PATCH /v1/jobs/j1"] = RUNNING | {"tags": ["b"]}
    assert run("jobs", "set", "j1", "--name", "new")[0] == 0
    assert json.loads(server["seen"][-1].content) == {"name": "new"}
    tagged = ("--tag", "b", "--tag", "a", "--comment", "a second try")
    assert "tags        b" in run("jobs", "set", "j1", *tagged)[1]
    assert json.loads(server["seen"][-1].content) == {"tags": ["b", "a"], "comment": "a second try"}
    assert run("jobs", "set", "j1", "--no-tags")[0] == 0
    assert json.loads(server["seen"][-1].content) == {"tags": []}
    assert run("jobs", "set", "j1", "--no-tags", "--tag", "x")[0] == 2
    run("jobs", "list", "--tag", "b", "--owner", "ann")
    assert dict(server["seen"][-1].url.params) == {"sort": "-created_at", "tag": "b", "owner": "ann", "limit": "50"}
    server["DELETE /v1/jobs/j1"] = httpx2.Response(204)
    assert run("jobs", "delete", "j1", "--json")[:2] == (0, [{"id": "j1", "deleted": True}])


FULL = Path("/dev/full")


def test_standard_output_on_a_full_disk_is_no_traceback(capsys, server, monkeypatch):
    server["GET /v1/jobs/j1"] = RUNNING
    with FULL.open("w") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main.run_command_line(["jobs", "show", "j1"]) == 1
        with contextlib.suppress(OSError):
            out.close()
    err = capsys.readouterr().err
    assert "disk_full" in err
    assert "Traceback" not in err


def test_a_missing_key_names_the_option_and_the_variable(run, server):
    server["GET /v1/jobs/j1"] = httpx2.Response(401, json=Unauthorized("a key is needed").problem())
    status, (problem,), _ = run("jobs", "show", "j1", "--json")
    assert (status, problem["code"]) == (1, "unauthorized")
    assert all(text in problem["detail"] for text in ("a key is needed", "--key", "TUNESMITH_KEY"))


def test_a_job_without_fast_math_says_so(run, server):
    server["GET /v1/jobs/j1"] = [RUNNING, RUNNING | {"fast_math": False}]
    assert "fast math" not in run("jobs", "show", "j1")[1]
    assert "fast math   off" in run("jobs", "show", "j1")[1]


def test_a_job_without_winograd_says_so(run, server):
    server["GET /v1/jobs/j1"] = [RUNNING, RUNNING | {"winograd": False}]
    assert "winograd" not in run("jobs", "show", "j1")[1]
    assert "winograd    off" in run("jobs", "show", "j1")[1]


def test_the_design_space_is_checked_and_shown_where_it_is_a_part(run, server):
    status, _, err = run("tune", "gemm:8x8x8:float32", "--space", "magic")
    assert status == 2
    assert "there is no space 'magic'; there are all, tvm" in err
    server["GET /v1/jobs/j1"] = [RUNNING, RUNNING | {"space": "tvm", "notes": ["no blocks"]}]
    assert "space" not in run("jobs", "show", "j1")[1]
    shown = run("jobs", "show", "j1")[1]
    assert "space       tvm" in shown
    assert "note        no blocks" in shown


@pytest.mark.parametrize("command", ["up", "worker", "compile", "compare", "doctor", "bench", "device serve"])
def test_the_light_wheel_names_the_extra(run, monkeypatch, command):
    def points(group):
        name = command.replace(" ", ".")
        return [EntryPoint(name, "no_such_package.module:command", group)]

    monkeypatch.setattr(plugins, "entry_points", points)
    status, out, _ = run(*command.split(), "--some", "thing", "--json")
    assert (status, out[0]["code"]) == (1, "missing_dependency")
    assert "pip install" in out[0]["detail"]


def test_help_lists_every_command(capsys):
    assert main.run_command_line(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("tune", "jobs", "best", "compile", "compare", "doctor", "worker", "device", "version", "up", "bench"):
        assert f" {name} " in out


def test_connect_uses_the_default_address():
    with options.connect(None, None) as client:
        assert client.url == "http://127.0.0.1:8700"


def test_cost_models_are_listed_shown_and_trained(run, server):
    held_out = {"ranker": {"top-1": 0.9}, "static model": {"top-1": 0.8}}
    about = {
        "id": "c1",
        "kind": "ranker",
        "job_id": None,
        "target": "t1",
        "number": 1,
        "state": "done",
        "features": "decisions/8",
        "precision": "float32",
        "trained_on": 300,
        "trained_through": 412,
        "metrics": {"workloads": 12, "strength": 0.25, "held_out": held_out},
        "error": None,
        "created_at": "2026-01-02T03:04:05Z",
    }
    server["GET /v1/costmodels"] = {"items": [about], "next_cursor": None}
    server["GET /v1/costmodels/c1"] = about
    server["POST /v1/costmodels/train"] = about
    assert "ranker" in run("costmodels", "list")[1]
    assert run("costmodels", "list", "--json")[1][0]["items"][0]["id"] == "c1"
    shown = run("costmodels", "show", "c1")[1]
    assert all(text in shown for text in ("record 412", "decisions/8", "0.25", "ranker: top-1 0.900"))
    assert "costmodels show c1" in run("costmodels", "train", "--target", "t1")[1]
