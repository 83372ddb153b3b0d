"""``tunesmith compare``: the same model on several runtimes of this machine, side by side."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tunesmith.cli.checks import check_model, parse_inputs
from tunesmith.cli.output import emit, seconds, table, times
from tunesmith.errors import InvalidInput, MeasurementFailed
from tunesmith.operators import looks_like_operator
from tunesmith.schedule_log import read_log
from workers.peers.timing import Job
from workers.tvm_backend.deploy import LocalModel, local_target, source_of, target_of

MODULES = {
    "untuned": "workers.tvm_backend.peer",
    "tuned": "workers.tvm_backend.peer",
    "onnxruntime": "workers.peers.onnxruntime",
    "openvino": "workers.peers.openvino",
    "torch": "workers.peers.torch",
}
READS = {"onnxruntime": "onnx", "openvino": "onnx", "torch": "pt2"}
PEER_TIMEOUT = 600.0
TOLERANCE = 1e-2


@dataclass
class Result:
    """One peer: latency in seconds, or why there is none. ``error`` is against the reference's outputs."""

    name: str
    samples: list[float] = field(default_factory=list)
    failure: str = ""
    error: float | None = None

    @property
    def latency(self) -> float | None:
        """Median of the samples."""
        return statistics.median(self.samples) if self.samples else None


def compare(
    model: Annotated[str, typer.Argument(help="An .onnx or .pt2 file, or an operator spec.")],
    log: Annotated[Path | None, typer.Option(help="Also compare the tuned model: best.jsonl or a database.")] = None,
    with_: Annotated[
        str, typer.Option("--with", help="Peers: untuned, onnxruntime, openvino, torch.")
    ] = "untuned,onnxruntime",
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="Shape of a dynamic input: name=1,3,224,224.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each peer (default: all cores).")] = None,
    time_: Annotated[float, typer.Option("--time", min=0.1, help="Seconds of timing per peer and pass.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")] = False,
) -> None:
    """Compare a model's latency on this machine, each peer in a process of its own, outputs checked."""
    check_model(model)
    names = _names(with_, log is not None)
    shapes = parse_inputs(inputs or [])
    cores = threads or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="tunesmith-compare-") as temporary:
        folder = Path(temporary)
        results = _compare(model, log, names, shapes, cores, time_, folder)
    _print(model, results, cores, as_json)
    _judge(results)


def _judge(results: list[Result]) -> None:
    """A peer that is not installed is a line of the table; a library of ours that does not run, or runs to other
    outputs, is a failure.

    Raises:
        MeasurementFailed: naming it.
    """
    failed = [result for result in results if result.failure]
    ours = next((result for result in failed if result.name not in READS), None)
    if ours is not None or len(failed) == len(results):
        first = ours or failed[0]
        raise MeasurementFailed(f"{first.name} gave no result: {first.failure}")
    if any(result.error is not None and not result.error <= TOLERANCE for result in results):
        raise MeasurementFailed(f"outputs differ by more than {TOLERANCE:g} of their signal; see the table")


def _names(given: str, tuned: bool) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in MODULES:
            raise InvalidInput(f"there is no peer {name!r}; there are {', '.join(MODULES)}", field="with", value=name)
    if "tuned" in names and not tuned:
        raise InvalidInput("the peer 'tuned' needs --log", field="log")
    if tuned and "tuned" not in names:
        names.append("tuned")
    if not names:
        raise InvalidInput(f"--with names no peer; there are {', '.join(MODULES)}", field="with", value=given)
    return list(dict.fromkeys(names))


def _compare(
    model: str, log: Path | None, names: list[str], shapes: dict[str, tuple[int, ...]], cores: int, time_: float,
    folder: Path,
) -> list[Result]:  # fmt: skip
    from workers.tvm_backend.arguments import random_array

    records = read_log(log) if log else []
    target = target_of(records) or local_target(f"cpu:{cores}")
    local = LocalModel(model, shapes, folder)
    results = {name: Result(name) for name in names}
    for which in range(2):
        arrays = {spec.name or str(i): random_array(spec, 7 + i + 1000 * which) for i, spec in enumerate(local.inputs)}
        np.savez(folder / f"inputs{which}.npz", **arrays)  # type: ignore[arg-type]
    files: dict[str, str] = {}
    for name in names:
        try:
            files[name] = _file(name, model, local, target, records, folder)
        except (InvalidInput, MeasurementFailed) as error:
            results[name].failure = error.detail
    # There and back again: a machine that warms up or gets busy treats the first and the last alike.
    for which, order in enumerate((list(files), list(reversed(files)))):
        for name in order:
            if not results[name].failure:
                _run(results[name], files[name], folder, which, time_, cores)
    _check_outputs(list(results.values()), folder)
    return list(results.values())


def _file(name: str, model: str, local: LocalModel, target: Any, records: list[Any], folder: Path) -> str:
    """What a peer reads."""
    if name in READS:
        if looks_like_operator(model) or source_of(Path(model)) != READS[name]:
            raise InvalidInput(f"{name} reads .{READS[name]} files only", field="with", value=name)
        return str(Path(model).absolute())
    library = folder / f"{name}.so"
    local.compile(library, target, records if name == "tuned" else None)
    return str(library)


def _run(result: Result, file: str, folder: Path, which: int, time_: float, cores: int) -> None:
    outputs = folder / f"{result.name}-{which}.npz"
    job = Job(file, str(folder / f"inputs{which}.npz"), str(outputs), time_, cores)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": str(cores),
    }
    command = [sys.executable, "-m", "workers.sandbox.parent_death", "--", sys.executable, "-m", MODULES[result.name]]
    try:
        done = subprocess.run(
            [*command, json.dumps(asdict(job))], capture_output=True, text=True, timeout=PEER_TIMEOUT,
            stdin=subprocess.DEVNULL, env=env,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        result.failure = f"no result within {PEER_TIMEOUT:g} s"
        return
    if done.returncode != 0:
        result.failure = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return
    result.samples += json.loads(Path(f"{outputs}.json").read_text())["samples"]


def _check_outputs(results: list[Result], folder: Path) -> None:
    """Against onnxruntime or torch where they ran, else against the first: difference relative to the signal."""
    good = [result for result in results if result.samples and not result.failure]
    reference = next((result for result in good if result.name in READS), good[0] if good else None)
    for result in good:
        if reference is not None and result is not reference:
            found, expected = (np.load(folder / f"{name.name}-0.npz") for name in (result, reference))
            elsewhere = np.load(folder / f"{reference.name}-1.npz")
            result.error = max(_error(found[key], expected[key], elsewhere[key]) for key in expected.files)


def _error(found: Any, expected: Any, elsewhere: Any) -> float:
    """max|found - expected| / max|expected - elsewhere|, where elsewhere came from other random inputs."""
    if found.shape != expected.shape:
        return math.inf
    wide = [np.asarray(array, dtype="float64") for array in (found, expected, elsewhere)]
    difference = float(np.abs(wide[0] - wide[1]).max(initial=0.0))
    signal = float(np.abs(wide[1] - wide[2]).max(initial=0.0)) or float(np.abs(wide[1]).max(initial=0.0))
    return difference / signal if signal else difference


def _print(model: str, results: list[Result], cores: int, as_json: bool) -> None:
    known = [result.latency for result in results if result.latency is not None]
    base = next((r.latency for r in results if r.name == "untuned"), None) or (max(known) if known else None)
    rows = []
    for result in results:
        error = "" if result.error is None else f"{result.error:.1e}"
        speedup = base / result.latency if base and result.latency else None
        rows.append((result.name, seconds(result.latency), times(speedup), error, result.failure))
    answer = {
        "model": model,
        "threads": cores,
        "peers": [{**asdict(result), "latency": result.latency} for result in results],
    }
    emit(answer, table(("peer", "latency", "speed-up", "output error", ""), rows), as_json)
