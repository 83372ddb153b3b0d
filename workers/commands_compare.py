"""``tunesmith compare``: the same model on several runtimes of this machine, side by side."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tunesmith.arithmetic import ROUNDED
from tunesmith.cli.checks import check_model, parse_inputs
from tunesmith.cli.options import Inputs, Json
from tunesmith.cli.output import emit, seconds, table, times
from tunesmith.cli.progress import shown
from tunesmith.errors import InvalidInput, MeasurementFailed
from tunesmith.measuring.checked import CheckState, judge
from tunesmith.model_files import source_by_content
from tunesmith.names import FLOAT32
from tunesmith.operators import looks_like_operator
from tunesmith.schedule_log import read_log
from workers.peers.comparison import FOREIGN, TVM_PEER, Peer, Result, check_outputs, take_turns, write_inputs
from workers.peers.runtimes import AT_MODEL_PRECISION
from workers.quiet import libraries_are_quiet
from workers.tvm_backend.build.local_model import LocalModel, default_preparation, local_target, target_of

MODULES = {"untuned": TVM_PEER, "tuned": TVM_PEER, **FOREIGN}


def compare(
    model: Annotated[str, typer.Argument(help="An .onnx or .pt2 file, TVM JSON, or an operator spec.")],
    log: Annotated[
        Path | None, typer.Option(help="Also compare the model tuned by this log: best.jsonl or a database.")
    ] = None,
    with_: Annotated[
        str, typer.Option("--with", help="Runtimes to compare: untuned, onnxruntime, openvino, torch.")
    ] = "untuned,onnxruntime",
    inputs: Inputs = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per runtime (default: all cores).")] = None,
    time_: Annotated[float, typer.Option("--time", min=0.1, help="Seconds of timing per runtime and pass.")] = 2.0,
    as_json: Json = False,
) -> None:
    """Compare a model's latency between runtimes on this machine, and check the outputs."""
    check_model(model)
    names = _names(with_, log is not None)
    shapes = parse_inputs(inputs or [])
    cores = threads or len(os.sched_getaffinity(0))
    with (
        libraries_are_quiet(),
        shown("comparing", as_json),
        tempfile.TemporaryDirectory(prefix="tunesmith-compare-") as temporary,
    ):
        folder = Path(temporary)
        results = _compare(model, log, names, shapes, cores, time_, folder)
    _print(model, results, cores, as_json)
    _judge(results)


def _judge(results: list[Result]) -> None:
    """A peer that is not installed is a line of the table. A library built by Tunesmith that does not run, or runs to
    other outputs, is a failure.

    Raises:
        MeasurementFailed: naming it.
    """
    failed = [result for result in results if result.failure]
    ours = next((result for result in failed if result.name not in FOREIGN), None)
    if ours is not None or len(failed) == len(results):
        first = ours or failed[0]
        raise MeasurementFailed(f"{first.name} gave no result: {first.failure}")
    wrong = next((result for result in results if result.differs), None)
    if wrong is not None:
        of = "their signal" if wrong.rms is None else "the largest one, or in the root mean square"
        raise MeasurementFailed(f"outputs differ by more than {wrong.tolerance:g} of {of}; see the table")


def _names(given: str, tuned: bool) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in MODULES:
            raise InvalidInput(
                f"there is no runtime {name!r}; accepted are {', '.join(MODULES)}", field="with", value=name
            )
    if "tuned" in names and not tuned:
        raise InvalidInput("the runtime 'tuned' needs --log", field="log")
    if tuned and "tuned" not in names:
        names.append("tuned")
    if not names:
        raise InvalidInput(f"--with names no runtime; accepted are {', '.join(MODULES)}", field="with", value=given)
    return list(dict.fromkeys(names))


def _compare(
    model: str,
    log: Path | None,
    names: list[str],
    shapes: dict[str, tuple[int, ...]],
    cores: int,
    time_: float,
    folder: Path,
) -> list[Result]:
    given = read_log(log) if log else None
    records = given.records if given else []
    target = target_of(records) or local_target(f"cpu:{cores}")
    preparation = given.preparation if given else default_preparation(model, target)
    local = LocalModel(model, shapes, folder, preparation)
    write_inputs(local.drawn_inputs(), folder)
    peers: list[Peer] = []
    failed: dict[str, Result] = {}
    for name in names:
        try:
            peers.append(Peer(name, MODULES[name], _file(name, model, local, target, records, folder)))
        except (InvalidInput, MeasurementFailed) as error:
            failed[name] = Result(name, failure=error.detail)
    results = {result.name: result for result in take_turns(peers, folder, time_, cores)} | failed
    found = [results[name] for name in names]
    own = [result for result in found if result.name not in FOREIGN]
    narrow = [result.name for result in own] if preparation.precision in ROUNDED else []
    check_outputs(found, folder, narrow=narrow)
    computed = f"in {preparation.precision}" if preparation.precision != FLOAT32 else ""
    for result in own:
        result.note = "; ".join(filter(None, (computed, result.note, local.note)))
    return found


def _file(name: str, model: str, local: LocalModel, target: Any, records: list[Any], folder: Path) -> Path:
    """What a peer reads."""
    if name in FOREIGN:
        runtime = AT_MODEL_PRECISION[name]
        if looks_like_operator(model) or source_by_content(Path(model)) != runtime.reads:
            raise InvalidInput(f"{name} reads .{runtime.reads} files only", field="with", value=name)
        if not runtime.installed:
            raise InvalidInput(runtime.missing, field="with", value=name)
        return Path(model).absolute()
    library = folder / f"{name}.so"
    local.compile(library, target, records if name == "tuned" else None)
    return library


def _print(model: str, results: list[Result], cores: int, as_json: bool) -> None:
    known = [result.latency for result in results if result.latency is not None]
    base = next((r.latency for r in results if r.name == "untuned"), None) or (max(known) if known else None)
    rows = []
    for result in results:
        error = "" if result.error is None else f"{result.error:.1e}"
        if _state(result) is CheckState.NOTHING_CHECKED:
            error = "nothing checked"
        speedup = base / result.latency if base and result.latency else None
        said = [result.failure, result.note, _of_narrow(result)]
        rows.append((result.name, seconds(result.latency), times(speedup), error, "; ".join(filter(None, said))))
    answer = {"model": model, "threads": cores, "peers": [_row(result) for result in results]}
    emit(answer, table(("peer", "latency", "speed-up", "output error", ""), rows), as_json)


def _of_narrow(result: Result) -> str:
    if result.rms is None:
        return ""
    return f"of the largest output; rms {result.rms:.1e}; allowed {result.tolerance:g}"


def _row(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "samples": result.samples,
        "failure": result.failure,
        "note": result.note,
        "error": result.error,
        "rms": result.rms,
        "tolerance": result.tolerance,
        "latency": result.latency,
        "check": _state(result).value,
    }


def _state(result: Result) -> CheckState:
    return judge(result.worst, result.tolerance, result.signal)
