"""One running service: jobs side by side, a model with two programs for one place, refusals, waiting for a device.

Then ``kill -9`` of anything, in the middle of a job: every trial is accounted for, once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import browser_job
import effort
import httpx2
import numpy as np
import onnx
import own_pipeline
import proposing
import pytest
from browser_pages import visitor
from onnx import TensorProto, helper
from simulated_device import simulated_device
from small_nets import Net, by_onnxruntime
from stack_probe import check_records, children, kill, more_trials, nothing_left, processes, trials, wait_for

from benchmarks.harness import jobs
from benchmarks.operators.onnx_models import write_operator
from benchmarks.tuners import plan, service
from services.embedded.lock import holder
from tunesmith.cli.main import run_command_line
from tunesmith.client import Client, EmbeddedStack
from tunesmith.errors import InvalidBudget, StackFailed, UnknownSearcher, UnknownTarget
from tunesmith.states import JobState
from tunesmith.targets import Target
from workers.tvm_backend.host import describe_from_outside

import tvm  # isort: skip
from tvm import relax  # isort: skip

pytestmark = pytest.mark.stack
GEMM = "gemm:128x128x64:float32"
PRODUCT = "gemm:256x256x256:float32"
CLASS = "nvidia-nvidia-h100"
SHAPE = (1, 3, 16, 16)
"""Of a model with too few channels for another algorithm than the direct one in its first convolution."""
LIGHT = {"search": "random", "cost_model": "none"}
"""For jobs whose search is not what they are about."""
UNCHECKED = {**LIGHT, "verify": False}
"""For jobs whose end is not, either."""
WAIT = 240.0
SECONDS = 12.0
"""Of a job that has to measure something beside the tests of others."""
KILLED = "gemm:192x192x192:float32"
TURNS = (("measure", "ingest"), ("device", "train", "search"), ("record", "redis"), ("coordinator",))
"""Who dies together: those whose work does not hang together, so that each one's loss is felt by itself."""
VICTIMS = [victim for turn in TURNS for victim in turn]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, whole_env: dict[str, str]) -> Iterator[EmbeddedStack]:
    """A stack with all that it serves."""
    with EmbeddedStack(tmp_path_factory.mktemp("stack"), env=whole_env) as running:
        yield running


def end_of(client, job_id):
    done = client.wait(job_id, timeout=WAIT)
    assert done.state is JobState.SUCCEEDED, done.error
    return done


def test_ready_with_a_device(stack, client):
    assert client.ready()
    assert [device.alive for device in client.devices()] == [True]
    assert "openapi" in httpx2.get(stack.url + "/openapi.json").json()


@pytest.mark.browser
def test_a_job_is_led_in_the_browser_from_its_model_to_its_library(stack, tmp_path):
    model, log = write_operator("gemm:80x80x80:float32", tmp_path / "by-hand.onnx"), tmp_path / "best.jsonl"
    with visitor(stack.url) as watched:
        job = browser_job.submit(watched.page, stack.url, model, trials=24)
        killed = browser_job.steer(watched, lambda: kill(stack.data_dir, "coordinator"))
        assert "T.prim_func" in browser_job.open_fastest(watched.page)
        browser_job.download(watched.page, stack.url, job, log)
        browser_job.read_log(watched.page, stack.url)
    assert len({*killed, *children(stack.data_dir, "coordinator")}) == 2
    check_records(stack.data_dir, job, 24)
    assert run_command_line(["compile", str(model), "--log", str(log), "-o", str(tmp_path / "model.so")]) == 0
    assert (tmp_path / "model.so").stat().st_size > 1000


def test_a_second_stack_on_the_same_data_is_refused(stack, stack_env):
    with pytest.raises(StackFailed, match="in use by process"):
        EmbeddedStack(stack.data_dir, env=stack_env).start()


def test_two_jobs_share_the_machine_and_cancelling_one_leaves_the_other(client):
    kept = client.submit(operator=GEMM, target="cpu", trials=4, seed=1, **UNCHECKED)
    other = client.submit(operator="gemm:96x96x96:float32", target="cpu", trials=96, seed=2, **UNCHECKED)
    wait_for(lambda: min(client.job(job.id).progress.trials for job in (kept, other)) > 0, "both to measure", WAIT)
    client.cancel(other.id)
    assert client.wait(other.id, timeout=WAIT).state is JobState.CANCELLED
    done = end_of(client, kept.id)
    assert done.progress.trials == 4
    assert list(client.follow(kept.id))
    (line,) = client.best(kept.id)
    assert line["provenance"]["job"] == kept.id


def test_what_is_proposed_is_measured_next_to_the_searchers_own(client):
    proposing.check_proposals(client, "gemm:112x96x80:float32", WAIT, **UNCHECKED)


def test_a_collecting_job_that_was_interrupted_is_found_again_and_runs_add_up(stack, client, capsys, tmp_path):
    specs = ["gemm:64x64x64:float32", "softmax:16x64:float32"]
    (tmp_path / "list.txt").write_text("\n".join(specs))
    left = client.submit(operators=specs, target="cpu", kind="collect", per_task=2)
    wait_for(lambda: client.job(left.id).progress.rounds > 0, "a round", WAIT)
    client.pause(left.id)
    command = ["dataset", "collect", "--workloads", str(tmp_path / "list.txt"), "--per-task", "2", "--json"]
    found = []
    for _ in range(2):
        assert run_command_line([*command, "--server", stack.url]) == 0
        found.append(json.loads(capsys.readouterr().out))
        assert (found[-1]["labels"], found[-1]["labels_wanted"], found[-1]["stopped"]) == (4, 4, ["collected"])
    assert found[0]["jobs"] == [left.id] != found[1]["jobs"]
    assert found[0]["valid"] >= 4 > found[1]["records"] == 0
    trials = list(client.trials(left.id))
    assert not any(trial["confirmation"] or trial["sketch"] is None for trial in trials)
    assert all(2 < len(trial["samples"]) < 6 for trial in trials if trial["stopped"] in ("stable", "capped"))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"target": "abacus"}, UnknownTarget),
        ({"search": "magic"}, UnknownSearcher),
        ({"trials": 0, "seconds": 5.0}, InvalidBudget),
        ({"trials": -3}, InvalidBudget),
        ({"trials": 10**9}, InvalidBudget),
        ({"seconds": 0.0}, InvalidBudget),
    ],
)
def test_a_bad_job_is_refused_and_nothing_is_created(client, changes, error):
    before = client.jobs().model_dump()
    with pytest.raises(error):
        client.submit(**{"operator": GEMM, "target": "cpu", "trials": 8} | changes)
    assert client.jobs().model_dump() == before


@pytest.mark.thorough
def test_the_faster_of_two_convolutions_is_in_the_model(
    stack: EmbeddedStack, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net(*SHAPE)
    path = net.save(tmp_path / "net.onnx", net.op("Relu", net.conv(net.op("Relu", net.conv("x", 32)), 32)))
    model = client.wait_model(client.upload_model(path).id, timeout=WAIT)
    job = client.submit(model_id=model.id, target="cpu", trials=4, **LIGHT)
    done = end_of(client, job.id)
    assert done.latency.output_error is not None
    assert done.latency.output_error < 1e-3
    assert done.check is not None
    assert done.check.state == "agree"
    assert done.reference is not None, done.reference_missing
    assert (done.reference.runtime, done.reference.precision) == ("onnxruntime", "model")
    assert done.reference.seconds is not None
    assert done.latency.current == pytest.approx((done.reference.ratio or 0.0) * done.reference.seconds)
    tasks = client.tasks(job.id)
    (other,) = [task for task in tasks if task.alternative_of is not None]
    (direct,) = [task for task in tasks if task.workload == other.alternative_of]
    assert other.in_use != direct.in_use
    assert min(other.trials, direct.trials) > 0
    lines = client.best(job.id)
    assert {line["workload"]["hash"] for line in lines} == {task.workload for task in tasks if task.in_use}
    assert lines[0]["provenance"]["preparation"].endswith("+winograd")
    folder = client.download_metaschedule(job.id, tmp_path / "exported")
    command = [sys.executable, "-I", str(folder / "compile.py"), str(tmp_path / "net.so")]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "net.so")), tvm.cpu())
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    ours, (theirs,) = machine["main"](tvm.runtime.tensor(x)).numpy(), by_onnxruntime(path, x)
    assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()

    # What the job found is an answer now, without a measurement.
    library = tmp_path / "answered.so"
    assert run_command_line(["compile", str(path), "--server", stack.url, "-o", str(library), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "measured" in {each["source"] for each in answer["answers"]}
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    assert np.abs(machine["main"](tvm.runtime.tensor(x)).numpy() - theirs).max() < 1e-4 * np.abs(theirs).max()
    (job,) = client.jobs(sort="-created_at", limit=1).items
    assert (job.progress.trials, job.check, job.verify) == (0, None, False)
    known = own_pipeline.found(path, stack.url, done.target_json or {})
    assert len([*known.found, *known.kept, *known.missing]) == sum(task.in_use for task in tasks), str(known)


def test_a_task_that_cannot_be_scheduled_keeps_its_default_and_no_input_is_outside(
    client: Client, tmp_path: Path
) -> None:
    """Indices of a table of two rows, places to write to and a divisor are inputs; how many outputs there are, too."""
    value, node = helper.make_tensor_value_info, helper.make_node
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 32), "kinds": (2, 32)}
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f"), name) for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w"], ["product"]),
            node("Gather", ["kinds", "kind"], ["kinds of rows"]),
            node("Add", ["product", "kinds of rows"], ["sum"]),
            node("ScatterElements", ["sum", "at", "new"], ["written"], axis=0),
            node("Mod", ["kind", "divisor"], ["left"]),
            node("NonZero", ["left"], ["places"]),
        ],
        "g",
        [value("x", TensorProto.FLOAT, [4, 16]), value("new", TensorProto.FLOAT, [1, 32])]
        + [
            value(name, TensorProto.INT64, shape)
            for name, shape in {"kind": [4], "at": [1, 32], "divisor": [4]}.items()
        ],
        [value("written", TensorProto.FLOAT, [4, 32]), value("places", TensorProto.INT64, [1, None])],
        weights,
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    model = client.wait_model(client.upload_model(path).id, timeout=WAIT)
    job = client.submit(model_id=model.id, target="cpu", trials=3, **LIGHT)
    done = end_of(client, job.id)
    assert done.latency.output_error is not None
    assert done.latency.output_error < 1e-3
    assert done.reference is not None, done.reference_missing
    tasks = client.tasks(job.id)
    (kept,) = [task for task in tasks if task.reason]
    assert kept.name == "scatter_elements"
    assert kept.reason == (
        "the design space of 'scatter_elements' cannot be opened for this target: "
        "TVM cannot schedule the program (ScheduleError)"
    )
    assert (kept.tunable, kept.trials) == (False, 0)
    assert sum(task.trials for task in tasks) == done.progress.trials == 3
    failures = client.failures(job.id)
    assert not {failure.failure for failure in failures} & {"crash", "wrong_result"}
    (event,) = [
        event for event in client.follow(job.id) if event.kind == "task_exhausted" and event.data.get("problem")
    ]
    assert event.data["problem"]["detail"] == kept.reason


@pytest.fixture
def own_stacks(stack, stack_env, monkeypatch):
    """What the benchmark's stack is started with, and how often it is stopped.

    The stack of these tests is up with an environment like it and stands in for it: a start and the imports of TVM
    take far longer than the tuning that is looked at. With ``TUNESMITH_TESTS=thorough`` it starts its own.
    """
    started, stopped = [], []

    class Shared(EmbeddedStack):
        def __init__(self, data_dir, env):
            super().__init__(data_dir, env=env)
            started.append((Path(data_dir), env))

        def start(self, timeout):
            if effort.THOROUGH:
                super().start(timeout)
            else:
                self.url = stack.url

        def stop(self):
            super().stop()
            stopped.append(self.data_dir)

    monkeypatch.setattr(jobs, "EmbeddedStack", Shared)
    monkeypatch.setenv("TUNESMITH_LEASE_FILE", stack_env["TUNESMITH_LEASE_FILE"])
    monkeypatch.setenv("TUNESMITH_PORT", "not a port")  # settings of another stack are not this one's
    return started, stopped


def test_tunesmith_is_a_tuner_like_the_others(own_stacks, stack_env, tmp_path):
    target = Target(describe_from_outside().target | {"num-cores": 1})
    ask = plan.Ask("gemm:32x32x32:float32", 0, plan.RANDOM, target, SECONDS)
    found = service.run(ask, tmp_path, plan.Deadline(200.0))
    assert found.failure == ""
    assert found.startup > 0
    assert 0 < found.elapsed <= SECONDS
    assert found.trials
    assert found.workload.isdigit()
    assert processes(tmp_path / "stack") == {}
    ((folder, env),), stopped = own_stacks
    assert stopped == [folder] == [tmp_path / "stack"]
    steering = {name: value for name, value in env.items() if name.startswith(("TUNESMITH_", "TVM_"))}
    assert steering == {"TUNESMITH_LEASE_FILE": stack_env["TUNESMITH_LEASE_FILE"]}


def test_a_waiting_job_goes_on_when_a_simulated_device_joins(stack, client, stack_env, tmp_path, capsys):
    facts = stack.data_dir / "connection.json"
    assert facts.stat().st_mode & 0o777 == 0o600

    job = client.submit(operator=PRODUCT, target="nvidia/nvidia-h100", trials=2, **LIGHT)
    wait_for(lambda: client.job(job.id).waiting_for == {"device_class": CLASS}, "the job to wait", WAIT)
    queue = f"measure.{CLASS}"
    queues = {}

    def queued():
        queues.update({item["name"]: item for item in httpx2.get(stack.url + "/v1/queues").json()["items"]})
        return queues.get(queue, {}).get("messages")

    wait_for(queued, "a batch in the queue of the class", WAIT)
    assert queues[queue]["waiting"] == 1
    assert client.job(job.id).progress.trials == 0

    net, target = Net(6, 32), {"kind": "llvm", "mcpu": "znver4", "num-cores": 64}
    path = net.save(tmp_path / "net.onnx", net.op("MatMul", "x", net.random(32, 48)))
    model = client.wait_model(client.upload_model(path).id, timeout=WAIT)
    other = client.submit(model_id=model.id, target=target, trials=2, precision="auto", **LIGHT)
    narrow = {"device_class": "llvm-znver4-64"}
    wait_for(lambda: client.job(other.id).waiting_for == narrow, "the other job to wait", WAIT)
    found = client.job(other.id)
    assert found.precision == "bf16"
    assert found.notes[0].startswith("auto chose bf16 (bf16: rms 0.")
    assert {event.kind for event in client.events(other.id)} >= {"job_queued", "precision_chosen", "job_running"}
    client.cancel(other.id)
    assert client.wait(other.id, timeout=WAIT).state is JobState.CANCELLED

    with simulated_device(stack, stack_env, CLASS):
        done = end_of(client, job.id)
        device = next(item for item in client.devices() if CLASS in item.device_classes)
        assert device.alive
        assert device.simulated

    # What came of it says what it is, everywhere.
    assert done.simulated
    assert done.waiting_for is None
    assert done.progress.trials == 2
    assert (done.latency.source, done.latency.output_error) == ("simulated", None)
    trials = httpx2.get(f"{stack.url}/v1/jobs/{job.id}/trials").json()["items"]
    built = [trial for trial in trials if trial["failure"] is None]
    assert built, [trial["message"] for trial in trials]
    assert all(trial["build_seconds"] > 0 for trial in built)
    assert all(trial["environment"]["simulated"] for trial in trials)
    (line,) = client.best(job.id)
    assert line["target"]["tag"] == "nvidia/nvidia-h100"
    assert line["provenance"]["simulated"]
    assert line["verified"] is None
    archive = httpx2.get(f"{stack.url}/v1/jobs/{job.id}/best", params={"format": "metaschedule"}).content
    assert "simulated" in zipfile.ZipFile(BytesIO(archive)).read("README.md").decode().lower()
    best = f"{stack.url}/v1/workloads/{trials[0]['workload']}/best"
    assert httpx2.get(best, params={"target": CLASS}).status_code == 404
    assert run_command_line(["jobs", "show", job.id, "--server", stack.url]) == 0
    assert "invented" in capsys.readouterr().out


def test_a_worker_without_a_cuda_compiler_refuses_its_class(stack, stack_env, tmp_path):
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia" / "__init__.py").touch()  # hides the packages of NVRTC
    path = os.pathsep.join([str(tmp_path), *(entry for entry in sys.path if entry)])
    env = {**stack_env, "PATH": "/nowhere", "PYTHONPATH": path, "TUNESMITH_DEVICE_CLASSES": CLASS}
    command = [sys.executable, "-m", "tunesmith.cli", "worker", "--queues", "measure", "--json", "--join"]
    done = subprocess.run([*command, str(stack.data_dir)], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    problem = json.loads(done.stdout)
    assert problem["code"] == "missing_dependency"
    assert "nvcc" in problem["detail"]
    assert "tunesmith[cuda]" in problem["detail"]


@pytest.mark.timeout(400)
def test_a_job_survives_kill_9_of_the_supervisor_and_of_each_process_of_the_next_stack(stack, client, stack_env):
    """The last test of this file: its stack is gone afterwards. Its job is as long as the killing takes."""
    data_dir = stack.data_dir
    job = client.submit(operator=KILLED, target="cpu", trials=5000, **UNCHECKED)
    wait_for(lambda: trials(client, job.id) >= 8, "the first results", WAIT)
    os.kill(holder(data_dir)["pid"], signal.SIGKILL)
    assert nothing_left(data_dir, 10.0), processes(data_dir)
    stack.stop()
    with EmbeddedStack(data_dir, env=stack_env) as second, Client(second.url) as after:
        (resumed,) = second.resumed
        assert (resumed["id"], resumed["killed"], resumed["trials_budget"]) == (job.id, True, 5000)
        for turn in TURNS:
            more_trials(after, job.id, f"results before the end of {turn}")
            for victim in turn:
                wait_for(lambda: kill(data_dir, victim), f"{victim} to run", 20.0)  # noqa: B023
        budget = trials(after, job.id) + 8
        after.update(job.id, trials=budget)
        done = end_of(after, job.id).progress.trials
        assert done >= budget
        check_records(data_dir, job.id, done)
        assert all(len(children(data_dir, victim)) >= 1 for victim in VICTIMS)
    assert processes(data_dir) == {}
