"""``tunesmith bundle`` and ``tunesmith rerun``: all that one result needs in an archive, and the result made again."""

from __future__ import annotations

import datetime as dt
import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tunesmith import __version__, bundles
from tunesmith.arithmetic import ROUNDED
from tunesmith.child_process import THREADS
from tunesmith.cli.checks import check_model, check_output_file, parse_inputs
from tunesmith.cli.options import Inputs, Json, Key, Server, chosen, connect
from tunesmith.cli.output import emit, seconds, table, times
from tunesmith.cli.progress import shown
from tunesmith.errors import InvalidInput, MeasurementFailed
from tunesmith.full_disk import writing
from tunesmith.measuring.ratio import Verdict, ratio
from tunesmith.schedule_log import ScheduleLog, read_log
from tunesmith.sdk.tuned import DATABASE as DATABASE_FOLDER
from workers.commands_verify import threads_of
from workers.peers.comparison import TVM_PEER, Peer, Result, check_outputs, take_turns, write_inputs
from workers.quiet import libraries_are_quiet
from workers.tvm_backend.build.local_model import LocalModel, PreparedModel, target_of
from workers.tvm_backend.host import describe

PACKAGES = ("tunesmith", "apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "torch")
VARIABLES = ("TVM_NUM_THREADS", *THREADS)
NAMES = ("tuned", "untuned")
RECORDED = "recorded"
Time = Annotated[float, typer.Option("--time", min=0.1, help="Seconds of timing per build and pass.")]


def bundle(
    source: Annotated[
        str, typer.Argument(metavar="LOG|JOB", help="best.jsonl, a folder of a result, or the id of a job, or 'last'.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The archive to write.")] = Path("bundle.zip"),
    model: Annotated[str | None, typer.Option(help="The model, where LOG is a file: .onnx, .pt2, TVM JSON.")] = None,
    inputs: Inputs = None,
    time_: Time = 2.0,
    as_json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Put all that one result needs into an archive: module, weights, schedules, versions, outputs and latencies."""
    check_output_file(output)
    with (
        libraries_are_quiet(),
        shown("bundling", as_json),
        tempfile.TemporaryDirectory(prefix="tunesmith-bundle-") as temporary,
        writing(output),
    ):
        folder = Path(temporary)
        members, about = _collected(source, folder, model, parse_inputs(inputs or []), (server, key))
        prepared, log = _model_of(members, folder)
        write_inputs(prepared.drawn_inputs(), folder)
        results, missing = _timed(prepared, log, folder, time_)
        members |= {name: folder / name for name in bundles.INPUTS}
        members |= {name: folder / f"tuned-{which}.npz" for which, name in enumerate(bundles.OUTPUTS)}
        about |= {"measured": {each.name: each.samples for each in results}, "missing": missing}
        manifest = bundles.write(output, members, {**_surroundings(log), **about})
    emit({"path": str(output), **manifest}, str(output), as_json)


def rerun(
    archive: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What 'tunesmith bundle' wrote.")],
    time_: Time = 2.0,
    as_json: Json = False,
) -> None:
    """Compile and time a bundle's result again, next to what it recorded; fails if outputs or ranks differ."""
    with (
        libraries_are_quiet(),
        shown("rerunning", as_json),
        tempfile.TemporaryDirectory(prefix="tunesmith-rerun-") as temporary,
    ):
        folder = Path(temporary)
        manifest = bundles.unpack(archive, folder)
        members = {name: folder / name for name in manifest["files"]}
        prepared, log = _model_of(members, folder)
        results, missing = _timed(prepared, log, folder, time_)
        for which, name in enumerate(bundles.OUTPUTS):
            members[name].rename(folder / f"{RECORDED}-{which}.npz")
        before = _recorded(manifest, archive)
        recorded = Result(RECORDED, before["tuned"])
        narrow = [*NAMES, RECORDED] if log.preparation.precision in ROUNDED else []
        check_outputs([*results, recorded], folder, (RECORDED,), narrow)
    changed = _changes(manifest, _surroundings(log))
    rows = [_row(each, before[each.name]) for each in results]
    emit({"results": rows, "changed": changed, "missing": missing}, _table(rows), as_json)
    if not as_json:
        for name, (old, new) in changed.items():
            print(f"changed: {name}: {old} -> {new}")
    _judge(results, [name for name in missing if name not in manifest.get("missing", [])])


def _collected(
    source: str, folder: Path, model: str | None, shapes: dict[str, tuple[int, ...]], connection: tuple[Any, Any]
) -> tuple[dict[str, Path], dict[str, Any]]:
    """Files of a result by member name, and what is known of its job."""
    path = Path(source)
    if path.is_file():
        if model is None:
            detail = "a log has no weights: give the model that it tuned with --model, or the id of the job"
            raise InvalidInput(detail, field="model")
        check_model(model)
        made = LocalModel(model, shapes, folder, read_log(path).preparation)
        (folder / bundles.MODULE).write_bytes(made.module)
        return {bundles.LOG: path, bundles.MODULE: folder / bundles.MODULE, bundles.PARAMS: made.params}, {}
    about: dict[str, Any] = {}
    if not path.is_dir():
        path = folder / "result"
        about = _downloaded(source, path, connection)
    elif (path / "summary.json").is_file():
        about = {"summary": json.loads((path / "summary.json").read_text(encoding="utf-8"))}
    return _of_folder(path), about


def _of_folder(path: Path) -> dict[str, Path]:
    """Members in the folder of ``tune --out``, or of an exported database."""
    base = path / DATABASE_FOLDER if (path / DATABASE_FOLDER).is_dir() else path
    places = {name: base / name for name in (bundles.MODULE, bundles.PARAMS, *bundles.DATABASE)}
    places[bundles.LOG] = path / bundles.LOG
    found = {name: place for name, place in places.items() if place.is_file()}
    lacking = [name for name in (bundles.MODULE, bundles.PARAMS) if name not in found]
    if lacking:
        made = "'tunesmith tune --out' or 'tunesmith best --format metaschedule' made"
        raise InvalidInput(f"{path} has no {lacking[0]}: give a folder that {made}", field="source", value=str(path))
    return found


def _downloaded(job: str, folder: Path, connection: tuple[Any, Any]) -> dict[str, Any]:
    """Fetch a job's result; what the server says of it and of its device."""
    with connect(*connection) as client:
        body = client.job(chosen(client, job))
        client.download_metaschedule(body.id, folder / DATABASE_FOLDER)
        client.download_best(body.id, folder / bundles.LOG)
        devices = [each for each in client.devices() if body.device_class in each.device_classes]
    return {"job": body.model_dump(mode="json"), "devices": [each.model_dump(mode="json") for each in devices]}


def _model_of(members: Mapping[str, Path], folder: Path) -> tuple[PreparedModel, ScheduleLog]:
    log = read_log(members[bundles.LOG] if bundles.LOG in members else members[bundles.DATABASE[0]].parent)
    if not log.records:
        raise InvalidInput("the log has no schedule: every task keeps its default one", field="log")
    threads_of(log.records[0].target)
    return PreparedModel(members[bundles.MODULE].read_bytes(), members[bundles.PARAMS], folder), log


def _timed(model: PreparedModel, log: ScheduleLog, folder: Path, time_: float) -> tuple[list[Result], list[str]]:
    """The tuned and the untuned build, timed in turn on the inputs in the folder; names of tasks without a schedule."""
    target, missing = target_of(log.records), []
    assert target is not None
    for name in NAMES:
        without = model.compile(folder / f"{name}.so", target, log.records if name == "tuned" else None)
        missing += without if name == "tuned" else []
    peers = [Peer(name, TVM_PEER, folder / f"{name}.so") for name in NAMES]
    results = take_turns(peers, folder, time_, threads_of(log.records[0].target))
    failed = next((each for each in results if each.failure), None)
    if failed is not None:
        raise MeasurementFailed(f"the {failed.name} build does not run here: {failed.failure}")
    return results, missing


def _surroundings(log: ScheduleLog) -> dict[str, Any]:
    """What a result depends on besides the files."""
    installed = {each.metadata["Name"].lower(): each.version for each in metadata.distributions()}
    return {
        "made_at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        "target": dict(log.records[0].target),
        "preparation": log.preparation.key,
        "versions": {"tunesmith": __version__} | {name: installed[name] for name in PACKAGES if name in installed},
        "host": {name: value for name, value in asdict(describe()).items() if name != "name"},
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _recorded(manifest: Mapping[str, Any], archive: Path) -> dict[str, list[float]]:
    try:
        found = {name: [float(each) for each in manifest["measured"][name]] for name in NAMES}
    except (LookupError, TypeError, ValueError):
        found = {}
    if not found or not all(found.values()):
        raise InvalidInput(f"{archive} has no latencies in its manifest", field="bundle", value=str(archive))
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What is another one than then, by name."""
    found: dict[str, list[Any]] = {}
    for part in ("versions", "host", "environment"):
        old, new = before.get(part) or {}, now[part]
        names = sorted({*old, *new}) if isinstance(old, dict) else []
        found |= {name: [old.get(name), new.get(name)] for name in names if old.get(name) != _plain(new.get(name))}
    return found


def _plain(value: Any) -> Any:
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value))


def _row(result: Result, before: list[float]) -> dict[str, Any]:
    old = statistics.median(before)
    return {"name": result.name, "before": old, "now": result.latency, "error": result.error, "samples": result.samples}


def _table(rows: list[dict[str, Any]]) -> Table:
    cells = [
        (each["name"], *map(seconds, (each["before"], each["now"])), times(each["before"] / each["now"]), error)
        for each in rows
        for error in [f"{each['error']:.1e}"]
    ]
    return table(("build", "then", "now", "faster", "output error"), cells)


def _judge(results: list[Result], missing: list[str]) -> None:
    """Raises MeasurementFailed where the result is not the one that was recorded."""
    wrong = next((each for each in results if each.differs), None)
    if wrong is not None:
        raise MeasurementFailed(f"outputs of the {wrong.name} build differ from the recorded ones by {wrong.error:.1e}")
    if missing:
        raise MeasurementFailed(f"{len(missing)} schedules apply no more: {', '.join(missing[:5])}")
    tuned, untuned = results
    if ratio(untuned.samples, tuned.samples).verdict is Verdict.SLOWER:
        raise MeasurementFailed("the untuned build is the faster one here: tune the model again")
