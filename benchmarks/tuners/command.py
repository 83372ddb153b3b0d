"""``tunesmith bench tuners``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.harness.limits import Peak
from benchmarks.harness.report import Report, check, render, setup, write, write_rows
from benchmarks.tuners import plan
from benchmarks.tuners.outcome import TunerRun
from tunesmith.cli.options import Json
from tunesmith.cli.output import emit
from tunesmith.errors import InvalidInput, MeasurementFailed, TunesmithError
from tunesmith.operators import parse_operator
from tunesmith.targets import Target, choose, parse_target

LEDGER = "tuners-runs.jsonl"


def run(
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="An operator spec; repeatable (default: eight).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two operators, done within ten minutes.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help=f"Tuning time of a run (default: {plan.SECONDS:g}, quick {plan.QUICK_SECONDS:g})."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own seed.")] = 1,
    target: Annotated[str, typer.Option(help="cpu, cpu:N or target JSON of this host's CPU.")] = "cpu",
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("bench-out"),
    resume: Annotated[bool, typer.Option("--resume", help="Resume what is in --out.")] = False,
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
    as_json: Json = False,
) -> None:
    """Compare tuners: Tunesmith, random search, and MetaSchedule with 16 and 64 candidates a round.

    Each run is kept in --out as it ends.
    """
    specs = operators or (plan.QUICK_OPERATORS if quick else plan.OPERATORS)
    chosen = [parse_operator(text).canonical for text in specs]
    check("tuners", docs)
    budget = seconds or (plan.QUICK_SECONDS if quick else plan.SECONDS)
    deadline = plan.Deadline(plan.QUICK_LIMIT if quick else None)
    where = _target(target)
    ledger = plan.Ledger(out / LEDGER, resume)
    groups = list(plan.groups(chosen, seeds, where, budget))
    todo = [(group, ledger.missing(group)) for group in groups]  # a mistake shows before anything runs
    count = sum(len(missing) for _, missing in todo)
    _say(f"{count} runs of {budget:g} s: about {count * (budget + plan.START_UP) / 60.0:.0f} minutes")
    for group, missing in todo:
        _group(ledger, group, missing, where, deadline)
    skipped = sum(len(ledger.missing(group)) for group in groups)
    notes = f"{skipped} of {sum(map(len, groups))} runs are missing." if skipped else ""
    peak = None if quick else _peak(where.num_cores)
    report = _report(ledger, chosen, where, budget, seeds, peak, notes)
    _write(report, ledger, chosen, out, docs)
    if skipped == sum(map(len, groups)):
        raise MeasurementFailed(f"no tuner came to an end; see {out / LEDGER}")
    from benchmarks.tuners.figures import verdict

    rows = [dict(zip(report.columns, row, strict=True)) for row in report.rows]
    emit({"rows": rows, "missing": skipped}, f"{report.summary}\n\ngeometric means: {verdict(ledger, chosen)}", as_json)


def _target(text: str) -> Target:
    """The target on this host.

    Raises:
        InvalidInput: it is no CPU, or needs more cores than there are.
    """
    from workers.tvm_backend.host import describe_from_outside

    spec = parse_target(text)
    if spec.kind != "llvm":
        raise InvalidInput("tuners are compared on this host's CPU: give cpu or cpu:N", field="target", value=text)
    host = describe_from_outside()
    found = spec.target or choose(spec, [host.target])
    if found.num_cores > host.cores:
        problem = f"{text} has {found.num_cores} cores, and this host {host.cores}"
        raise InvalidInput(problem, field="target", value=text)
    return found


def _group(
    ledger: plan.Ledger, group: Sequence[plan.Ask], missing: Sequence[plan.Ask], target: Target, deadline: plan.Deadline
) -> None:
    """The runs of one operator and seed that are missing, then the best of all of them measured again."""
    runs_end = deadline.earlier(plan.SPARE)
    for ask in missing:
        if runs_end.left(1.0):
            _say(f"{ask.operator}, seed {ask.seed}: {ask.tuner} ...")
            outcome = _run(ask, runs_end)
            ledger.keep(outcome)
            _say(f"  {outcome.failure or _line(outcome)}")
    operator, seed = group[0].operator, group[0].seed
    known = [o for (name, number, _), o in ledger.outcomes.items() if (name, number) == (operator, seed)]
    good = [outcome for outcome in known if not outcome.failure]
    if good and (operator, seed) not in ledger.finals and deadline.left(1.0):
        from benchmarks.tuners import remeasure

        with tempfile.TemporaryDirectory(prefix="tunesmith-bench-") as folder:
            try:
                ledger.keep(remeasure.run(good, target, Path(folder), deadline))
            except MeasurementFailed as error:
                _say(f"  {error.detail}")


def _run(ask: plan.Ask, deadline: plan.Deadline) -> TunerRun:
    from benchmarks.tuners import metaschedule, service

    with tempfile.TemporaryDirectory(prefix="tunesmith-bench-", ignore_cleanup_errors=True) as folder:
        tuner = metaschedule.run if ask.tuner in plan.PER_ROUND else service.run
        try:
            return tuner(ask, Path(folder), deadline)
        except TunesmithError as error:
            return ask.outcome(failure=f"{error.code}: {error.detail}")


def _line(outcome: TunerRun) -> str:
    best = f"{outcome.best * 1e6:.3g} µs" if outcome.best else "none"
    rate = f"{outcome.counted} candidates in {outcome.elapsed:.0f} s, {outcome.rate() or 0.0:.0f} a minute"
    return f"{rate}; best {best}; start-up {outcome.startup:.0f} s"


def _report(
    ledger: plan.Ledger,
    operators: Sequence[str],
    target: Target,
    budget: float,
    seeds: int,
    peak: Peak | None,
    notes: str,
) -> Report:
    from benchmarks.tuners import figures

    about: dict[str, Any] = {
        **setup("xgboost-cpu", "lightgbm"),
        "target": target.canonical,
        "threads": str(target.num_cores),
        "budget": f"{budget:g} s",
        "seeds": str(seeds),
    }
    return figures.report(ledger, operators, about, peak, notes)


def _peak(threads: int) -> Peak | None:
    """This machine's limits; None when they cannot be measured, which spoils one column only."""
    from benchmarks.peak.machine import measure

    try:
        return measure(threads).peak.at_best(measure(threads).peak)
    except MeasurementFailed as error:
        _say(f"no share of the peak: {error.detail}")
        return None


def _write(report: Report, ledger: plan.Ledger, operators: Sequence[str], out: Path, docs: Path | None) -> None:
    from benchmarks.tuners import figures

    write_rows(out / "tuners-curves.csv", figures.curves(ledger))
    write(report, out, figures.draw(ledger, operators), docs)
    for axis in ("device seconds", "trials"):
        render(figures.draw(ledger, operators, axis), out / f"tuners-{axis.replace(' ', '-')}.svg")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
