"""Schedules that nobody measured, beside what a search finds of the same operators; all timed in one race each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.guides.candidates import Unmeasured
from benchmarks.harness.jobs import FROM_SCRATCH, SAME_TASK, measured_of, service, warm_up
from benchmarks.harness.means import band_columns
from benchmarks.harness.measurer import LocalMeasurer, open_measurer
from benchmarks.harness.operators import Operator, load
from benchmarks.harness.progress import Progress
from benchmarks.harness.report import Report, Row
from tunesmith.client import Client
from tunesmith.dataset.families import FAMILIES, draw_operators
from tunesmith.messages import Calibration
from tunesmith.space.base import PointBatch
from tunesmith.space.likeness import apart
from tunesmith.targets import Target
from tunesmith.types import Candidate
from tunesmith.unmeasured import Source
from workers.core.siblings import fitted
from workers.tvm_backend.build.local_model import local_target

NAME = "answers"
JOB_SECONDS = 600.0
"""Seconds in which a job must be over."""
AT_ONCE = 6
"""Jobs under way: one is proposed for while another one is measured, and few design spaces are kept in memory."""
FASTEST = 3
"""Candidates of a search that are timed again: the fastest one may have been lucky."""
NEAR_RATIO = 1.1
"""Times what a search finds that count as near it."""
STATIC = "static model alone"
"""The choice by estimates; `Source.ESTIMATED` is the one that was read."""


@dataclass(frozen=True)
class Draw:
    """What to draw and how long to search.

    Attributes:
        count: operators that are answered; as many others are tuned before them.
        seed: of the draw and of the searches.
        trials: candidates of each search.
    """

    count: int
    seed: int
    trials: int


@dataclass(frozen=True)
class Answered:
    """An operator.

    Attributes:
        spec: its text.
        search: the best that a search found, in seconds.
        answers: what was chosen without measuring it, in seconds by how; infinity for a failure.
    """

    spec: str
    search: float
    answers: Mapping[str, float]

    def ratio(self, how: str) -> float | None:
        """Over what the search found; None where there is no such answer, or one of them failed."""
        found = self.answers.get(how, math.inf) / self.search
        return found if math.isfinite(found) else None


def answered(draw: Draw, cores: int, folder: Path, progress: Progress) -> Iterator[Answered]:
    """Tune drawn operators, then answer half of them as if nothing but the other half were known.

    Raises:
        TargetUnavailable: nothing that is shipped was learned for this processor.
        TunesmithError: a job failed, or was not over in time.
    """
    specs = [spec.canonical for spec in draw_operators(list(FAMILIES), 2 * draw.count, draw.seed)]
    target = local_target(f"cpu:{cores}")
    with service(folder) as client:
        fastest = _searched(client, specs, target, draw, progress)
    earlier = [(load(spec, target), fastest[spec][0]) for spec in specs[: draw.count] if fastest[spec]]
    with open_measurer() as measurer:
        calibration = measurer.calibration()
        for spec in specs[draw.count :]:
            found = _of(measurer, calibration, spec, fastest[spec], earlier)
            if found is not None:
                yield found


def _searched(
    client: Client, specs: Sequence[str], target: Target, draw: Draw, progress: Progress
) -> dict[str, list[Candidate]]:
    """The fastest candidates of each operator, each found by a job of its own that takes nothing over."""
    warm_up(client, target)
    options = {"seed": draw.seed, "trials": draw.trials, **FROM_SCRATCH, **SAME_TASK}

    def fastest(job: str) -> list[Candidate]:
        client.wait(job, timeout=JOB_SECONDS)
        ran = [each for each in measured_of(client.trials(job)) if each.latency and each.candidate.sketch]
        return [each.candidate for each in sorted(ran, key=lambda each: each.latency or 0.0)[:FASTEST]]

    under_way, found = dict[str, str](), dict[str, list[Candidate]]()
    for number, spec in enumerate(specs, 1):
        under_way[spec] = client.submit(operator=spec, target=target.to_json(), **options).id
        while len(under_way) >= AT_ONCE or (number == len(specs) and under_way):
            first = next(iter(under_way))
            found[first] = fastest(under_way.pop(first))
            progress(f"{len(found)} of {len(specs)} operators tuned")
    return found


def _of(
    measurer: LocalMeasurer,
    calibration: Calibration,
    spec: str,
    fastest: Sequence[Candidate],
    earlier: Sequence[tuple[Operator, Candidate]],
) -> Answered | None:
    """None for an operator of which a search found nothing, or the static model knows nothing."""
    found = Unmeasured.open(spec, measurer.target, calibration)
    space = found.traces.space
    lists = [space.batch(fastest), found.best(), found.chosen(), _rescaled(found, earlier)]
    if not all(map(len, lists[:3])):
        return None
    seconds = [float(each.min()) if len(each) else math.inf for each in found.latencies(measurer, lists)]
    if not math.isfinite(seconds[0]):
        return None
    names = (STATIC, Source.ESTIMATED.value, Source.RESCALED.value)
    return Answered(
        spec, seconds[0], {n: s for n, s, points in zip(names, seconds[1:], lists[1:], strict=True) if len(points)}
    )


def _rescaled(found: Unmeasured, earlier: Sequence[tuple[Operator, Candidate]]) -> PointBatch:
    """The most alike one's champion with its tiles fitted to these extents; empty where none fits."""
    mine, own = found.operator.task.workload, list(found.operator.bodies.values())
    alike = [each for each in earlier if each[0].task.workload.family == mine.family]
    shapes = [spec.shape for spec in mine.args]
    alike.sort(key=lambda each: apart(shapes, [spec.shape for spec in each[0].task.workload.args]))
    space = found.traces.space
    for operator, fastest in alike:
        candidate = fitted(fastest, operator.bodies[str(fastest.sketch)], own)
        if candidate is not None and space.known([candidate])[0]:
            return space.batch([candidate])
    return space.batch([])


def line(found: Answered) -> str:
    """A line of progress."""
    ratios = (f"{how} {found.ratio(how) or math.nan:.2f}" for how in found.answers)
    return f"{found.spec}, over what a search finds: {', '.join(ratios)}"


def report(found: Sequence[Answered], draw: Draw, setup: Mapping[str, str]) -> Report:
    """One line per way to choose."""
    ways = list(dict.fromkeys(how for each in found for how in each.answers))
    summary = (
        f"{len(found)} drawn operators, each tuned for {draw.trials} trials by a job that takes nothing over, and "
        f"answered as if only {draw.count} others were known. All was timed in one race for each operator; of a search "
        f"the best of its {FASTEST} fastest candidates counts.\n\n"
        f"- `{STATIC}`: the lowest estimate. `{Source.ESTIMATED.value}`: what `tunesmith compile` chooses without a "
        f"log. `{Source.RESCALED.value}`: the champion of the most alike of the others, its tiles fitted to these "
        "extents.\n"
        "- The ratio is the latency over what the search found, geometric mean with a 95 % bootstrap over operators.\n"
        f"- Near: the share within {NEAR_RATIO - 1:.0%} of the search. That is the answer's confidence."
    )
    return Report.of(NAME, "Answers without a measurement", summary, [_row(how, found) for how in ways], setup)


def _row(how: str, found: Sequence[Answered]) -> Row:
    ratios = [ratio for each in found if (ratio := each.ratio(how)) is not None]
    near = [ratio <= NEAR_RATIO for ratio in ratios]
    return {
        "schedule": how,
        "operators": len(ratios),
        **band_columns(ratios),
        "near, %": round(100 * sum(near) / len(near)) if near else None,
        "worst": round(max(ratios), 2) if ratios else None,
    }
