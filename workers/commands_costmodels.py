"""``tunesmith costmodels evaluate``: how well models rank programs that they did not learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from costmodels import evaluation, splits
from costmodels.evaluation import METRICS, NOISE, Interval, Row
from costmodels.labelled import Labelled
from tunesmith.cli.options import Json
from tunesmith.cli.output import emit
from tunesmith.cli.progress import shown
from tunesmith.errors import InvalidInput
from tunesmith.names import DEFAULT_PRECISION


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A service's data folder, or a folder of recordings.")],
    contender: Annotated[
        list[str] | None, typer.Option(help="Only this contender, such as ranker; repeatable (default: all).")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target's hash (default: the one with most records).")] = None,
    precision: Annotated[str, typer.Option(help="Precision of the records.")] = DEFAULT_PRECISION,
    sampler: Annotated[
        str | None,
        typer.Option(help="Only labels of collecting jobs with this sampler, such as uniform (default: every record)."),
    ] = None,
    imported: Annotated[bool, typer.Option("--imported", help="Take what was imported, too.")] = False,
    again: Annotated[
        list[Path] | None,
        typer.Option(
            help="Latencies of a second measurement, which take the records' place, here or on another processor; "
            "others are left out. Repeatable: programs of all but the first are only learned from."
        ),
    ] = None,
    code: Annotated[
        list[Path] | None,
        typer.Option(
            help="Counts of the programs' machine code, built for the records' own target, which the code ranker "
            "reads; repeatable."
        ),
    ] = None,
    study: Annotated[
        list[str] | None,
        typer.Option(help=f"What is held out: {', '.join(splits.STUDIES)}; repeatable (default: all)."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts in which workloads are held out.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the parts and of the models.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare the static model, the ranker and other cost models on measured programs, by held-out workloads."""
    from tunesmith.dataset import again as latencies
    from tunesmith.dataset import code as counts
    from workers.core import labelled as source
    from workers.tvm_backend.warm import warm

    warm("llvm")
    chosen, studies = _contenders(contender), _studies(study)
    with shown("evaluating", as_json):
        found = source.of_folder(
            folder,
            target,
            precision,
            sampler,
            imported=imported,
            again=[latencies.read(each) for each in again or ()],
            code=dict(item for each in code or () for item in counts.read(each).items()),
        )
        labelled = Labelled.of(found)
        cuts = [cut for name in studies for cut in splits.STUDIES[name](labelled, folds, seed)]
        if not cuts:
            many = f"{len(labelled.names)} workloads and {len(set(labelled.kin))} kinds"
            raise InvalidInput(
                f"{folder.name} has programs of {many}; held out by {', '.join(studies)} nothing is left to learn from",
                field="folder",
                value=folder.name,
            )
        rows = evaluation.evaluate_all(labelled, cuts, chosen, seed)
        if again:  # one latency each says nothing of its noise
            rows = [row for row in rows if row.contender != evaluation.NOISE]
    body = {"programs": len(labelled.data), "workloads": list(labelled.names), "rows": [asdict(row) for row in rows]}
    emit(body, _text(labelled, rows), as_json)


def _contenders(names: Sequence[str] | None) -> dict[str, evaluation.Contender]:
    """All, or those that are asked for."""
    from workers.tvm_backend.design_space import metaschedule_model

    known = {**evaluation.contenders(), metaschedule_model.NAME: metaschedule_model.scores}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        listed = ", ".join(repr(name) for name in known)
        raise InvalidInput(f"there is no contender {unknown[0]!r}: take {listed}", field="contender", value=unknown[0])
    return {name: found for name, found in known.items() if not names or name in names}


def _studies(names: Sequence[str] | None) -> list[str]:
    """All, or those that are asked for."""
    unknown = [name for name in names or () if name not in splits.STUDIES]
    if unknown:
        listed = ", ".join(splits.STUDIES)
        raise InvalidInput(f"there is no study {unknown[0]!r}: take {listed}", field="study", value=unknown[0])
    return list(names or splits.STUDIES)


def _text(labelled: Labelled, rows: Sequence[Row]) -> str:
    """Tables, one for each study."""
    programs, workloads = len(labelled.data), len(set(labelled.workloads))
    lines = [
        f"{programs} programs of {workloads} workloads; means over held-out workloads, with the 95 % bands of a "
        "bootstrap over them"
    ]
    width = max(len(row.contender) for row in rows)
    for study in dict.fromkeys(row.study for row in rows):
        mine = [row for row in rows if row.study == study]
        lines += ["", f"held out by {study}" if "shots" not in study else f"{study} of each held-out workload known"]
        lines.append("  ".join([" " * width, *(f"{name:>16}" for name in METRICS)]))
        for row in sorted(mine, key=lambda row: row.contender == NOISE):
            figures = (_figure(row.figures[name]) for name in METRICS)
            lines.append("  ".join([f"{row.contender:{width}}", *(f"{figure:>16}" for figure in figures)]))
    return "\n".join(lines)


def _figure(found: Interval) -> str:
    if found.mean != found.mean:
        return "–"
    return f"{found.mean:.3f} {found.low:.2f}–{found.high:.2f}"
