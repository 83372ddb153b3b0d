"""``tunesmith bench yardstick``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    runs: Annotated[int, typer.Option(min=1, help="Jobs per model, each with its own seed.")] = 3,
    trials: Annotated[int, typer.Option(min=1, help="Trials per job.")] = 24,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Tune models of one Relu, one Reshape and one copy, and check that jobs report "no difference"."""
    import tempfile

    from benchmarks.harness.report import check, setup, write
    from benchmarks.yardstick.figures import NAME, report
    from benchmarks.yardstick.measure import tune

    if docs:
        check(NAME, docs)
    with tempfile.TemporaryDirectory(prefix="tunesmith-yardstick-") as folder:
        found = tune(Path(folder), runs, trials, lambda line: typer.echo(line, err=True))
    for path in write(report(found, {**setup(), "trials": str(trials)}), out, docs=docs):
        typer.echo(path)
