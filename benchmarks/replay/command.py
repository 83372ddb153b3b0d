"""``tunesmith bench replay``: tuning methods compared on recorded data, and ``collect``, which records it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True)


@app.callback()
def run(context: typer.Context) -> None:
    """Compare searchers, allocators and cost models on recorded data, without hardware."""


@app.command()
def collect(
    minutes: Annotated[float, typer.Option(help="Stop after this many minutes; a later run goes on.", min=0.1)] = 20.0,
    points: Annotated[int, typer.Option(help="Points of a space, about.", min=8)] = 480,
    operator: Annotated[list[str] | None, typer.Option(help="Only this operator of the set, or one of your own; "
                                                             "may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the recordings; the shipped one by default.")] = None,
) -> None:
    """Measure small design spaces completely on this machine. Let nothing else run meanwhile."""
    from benchmarks.replay.workloads import DATA, WORKLOADS
    from workers.tvm_backend.warm import warm

    warm("llvm")
    from benchmarks.replay.collect import Collector, Rules
    from benchmarks.replay.station import Station

    deadline = time.monotonic() + 60 * minutes
    folder = out or DATA
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tunesmith-replay-") as scratch:
        station = Station(Path(scratch))
        try:
            collector = Collector(station, folder, deadline, lambda line: print(line, flush=True), Rules(points=points))
            found = [collector.collect(spec, WORKLOADS.get(spec, 1.0)) for spec in operator or WORKLOADS]
        finally:
            station.close()
    whole = sum(recording is not None and bool(recording.facts.get("complete")) for recording in found)
    print(f"{whole} of {len(found)} recordings complete" + ("" if whole == len(found) else ": run it again to go on"))
