"""Jobs of an embedded stack for a GPU that a device and a worker of their own serve."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.gpu.machine import Machine
from benchmarks.harness.processes import Tree, environment
from benchmarks.harness.progress import Progress
from tunesmith.client import Client, EmbeddedStack
from tunesmith.errors import StackFailed
from tunesmith.names import CONNECTION_FILE
from tunesmith.operators import parse_operator
from tunesmith.safe_path import python
from tunesmith.states import JobState

KEY = "bench-gpu"
START_SECONDS = 120.0
END_SECONDS = 180.0
"""After its budget a job's last round is measured, and its best schedule once more."""
PAUSE = 0.5
LOG_LINES = 5


@dataclass(frozen=True)
class GpuPlan:
    """What to tune. ``trials`` and ``seconds``: most of each operator."""

    operators: tuple[str, ...]
    trials: int
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """What came of a job.

    Attributes:
        flops: of one run.
        untuned, best: seconds of the default schedule and of the fastest one that was found; None: there is none.
        candidates: measured with success.
        failures: of candidates, by kind; ``message`` is of the most frequent kind.
        build: median seconds of a build.
        output_error: of the best one's outputs against the default schedule's; None: it was not compared.
        problem: why the job has no result.
    """

    operator: str
    flops: float
    untuned: float | None = None
    best: float | None = None
    candidates: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    message: str = ""
    build: float | None = None
    output_error: float | None = None
    problem: str = ""


def tune(machine: Machine, plan: GpuPlan, out: Path, progress: Progress) -> list[Tuned]:
    """Tune the operators one after the other.

    Raises:
        StackFailed: the stack, the device or the worker does not start.
    """
    out.mkdir(parents=True, exist_ok=True)
    with _rig(machine, out) as client:
        found = []
        for operator in plan.operators:
            progress(f"{operator}: up to {plan.trials} candidates, {plan.seconds:g} s")
            found.append(_tuned(client, machine, operator, plan))
            best, failed = found[-1].best, sum(found[-1].failures.values())
            took = "no latency" if best is None else f"{best * 1e6:.4g} µs"
            progress(f"{operator}: {took} after {found[-1].candidates} candidates, {failed} failed")
        return found


@contextmanager
def _rig(machine: Machine, out: Path) -> Iterator[Client]:
    """A stack, a device and a worker that serves the GPU's class."""
    data = (out / f"gpu-stack-{os.getpid()}").resolve()
    env = environment()
    target = machine.target.target
    assert target is not None
    with ExitStack() as stack:
        running = stack.enter_context(EmbeddedStack(data, env=env))
        log = data / "logs" / "gpu.log"
        if not machine.simulate:
            tracker = json.loads((data / CONNECTION_FILE).read_text())["tracker"]
            device = python("tunesmith.cli", "device", "serve", "--key", KEY, "--tracker", tracker)
            stack.enter_context(Tree(device, log=log, folder=data, env=env))
        own = {"TUNESMITH_DEVICE_CLASSES": target.device_class, "TUNESMITH_DEVICE_KEY": KEY}
        own |= {"TUNESMITH_SIMULATE": "1"} if machine.simulate else {}
        command = python("tunesmith.cli", "worker", "--queues", "measure", "--join", str(data))
        worker = stack.enter_context(Tree(command, log=log, folder=data, env={**env, **own}))
        client = stack.enter_context(Client(running.url))
        _await(client, target.device_class, worker)
        yield client


def _await(client: Client, device_class: str, worker: Tree) -> None:
    end = time.monotonic() + START_SECONDS
    while not any(device.alive and device_class in device.device_classes for device in client.devices()):
        if worker.poll() is not None or time.monotonic() > end:
            raise StackFailed(f"no worker for {device_class} came up: {worker.tail(LOG_LINES)}")
        time.sleep(PAUSE)


def _tuned(client: Client, machine: Machine, operator: str, plan: GpuPlan) -> Tuned:
    target = machine.target.target
    assert target is not None
    *batch, m, n, k = parse_operator(operator).dims
    flops = 2.0 * m * n * k * (batch[0] if batch else 1)
    job = client.submit(
        operator=operator, target=target.to_json(), trials=plan.trials, seconds=plan.seconds, warm_start=False
    )
    job = client.wait(job.id, timeout=plan.seconds + END_SECONDS)
    trials = list(client.trials(job.id))
    failed = [trial for trial in trials if trial["failure"] is not None]
    kinds = Counter(str(trial["failure"]) for trial in failed)
    (most, _), *_ = kinds.most_common(1) or [("", 0)]
    builds = [float(trial["build_seconds"]) for trial in trials if trial["failure"] is None]
    problem = "" if job.state is JobState.SUCCEEDED else f"{job.state.value}: {(job.error or {}).get('detail', '')}"
    return Tuned(
        operator,
        flops,
        job.latency.untuned,
        job.latency.current,
        candidates=sum(trial["failure"] is None and trial["sketch"] is not None for trial in trials),
        failures=dict(kinds),
        message=next((str(t["message"]) for t in failed if str(t["failure"]) == most), ""),
        build=statistics.median(builds) if builds else None,
        output_error=job.latency.output_error,
        problem=problem,
    )
