"""From outcomes to the table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.chains.cases import LENGTH
from benchmarks.chains.comparison import ChainOutcome
from benchmarks.harness.contenders import OURS, precision_of
from benchmarks.harness.means import micros
from benchmarks.harness.report import Report, Row
from benchmarks.models import narrow
from benchmarks.models.narrow import Verdict

NAME = "chains"
TEXT = f"""\
Products with constant weights, {LENGTH} in a row, each with a bias and a rectifier. So every runtime chooses layouts,
and hands narrow values from one product to the next. Those in int8 run one quantised file. `kernel` is the product's
own function alone, called repeatedly; it reads and writes narrow values. `share of peak %` is its rate over the best
that the CPU's instruction for the type was seen to do. `of a chain` is one inference over {LENGTH}, conversions at both
ends and calls included: of Tunesmith and of the fastest other runtime in that type, where OpenVINO's default stands for
bf16. `ratio` is the first over the second: the median of the races, and each race."""


def build(outcomes: Sequence[ChainOutcome], details: Mapping[str, str]) -> Report:
    """The table: a row for each product and type."""
    rows = [row for outcome in outcomes for row in _rows(outcome)]
    return Report.of(NAME, "Products in narrow types", TEXT, rows, details)


def _rows(outcome: ChainOutcome) -> Iterator[Row]:
    verdicts = {each.runtime: each for each in narrow.verdicts([outcome])}
    for entry in outcome.entries:
        if entry.runtime not in OURS:
            continue
        precision, inside = precision_of(entry.runtime), outcome.kernels.get(entry.runtime)
        rate = outcome.peak.of(precision).flops if outcome.peak else None
        verdict = verdicts.get(entry.runtime)
        for at, (operator, flops) in enumerate(zip(outcome.chain.short, outcome.chain.flops, strict=True)):
            kernel = inside[at] if inside else None
            yield {
                "operator": operator,
                "type": precision,
                "at the peak µs": micros(flops / rate) if rate else None,
                "kernel µs": micros(kernel),
                "share of peak %": 100.0 * flops / (kernel * rate) if kernel and rate else None,
                "of a chain µs": micros(_per_product(entry.latency)),
                "fastest other": verdict and verdict.peer,
                "other µs": micros(_per_product(_latency(outcome, verdict))),
                "ratio": verdict and f"{verdict.ratio:.2f}",
                "races": verdict and ", ".join(f"{ratio:.2f}" for ratio in verdict.ratios),
                "note": _note(outcome, entry.runtime),
            }


def _per_product(seconds: float | None) -> float | None:
    return seconds and seconds / LENGTH


def _latency(outcome: ChainOutcome, verdict: Verdict | None) -> float | None:
    found = outcome.entry(verdict.peer) if verdict else None
    return found.latency if found else None


def _note(outcome: ChainOutcome, runtime: str) -> str:
    """What failed or computed something else: of ours, and of the others in its precision."""
    precision = precision_of(runtime)
    own = [e for e in outcome.entries if e.runtime == runtime or narrow.is_peer(e, precision)]
    notes = [f"{e.runtime}: {e.result.failure or 'other outputs'}" for e in own if e.result.failure or e.wrong]
    return "; ".join([*notes, *([outcome.failure] if outcome.failure else [])])
