"""From jobs to a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gpu.jobs import Tuned
from benchmarks.harness.means import micros, ratio
from benchmarks.harness.report import Report

NAME = "gpu"


def wrong(tuned: Tuned, simulate: bool) -> str:
    """What is wrong with a job's outcome; empty when it has a schedule whose outputs were compared.

    A simulated device computes nothing, so that there is nothing to compare.
    """
    if tuned.problem:
        return tuned.problem
    if tuned.best is None or not tuned.candidates:
        return f"no candidate runs, of {sum(tuned.failures.values())} that failed: {tuned.message}"
    if tuned.output_error is None and not simulate:
        return "the outputs of its schedule were not compared"
    return ""


def gpu(found: Sequence[Tuned], facts: Mapping[str, str], simulate: bool) -> Report:
    """A line for each operator."""
    rows = [
        {
            "operator": tuned.operator,
            "untuned, µs": micros(tuned.untuned),
            "tuned, µs": micros(tuned.best),
            "times as fast": ratio(tuned.untuned, tuned.best),
            "TFLOP/s": None if tuned.best is None else tuned.flops / tuned.best / 1e12,
            "candidates": tuned.candidates,
            "failed": ", ".join(f"{count} {kind}" for kind, count in tuned.failures.items()) or "0",
            "build, s": tuned.build,
            "output error": tuned.output_error,
        }
        for tuned in found
    ]
    summary = (
        "Each operator was tuned on the GPU by a job of an embedded stack, with a device and a measure worker of their "
        "own. *Untuned* is TVM's default GPU schedule. *Output error* is the tuned outputs' distance from its outputs, "
        "by the signal; *build* is the median of a candidate's, by the compiler below."
    )
    if simulate:
        summary = f"**Invented**: there was no GPU, and these latencies are drawn from hashes. {summary}"
    return Report.of(NAME, "Products on a GPU", summary, rows, facts)
