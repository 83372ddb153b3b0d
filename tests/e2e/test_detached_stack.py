"""The README's commands on a stack that ``up --detach`` has left behind, in strange surroundings; and bad input.

Bad input at both doors gets the right code and remedy, and the database holds nothing half-made. The first test looks
at how the stack came up, the last but one pastes the README's other commands, and the last one ends it.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import detached
import httpx2
import onnx
import pytest
from coordinator_process import serving
from detached import Detached
from onnx import TensorProto, helper
from pasted import NOTEBOOK, PORT, ROOT, activated, blocks, pasted, program, thrifty
from pseudo_terminal import ASCII_BAR, bar_faults, words_of
from small_nets import Net
from stack_probe import WORDS, processes
from surroundings import (
    STRANGE,
    environments,
    hostile,
    open_to_others,
    sprung,
    told_secrets,
    without_unicode,
)

from tunesmith.cli.main import run_command_line
from tunesmith.client import Client
from tunesmith.errors import TunesmithError
from tunesmith.states import JobState

pytestmark = pytest.mark.stack
GEMM = "gemm:64x64x64:float32"
MAX_UPLOAD_BYTES = 200_000
NOWHERE = "http://127.0.0.1:9"
WAIT = 120.0
ALWAYS_MOVING = {"audit", "device_times", "devices", "events", "sqlite_sequence"}
(_, INSTALL), (_, COMMANDS) = blocks("command line")
UP, _, OTHERS = COMMANDS.partition("\n")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, stack_env: dict[str, str]) -> Iterator[Detached]:
    """A stack that takes small models only, beside a small model."""
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", PORT)), f"port {PORT} is taken: the README's commands need it"
    env = activated(without_unicode(stack_env)) | {
        "TUNESMITH_MAX_UPLOAD_BYTES": str(MAX_UPLOAD_BYTES),
        "TUNESMITH_REFERENCES": "",  # `compare` times onnxruntime
    }
    folder = hostile(tmp_path_factory.mktemp("stack"))
    small_model(folder)
    with detached.stack(folder, env, UP) as running:
        yield running


def small_model(folder: Path) -> None:
    """The README's ``model.onnx``."""
    net = Net(1, 8, 16, 16)
    net.save(folder / "model.onnx", net.op("Relu", net.conv("x", 16)))


def rows(stack: Detached) -> dict[str, int]:
    """Rows by table, events of jobs among them, and the files of the blob store, half-written ones included."""
    with closing(sqlite3.connect(f"{(stack.data_dir / 'tunesmith.db').as_uri()}?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        count = {name: db.execute(f"select count(*) from {name}").fetchone()[0] for name in tables}
        count = {name: number for name, number in count.items() if name not in ALWAYS_MOVING}
        count["events of jobs"] = db.execute("select count(*) from events where job_id is not null").fetchone()[0]
    return count | {"blobs": sum(path.is_file() for path in (stack.data_dir / "blobs").rglob("*"))}


def refusal(body: dict, code: str, field: str | None, *words: str) -> None:
    """A problem object that names the field and says what to do."""
    assert body["code"] == code, body
    assert body["type"].endswith(code.replace("_", "-"))
    if field is not None:
        (error,) = body["errors"]
        assert error["field"] == field
        assert error["detail"]
    for word in words:
        assert word in body["detail"], body["detail"]


def tunesmith(capsys, status: int, *arguments) -> dict:
    """The problem that a command prints with ``--json``; without, people get one message and no traceback."""
    given = [str(argument) for argument in arguments]
    assert run_command_line([*given, "--json"]) == status
    (line,) = capsys.readouterr().out.splitlines()
    problem = json.loads(line)
    assert run_command_line(given) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    *before, last = err.strip().splitlines()
    assert last.startswith(f"error [{problem['code']}]: ")
    assert not [other for other in before if "error" in other]
    return problem


def test_a_detached_stack_outlives_its_terminal(stack: Detached) -> None:
    """The first test of this file: nobody has asked the stack for anything."""
    *starting, last = stack.terminal.screens()
    assert stack.terminal.status == 0, last
    assert bar_faults(stack.terminal, starting, ASCII_BAR) == []
    started = words_of(last).partition("started ")[2].partition(" process")[0]
    assert set(started.split(", ")) == set(WORDS)
    assert "tunesmith down --data-dir 'data of" in words_of(last)
    status, found = stack.answer("status")
    assert (status, found["state"], found["jobs"]) == (0, "ready", 0)
    assert stack.url == found["url"]
    assert stack.url in words_of(last)
    status, refused = stack.answer("up", "--detach", "--port", "0")
    assert (status, refused["code"]) == (1, "stack_failed")
    assert f"process {found['pid']}" in refused["detail"]


def test_no_process_is_told_a_secret(stack: Detached) -> None:
    assert told_secrets(environments(stack.data_dir)) == []


JOBS = [
    ({"target": "abacus"}, ["--target", "abacus"], "unknown_target", "target", "accepted are"),
    ({"target": {"kind": "llvm"}}, ["--target", '{"kind": "llvm"}'], "unknown_target", "target", "num-cores"),
    ({"budget": {"trials": -3}}, ["--trials", -3], "invalid_budget", "budget.trials", "0 to 1000000"),
    ({"budget": {"trials": 10**9}}, ["--trials", 10**9], "invalid_budget", "budget.trials", "0 to 1000000"),
    ({"budget": {"seconds": 0}}, ["--time", 0], "invalid_budget", "budget.seconds", "must be"),
    ({"budget": {"seconds": -1}}, ["--time", -1], "invalid_budget", "budget.seconds", "must be"),
    ({"budget": {"seconds": 1e12}}, ["--time", 1e12], "invalid_budget", "budget.seconds", "30 days"),
    ({"search": "magic"}, ["--search", "magic"], "unknown_searcher", "search", "genetic"),
    ({"allocator": "magic"}, ["--allocator", "magic"], "unknown_allocator", "allocator", "gradient"),
    ({"cost_model": "magic"}, ["--cost-model", "magic"], "unknown_cost_model", "cost_model", "xgboost"),
    ({"seed": -1}, ["--seed", -1], "invalid_input", "seed", ""),
    ({"operator": "gemm:8x8"}, ["gemm:8x8"], "invalid_operator", "operator", "gemm:MxNxK"),
    ({"operator": "gemm:8x0x8"}, ["gemm:8x0x8"], "invalid_operator", "operator", "extent of zero"),
    ({"operator": "gemm:8x8x8:int3"}, ["gemm:8x8x8:int3"], "invalid_operator", "operator", "float32"),
    ({"operator": "softmax:8,s1"}, ["softmax:8,s1"], "invalid_operator", "operator", "softmax:AxBxC"),
    ({"operator": "gemm:99999x99999x9"}, ["gemm:99999x99999x9"], "invalid_operator", "operator", "elements"),
    ({"operator": "conv2d:1x3x8x8,4x5x3x3"}, ["conv2d:1x3x8x8,4x5x3x3"], "invalid_operator", "operator", "channels"),
]


@pytest.mark.parametrize(("body", "arguments", "code", "field", "words"), JOBS, ids=lambda value: str(value)[:40])
def test_a_bad_job(stack, capsys, body, arguments, code, field, words):
    before = rows(stack)
    answer = httpx2.post(f"{stack.url}/v1/jobs", json={"operator": GEMM, "budget": {"trials": 8}, **body})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    refusal(answer.json(), code, field, words)
    assert answer.json()["errors"][0]["value"] == (body.get(field) or body.get("budget", {}).get(field[7:], -1))
    given = arguments if "operator" in body else [GEMM, *arguments]
    refusal(tunesmith(capsys, 2, "tune", *given, "--server", NOWHERE), code, field, words)  # nobody had to be asked
    assert rows(stack) == before


@pytest.mark.parametrize("target", ["cuda", "cpu:4000"])
def test_a_target_that_this_host_cannot_run(stack, capsys, target):
    before = rows(stack)
    answer = httpx2.post(f"{stack.url}/v1/jobs", json={"operator": GEMM, "target": target})
    assert answer.status_code == 422
    refusal(answer.json(), "target_unavailable", "target", target.partition(":")[0])
    problem = tunesmith(capsys, 2, "tune", GEMM, "--target", target, "--server", stack.url)
    refusal(problem, "target_unavailable", "target")
    assert rows(stack) == before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 422, "invalid_input"),
        (b"[]", 422, "invalid_input"),
        (b"{}", 422, "invalid_input"),
        (b'{"operator": "gemm:8x8x8", "model_id": "m-1"}', 422, "invalid_input"),
        (b'{"operator": "gemm:8x8x8", "colour": "red"}', 422, "invalid_input"),
        (b'{"operator": "gemm:8x8x8", "budget": {"trials": "many"}}', 422, "invalid_budget"),
        (b'{"model_id": "m-0"}', 404, "not_found"),
    ],
)
def test_a_malformed_job(stack, body, status, code):
    before = rows(stack)
    answer = httpx2.post(f"{stack.url}/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["errors"]
    assert rows(stack) == before


def model(path: Path, operators: list[str], shape: list[int | str]) -> Path:
    """A chain of operators from ``x`` to ``y``."""
    names = ["x", *(f"v{i}" for i in range(len(operators) - 1)), "y"]
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(operators, names, names[1:], strict=False)]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def truncated(path: Path) -> Path:
    data = model(path, ["Relu"] * 20, [1, 4]).read_bytes()
    path.write_bytes(data[:-30])
    return path


def content(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def archive(path: Path, *, cut: bool) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "no program")
    return content(path, path.read_bytes()[:40]) if cut else path


FILES = {
    "text": (lambda folder: content(folder / "m.onnx", b"I am no model at all"), "not_a_model", 2),
    "picture": (lambda folder: content(folder / "m.onnx", b"\x89PNG\r\n\x1a\n" + bytes(64)), "not_a_model", 2),
    "zip": (lambda folder: archive(folder / "m.pt2", cut=False), "not_a_model", 2),
    "no zip": (lambda folder: content(folder / "m.pt2", b"I am no archive"), "not_a_model", 2),
    "half an archive": (lambda folder: archive(folder / "m.pt2", cut=True), "truncated_model", 1),
    "half a model": (lambda folder: truncated(folder / "m.onnx"), "truncated_model", 1),
}
"""What anybody can see from outside: the command refuses these without a server."""

MODELS = {
    "operators": (["Frob", "Relu", "Frob", "Twist"], [1, 4], [], "unsupported_operator", 1, "file", "Frob (2×), Twist"),
    "dynamic": (["Relu"] * 2, ["batch", 4], [], "dynamic_shape", 2, "inputs", "0 ('batch'): fix its shape"),
    "stranger": (["Relu"] * 3, ["batch", 4], ["z=1,4"], "invalid_input", 2, "inputs", "no input 'z', it has 'x'"),
    "rank": (["Relu"] * 4, ["batch", 4], ["x=1,4,4"], "invalid_input", 2, "inputs", "for example --input x=1,4"),
    "extent": (["Relu"] * 5, ["batch", 4], ["x=1,5"], "invalid_input", 2, "inputs", "does not fit"),
}
"""What takes an import: operators (no two models are the same), shape of ``x``, inputs given, and the refusal."""


def rejected(stack: Detached, path: Path, inputs: list[str], before: dict[str, int]) -> dict:
    """Upload over REST; the model's problem once a worker has rejected it, and then nobody gets a job of it."""
    with path.open("rb") as file:
        form = {"inputs": inputs} if inputs else {}
        answer = httpx2.post(f"{stack.url}/v1/models", files={"file": (path.name, file)}, data=form)
    assert answer.status_code in (200, 201), answer.text
    model_id = answer.json()["id"]
    with Client(stack.url) as client, pytest.raises(TunesmithError) as caught:
        client.wait_model(model_id, timeout=WAIT)
    body = httpx2.get(f"{stack.url}/v1/models/{model_id}").json()
    assert (body["state"], body["inputs"], body["tasks"]) == ("rejected", None, 0)
    assert body["error"]["code"] == caught.value.code
    job = httpx2.post(f"{stack.url}/v1/jobs", json={"model_id": model_id, "budget": {"trials": 8}})
    assert (job.status_code, job.json()["code"]) == (422, caught.value.code)
    assert rows(stack) == before | {"models": before["models"] + 1, "blobs": before["blobs"] + 1}
    return body["error"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_model(stack, capsys, tmp_path, name):
    make, code, status = FILES[name]
    path, before = make(tmp_path), rows(stack)
    refusal(tunesmith(capsys, status, "tune", path, "--server", NOWHERE), code, "model", str(path))
    assert rows(stack) == before
    refusal(rejected(stack, path, [], before), code, "file")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_cannot_be_imported(stack, capsys, tmp_path, name):
    operators, shape, inputs, code, status, field, words = MODELS[name]
    path, before = model(tmp_path / f"{name}.onnx", operators, shape), rows(stack)
    problem = rejected(stack, path, inputs, before)
    refusal(problem, code, field, words)
    assert problem.get("operators", {"Frob": 2, "Twist": 1}) == {"Frob": 2, "Twist": 1}
    after = rows(stack)
    options = [part for given in inputs for part in ("--input", given)]
    refusal(tunesmith(capsys, status, "tune", path, *options, "--server", stack.url), code, field, words)
    assert rows(stack) == after


@pytest.mark.parametrize("given", ["x=0,4", "x=-1,4", "x=a", "x"])
def test_shapes_that_are_none(stack, capsys, tmp_path, given):
    path, before = model(tmp_path / "m.onnx", ["Relu"], ["batch", 4]), rows(stack)
    with path.open("rb") as file:
        answer = httpx2.post(f"{stack.url}/v1/models", files={"file": ("m.onnx", file)}, data={"inputs": given})
    assert answer.status_code == 422
    refusal(answer.json(), "invalid_input", "inputs", "name=1,3,224,224")
    problem = tunesmith(capsys, 2, "tune", path, "--input", given, "--server", NOWHERE)
    refusal(problem, "invalid_input", "input", "name=1,3,224,224")
    assert rows(stack) == before


def test_an_upload_over_the_limit(stack, capsys, tmp_path):
    path, before = model(tmp_path / "m.onnx", ["Relu"], [1, 4]), rows(stack)
    with path.open("ab") as file:  # a model's documentation may come last
        file.write(b"\x32\xa0\x8d\x06" + b"x" * 100_000)
        file.write(b"\x32\xa0\x8d\x06" + b"x" * 100_000)
    for data in (path.read_bytes(), path.read_bytes() + bytes(20_000_000)):
        answer = httpx2.post(f"{stack.url}/v1/models", files={"file": ("m.onnx", data)})
        assert answer.status_code == 413
        refusal(answer.json(), "payload_too_large", "file", str(MAX_UPLOAD_BYTES), "TUNESMITH_MAX_UPLOAD_BYTES")
        assert answer.json()["errors"][0]["value"] > MAX_UPLOAD_BYTES
        assert rows(stack) == before
    problem = tunesmith(capsys, 1, "tune", path, "--server", stack.url)
    refusal(problem, "payload_too_large", "file", "TUNESMITH_MAX_UPLOAD_BYTES")
    assert rows(stack) == before


def test_jobs_that_are_not_there_or_over(stack, capsys, tmp_path):
    path = model(tmp_path / "m.onnx", ["Identity"], [1, 4])
    problem = json.loads(failed(capsys, "tune", path, "--trials", 4, "--server", stack.url))
    assert problem["code"] == "nothing_to_tune"
    with Client(stack.url) as client:
        assert client.job(problem["job"]).state is JobState.FAILED
    before = rows(stack)
    for command in ("cancel", "pause", "resume"):
        over = tunesmith(capsys, 1, "jobs", command, problem["job"], "--server", stack.url)
        assert over["code"] in ("conflict", "illegal_transition")
    for command in (["jobs", "show"], ["jobs", "watch"], ["jobs", "cancel"], ["best"]):
        refusal(tunesmith(capsys, 1, *command, "j-0", "--server", stack.url), "not_found", "job_id", "j-0")
    refusal(tunesmith(capsys, 2, "jobs", "set", "j-0", "--server", stack.url), "invalid_input", None, "--priority")
    budget = tunesmith(capsys, 2, "jobs", "set", problem["job"], "--trials", 0, "--server", stack.url)
    refusal(budget, "invalid_budget", "budget.trials")
    for query in ("limit=0", "limit=201", "cursor=x", "state=lost", "sort=colour"):
        assert httpx2.get(f"{stack.url}/v1/jobs?{query}").json()["code"] == "invalid_input"
    assert rows(stack) == before


def failed(capsys, *arguments) -> str:
    assert run_command_line([*map(str, arguments), "--json"]) == 1
    return capsys.readouterr().out


def test_a_wrong_key(capsys, tmp_path):
    with serving(tmp_path, admin_key="open-sesame", dashboard="0") as (_, url):
        for key in (["--key", "open-barley"], []):
            for command in (["jobs", "list"], ["tune", GEMM]):
                refusal(tunesmith(capsys, 1, *command, *key, "--server", url), "unauthorized", None, "Bearer KEY")
        assert run_command_line(["jobs", "list", "--key", "open-sesame", "--server", url]) == 0


@pytest.mark.timeout(900)
def test_what_is_pasted_works(stack: Detached, tmp_path: Path, stack_env: dict[str, str]) -> None:
    """The last but one of this file: its jobs leave more behind them than is looked at above."""
    env = activated(stack_env)
    pasted(INSTALL, ROOT, env)
    printed = pasted(thrifty(OTHERS), stack.folder, stack.env)
    printed.encode("ascii")
    assert "onnxruntime" in printed
    assert json.loads((stack.folder / "tuned" / "summary.json").read_text())["tuned_seconds"] > 0
    (line,) = (stack.folder / "best.jsonl").read_text().splitlines()
    assert json.loads(line)["schema"] == "tunesmith.schedule/1"
    assert (stack.folder / "gemm" / "compile.py").exists()
    assert (stack.folder / "model.so").stat().st_size > 1000

    small_model(tmp_path)  # these import what lies in their working folder
    ((_, requests),) = blocks("REST")
    assert "event: job_succeeded" in pasted(thrifty(requests), tmp_path, env)
    assert {json.loads(row)["schema"] for row in (tmp_path / "rest.jsonl").read_text().splitlines()} == {
        "tunesmith.schedule/1"
    }
    assert " s -> " in pasted(thrifty(program()), tmp_path, env, (sys.executable, "-c"))
    assert (tmp_path / "tuned-in-python" / "compile.py").exists()
    assert {"best.jsonl", "model.so", "summary.json"} < {path.name for path in (tmp_path / "tuned-block").iterdir()}
    assert (tmp_path / "softmax.json").stat().st_size > 1000
    (tmp_path / NOTEBOOK.name).write_text(thrifty(NOTEBOOK.read_text("utf-8")))
    pasted(f"jupyter-execute --inplace {NOTEBOOK.name}", tmp_path, env)
    assert (tmp_path / "tuned-in-a-notebook" / "model.so").exists()


def test_down_ends_all_of_a_detached_stack(stack: Detached) -> None:
    """The last test of this file: its stack is gone afterwards."""
    status, done = stack.answer("down")
    assert (status, done["stopped"], done["killed"]) == (0, True, False)
    assert processes(stack.data_dir) == {}
    assert stack.answer("status")[0] == 1
    log = (stack.data_dir / "logs" / "up.log").read_text().splitlines()
    assert [line.split(maxsplit=1)[1].split()[0] for line in log] == ["process", "up", "stopping", "ended"]
    assert sprung(stack.folder) == ""
    made = {"tuned", "best.jsonl", "gemm", "model.so"}
    assert {path.name for path in stack.folder.iterdir() if path.suffix != ".py"} == {STRANGE, "model.onnx", *made}
    assert open_to_others(stack.data_dir) == []
