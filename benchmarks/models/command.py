"""``tunesmith bench models``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.harness.progress import progress_of
from benchmarks.harness.report import Report, Row, setup, table, write
from benchmarks.models import narrow, unmeasured

if TYPE_CHECKING:
    from benchmarks.harness.comparison import Entry
    from benchmarks.models.comparison import ModelOutcome

MODELS = ("squeezenet", "resnet50", "densenet121", "shufflenet", "mobilenet", "encoder")
QUICK_MODELS = MODELS[:1]
SECONDS, QUICK_SECONDS = 600.0, 90.0
SLICE, QUICK_SLICE = 1.5, 0.5
PASSES, QUICK_PASSES = 6, 4


def run(
    quick: Annotated[bool, typer.Option(help="One model and short tuning; within ten minutes.")] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="An .onnx or .pt2 file, an architecture of the package onnx such as resnet50, or mobilenet, "
            "encoder, unet, resnext50, efficientnet, unet3d, r3d18, vit; repeatable (default: six)."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Wall time per tuner and model (default: 600, quick 90).")
    ] = None,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with",
            help="Runtimes, separated by commas; with a precision: tunesmith-bf16, tunesmith-int8, onnxruntime-int8, "
            "openvino-default, openvino-int8, torch-bf16; ours without a measurement end in -unmeasured (default: all "
            "in float32, and openvino-default).",
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads per run (default: all cores).")] = None,
    races: Annotated[int, typer.Option(min=1, help="How often the libraries are timed, once they are made.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random weights and the searches.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the CSV file, the table and the plot.")] = Path("bench-out"),
    docs: Annotated[Path | None, typer.Option(help="Markdown page whose section to replace.")] = None,
) -> None:
    """Compare whole models: untuned, tuned by Tunesmith and MetaSchedule for the same time, and on other runtimes."""
    from benchmarks.harness.contenders import chosen_names
    from benchmarks.models import comparison
    from benchmarks.peak.machine import measure
    from workers.tvm_backend.build.local_model import local_target

    names = chosen_names(with_)
    cores = threads or len(os.sched_getaffinity(0))
    plan = comparison.ModelsPlan(
        names,
        local_target(f"cpu:{cores}"),
        seconds or (QUICK_SECONDS if quick else SECONDS),
        QUICK_SLICE if quick else SLICE,
        QUICK_PASSES if quick else PASSES,
        seed,
        races,
    )
    details = {
        "threads": str(cores),
        "wall time of each tuner": f"{plan.seconds:g} s",
        "seed": str(seed),
        "races": str(races),
    }
    peak, outcomes, paths = measure(cores).peak, [], []
    for each in model or (QUICK_MODELS if quick else MODELS):
        with tempfile.TemporaryDirectory(prefix="tunesmith-models-") as folder:
            outcome = comparison.run(each, plan, Path(folder), progress_of(each))
        peak = peak.at_best(measure(cores).peak)
        outcomes.append(replace(outcome, peak=peak))
        # After each model: the next takes an hour, and may not come to its end.
        report = build(outcomes, setup("onnxruntime", "openvino", "torch") | details)
        paths = write(report, out, lambda axes: draw(axes, outcomes), docs)
    print(table(report.columns, report.rows))
    for path in paths:
        print(f"wrote {path}")


def build(outcomes: Sequence[ModelOutcome], details: dict[str, str]) -> Report:
    """The table: one row per model and runtime."""
    rows = [_row(outcome, entry) for outcome in outcomes for entry in outcome.entries]
    return Report.of("models", "Whole models", _summary(outcomes), rows, details)


def draw(axes: Any, outcomes: Sequence[ModelOutcome]) -> None:
    """Latencies as bars from a common start, a group for each model."""
    bars = [
        (f"{outcome.model}, {entry.result.name}", entry.result.latency * 1e3, entry.result.name)
        for outcome in outcomes
        for entry in outcome.entries
        if entry.result.latency
    ]
    colours = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(name for _, _, name in bars))}
    drawn = axes.barh(
        [label for label, _, _ in bars], [value for _, value, _ in bars], color=[colours[name] for _, _, name in bars]
    )
    axes.bar_label(drawn, fmt="%.3g", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set(xscale="log", xlabel="latency, ms", title="One inference, batch 1")


def _row(outcome: ModelOutcome, entry: Entry) -> Row:
    from benchmarks.harness.contenders import DEFAULT, precision_of

    result, base = entry.result, outcome.entry("untuned")
    latency, precision = result.latency, precision_of(result.name)
    share = None if precision == DEFAULT else outcome.share_in(precision, latency)
    speedup = base.result.latency / latency if base and base.result.latency and latency else None
    timed = narrow.races(result.medians, outcome.passes)
    passes = f"{min(result.medians) * 1e3:.3g} … {max(result.medians) * 1e3:.3g}" if result.medians else None
    note = result.failure or ("other outputs than the reference" if entry.wrong else "")
    return {
        "model": outcome.model,
        "runtime": result.name,
        "latency ms": latency and latency * 1e3,
        "passes ms": passes,
        "races ms": " / ".join(f"{seconds * 1e3:.3g}" for seconds in timed) if len(timed) > 1 else None,
        "speed-up": speedup,
        "share of peak %": share and 100 * share,
        "candidates": entry.candidates,
        "tuned for s": entry.tuned_seconds,
        "without schedule": entry.missing,
        "output error": result.error,
        "note": note,
    }


def _summary(outcomes: Sequence[ModelOutcome]) -> str:
    lines = [
        "One inference of each model, batch 1, the same random inputs and the same number of threads; in float32 where "
        "the runtime's name says nothing else. `openvino-default` chooses its precision itself. Those in int8 run one "
        "file, which `tunesmith quantize` makes; their outputs are held against onnxruntime's, and may differ by 6 % "
        "of the largest, or by twice as much as onnxruntime's own move when its inputs change by a millionth.",
        "- Both tuners had the same wall time, alone on the machine. Tunesmith's includes the start of its stack and "
        "the import of the model. MetaSchedule's (`tune_relax`, 64 candidates a round by default, and 16) includes "
        "the start of its process. Rounds that MetaSchedule had measured but not yet read count too.\n"
        "- Only TVM's passes prepared the untuned model and MetaSchedule's; Tunesmith's is prepared as in its jobs.\n"
        "- Every runtime was timed in turn, there and back, in several processes. The latency is the median of all "
        "samples; `passes` has the lowest and the highest median of one process, `races` the latency of each race. "
        "PyTorch is eager.\n"
        "- `share of peak`: share of the machine's limit in the precision that the name says. Operations are those of "
        "the plain algorithms, so Winograd's convolution counts for more than it does.\n"
        "- `without schedule`: tunable functions without a schedule at the end.\n"
        "- Those that are `unmeasured` were compiled as `tunesmith compile` does it without a log, with nothing known; "
        "`tuned for s` is then the time from file to library.",
    ]
    found = [*map(_verdict, outcomes), narrow.text(outcomes), unmeasured.text(outcomes)]
    return "\n\n".join(lines + [each for each in found if each])


def _verdict(outcome: ModelOutcome) -> str:
    from benchmarks.harness.contenders import METASCHEDULE
    from workers.peers.comparison import FOREIGN

    ours = outcome.entry("tunesmith")
    baselines = [
        ("untuned", outcome.entry("untuned")),
        ("the better MetaSchedule", outcome.fastest(METASCHEDULE)),
        ("the fastest other runtime in float32", outcome.fastest(FOREIGN)),
    ]
    if ours is None or not ours.result.latency:
        return ""
    times = [
        f"{baseline.result.latency / ours.result.latency:.3g} times as fast as {name}"
        + (f" ({baseline.result.name})" if baseline.result.name != name else "")
        for name, baseline in baselines
        if baseline and baseline.result.latency
    ]
    return f"**{outcome.model}**: tuned by Tunesmith it is {', '.join(times)}." if times else ""
