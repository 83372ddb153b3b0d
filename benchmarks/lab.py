"""The measuring engine without the service: builders, an RPC device and its runner, for one target on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tunesmith.errors import MeasurementFailed, StackFailed
from tunesmith.messages import MeasureLimits
from tunesmith.operators import parse_operator
from tunesmith.safe_path import python
from tunesmith.space.space import Space
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.measure.builds import outcome_of
from workers.measure.calibration import Calibrator
from workers.measure.drift import Rules
from workers.protocol import BuildRequest, Built, RunRequest
from workers.sandbox.pool import Actor, Pool
from workers.tvm_backend.host import Host
from workers.tvm_backend.run.runner import RpcRunner

START_SECONDS = 120.0
BUILD_SECONDS = 20.0
KEY = "bench"


@dataclass(frozen=True)
class Operator:
    """An operator and its design space.

    Attributes:
        spec: its text.
        workload: TVM's hash of its module.
        module: the module's JSON.
        bodies: JSON of each sketch, by hash.
        space: the numeric side.
    """

    spec: str
    workload: str
    module: bytes
    bodies: dict[str, bytes]
    space: Space


def load(spec: str, target: Target) -> Operator:
    """Generate an operator's design space; imports TVM."""
    from workers.tvm_backend.warm import warm

    warm(target.kind)
    from workers.tvm_backend.design_space import space
    from workers.tvm_backend.frontends import import_model
    from workers.tvm_backend.passes import extract_tasks, pipeline

    (task,) = extract_tasks.extract_tasks(pipeline.prepare(import_model.operator_module(parse_operator(spec))).module)
    bodies = space.generate(task.module, target)
    return Operator(
        spec,
        task.workload.hash,
        task.module,
        {body.hash: body.to_json() for body in bodies},
        Space([body.sketch for body in bodies]),
    )


class Lab:
    """Builders and a device of this machine; nothing else builds or runs here while it measures.

    Attributes:
        target: by default all cores of this CPU.
        folder: for libraries; gone with the lab.
    """

    def __init__(self, builders: Pool, runner: RpcRunner, target: Target, folder: Path) -> None:
        self.builders, self.runner, self.target, self.folder = builders, runner, target, folder
        self._calibrator = Calibrator(builders, runner, folder / "calibration", rules=Rules(early=0.0))
        self._number = 0

    def noise_floor(self) -> float:
        """Calibrate the device, or look at it again: the first times always, later when that is due.

        Call it between sessions.

        Raises:
            MeasurementFailed: the device cannot be calibrated.
        """
        target = self.target.to_json()
        self._calibrator.refresh(target)
        found = self._calibrator.calibration(target)
        if found is None:
            raise MeasurementFailed("the device could not be calibrated, so that its noise floor is not known")
        return found.noise_floor

    def build(self, operator: Operator, candidates: Sequence[Candidate]) -> list[Built]:
        """Build candidates, all at once; what goes wrong with one is an outcome."""
        futures = []
        for candidate in candidates:
            self._number += 1
            request = BuildRequest(
                workload=operator.workload,
                module=operator.module,
                target=self.target.to_json(),
                body=None if candidate.sketch is None else operator.bodies[candidate.sketch],
                decisions=candidate.decisions,
                out=self.folder / f"{self._number}.so",
                timeout=BUILD_SECONDS,
            )
            futures.append(self.builders.submit("build", request, timeout=BUILD_SECONDS + START_SECONDS))
        return [outcome_of(future) for future in futures]

    @contextmanager
    def device(self) -> Iterator[RpcRunner]:
        """The device, in a session of its own.

        Raises:
            DeviceLost: when it does not answer.
        """
        self.runner.open(self.target.to_json())
        try:
            yield self.runner
        finally:
            self.runner.release()


def request(built: Built, limits: MeasureLimits, default: bool = False) -> RunRequest:
    """What the runner is asked to do with a built candidate.

    Raises:
        ValueError: it is not built.
    """
    if built.path is None:
        raise ValueError(f"there is no library: {built.message}")
    return RunRequest(built.path, built.function, built.args, limits, built.flops, built.code_hash, default)


@contextmanager
def open_lab(target: Target | None = None) -> Iterator[Lab]:
    """Start a tracker, a device and builders; end them all afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tunesmith-bench-")))
        lease = folder / "host.lease"
        env = {**os.environ, "TMPDIR": str(folder), "TUNESMITH_LEASE_FILE": str(lease)}
        port = stack.enter_context(_process(env, "tracker", "--port", "0"))
        tracker = f"127.0.0.1:{port}"
        stack.enter_context(_process(env, "rpc_server", "--tracker", tracker, "--key", KEY))
        cores = len(os.sched_getaffinity(0))
        builders = stack.enter_context(
            Pool(Actor("workers.tvm_backend.build.builder:Builder", (str(lease), "llvm")), cores)
        )
        host: Host = builders.call("describe", timeout=START_SECONDS)
        runner = RpcRunner(tracker, KEY, lease)
        stack.callback(runner.close)
        yield Lab(builders, runner, target or Target(host.target), folder)


@contextmanager
def _process(env: dict[str, str], module: str, *arguments: str) -> Iterator[int]:
    """A part of the back end as a process; yields the port that it says it listens on."""
    command = [
        *python("workers.sandbox.parent_death", "--parent", str(os.getpid()), "--"),
        *python(f"workers.tvm_backend.run.{module}", *arguments),
    ]
    log = Path(env["TMPDIR"]) / f"{module}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise StackFailed(f"{module} does not start: {log.read_text().strip()[-500:]}")
        yield int(json.loads(line)["port"])
    finally:
        process.kill()
        process.communicate()
