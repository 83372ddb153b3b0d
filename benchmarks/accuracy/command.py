"""``tunesmith bench accuracy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each network, each with its own seed.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 30,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose sections to replace.")] = None,
) -> None:
    """Train networks that read digits, compile them in each precision, and count what they read."""
    import tempfile

    from benchmarks.accuracy.figures import NAME, report
    from benchmarks.accuracy.reading import read_all
    from benchmarks.harness.report import check, setup, write

    if docs:
        check(NAME, docs)
    with tempfile.TemporaryDirectory(prefix="tunesmith-accuracy-") as folder:
        found = read_all(Path(folder), range(seeds), epochs, lambda line: typer.echo(line, err=True))
    settings = {"seeds": str(seeds), "epochs": str(epochs)}
    made = report(found, {**setup("torch", "scikit-learn", "onnxruntime"), **settings})
    for path in write(made, out, docs=docs):
        typer.echo(path)
    typer.echo(made.summary)
