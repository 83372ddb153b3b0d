"""An agent of a few rules next to the portfolio: ``python -m tools.agent [--trials N] [OPERATOR ...]``.

Each operator is tuned twice on one embedded stack, without a warm start: by the portfolio of searchers, and by an agent
that knows only what a task's ``space`` and its own proposals answer, in a job that draws at random whatever the agent
does not propose. The agent's job has twice the trials. Last, the portfolio's champion and the agent's best proposal are
timed in turn, in one batch of a third job. The exit status is 1 if the agent's is slower than the portfolio's by more
than ``TOLERANCE``; the last lines say where.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.answers.spaces import KnobRangeBody, SketchBody
from tunesmith.client import Client, EmbeddedStack, Proposal
from tunesmith.errors import DuplicateProposal, ProposalsRefused
from tunesmith.proposals import MAX_PROPOSALS, ProposalState

OPERATORS = ("gemm:256x256x256:float32", "conv2d:1x64x28x28,64x64x3x3,s1,p1:float32")
TRIALS, TIMES = 64, 2
TOLERANCE = 0.05
"""How much slower the agent's best may be; two measurements of one schedule differ by some per cent."""
TURN = 24
"""Trials of the job in which the two are timed in turn, most of them random."""
GENERATIONS, KEPT, FEW = 6, 12, 16
QUIET: dict[str, Any] = {"warm_start": False, "verify": False}
Knobs = dict[str, Any]


def primes(number: int) -> Iterator[int]:
    """Prime factors, smallest first, each as often as it divides."""
    for prime in itertools.count(2):
        while number % prime == 0:
            yield prime
            number //= prime
        if number == 1:
            return


@dataclass(frozen=True)
class Point:
    """A sketch and its knobs; hashable."""

    sketch: str
    knobs: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, found: Proposal) -> Point:
        """The point that was proposed."""
        return cls.made(found.sketch, {knob.name: knob.decision for knob in found.knobs})

    @classmethod
    def made(cls, sketch: str, knobs: Knobs) -> Point:
        """The point of some knobs."""
        fixed = ((name, tuple(value) if isinstance(value, list) else value) for name, value in knobs.items())
        return cls(sketch, tuple(sorted(fixed)))

    def body(self) -> dict[str, Any]:
        """As it is proposed."""
        return {"sketch": self.sketch, "knobs": {k: list(v) if isinstance(v, tuple) else v for k, v in self.knobs}}


class Agent:
    """Evolves points by the service's estimates first, then by measured latencies."""

    def __init__(self, client: Client, job: str, task: int, seed: int = 0) -> None:
        self._client, self._job, self._task = client, job, task
        self._draw = random.Random(seed)
        self._sketches = {each.sketch: each for each in client.space(job, task).sketches}
        self._estimates: dict[Point, float] = {}
        self._tried: set[Point] = set()

    def think(self) -> None:
        """Estimates of a few generations, of which nothing is measured."""
        self._ask([self._drawn() for _ in range(MAX_PROPOSALS)])
        for _ in range(GENERATIONS):
            best = self._likely(KEPT)
            self._ask([self._moved(self._draw.choice(best)) for _ in range(MAX_PROPOSALS)] if best else [])

    def propose(self) -> bool:
        """Keep some proposals waiting; False once the job takes no more."""
        found = list(self._client.proposals(self._job, self._task))
        waiting = sum(each.state in (ProposalState.WAITING, ProposalState.JUDGING) for each in found)
        if waiting >= FEW:
            return True
        measured = sorted((each for each in found if each.latency is not None), key=lambda each: each.latency or 0.0)
        best = [Point.of(each) for each in measured[:KEPT]]
        try:
            if best:
                self._ask([self._moved(best[self._early(len(best))]) for _ in range(MAX_PROPOSALS)])
            near = [point for point in self._likely(len(self._estimates)) if point not in self._tried]
            return self._post(near[: 2 * FEW], measure=True)
        except ProposalsRefused:
            return False

    def _early(self, count: int) -> int:
        """A place among so many, mostly an early one."""
        return min(int(self._draw.expovariate(0.5)), count - 1)

    def _likely(self, count: int) -> list[Point]:
        return sorted(self._estimates, key=self._estimates.__getitem__)[:count]

    def _ask(self, points: Sequence[Point]) -> None:
        self._post([point for point in dict.fromkeys(points) if point not in self._estimates], measure=False)

    def _post(self, points: Sequence[Point], *, measure: bool) -> bool:
        """Propose what is new; where somebody else was first, the others."""
        left = list(points)
        while left:
            try:
                found = self._client.propose(
                    self._job, self._task, [p.body() for p in left], source="agent", author="rules", measure=measure
                )
            except DuplicateProposal as error:
                left.pop(int(str(error.field).rpartition(".")[2]))
                continue
            for point, each in zip(left, found, strict=True):
                self._estimates[point] = each.estimate if each.estimate is not None else math.inf
            self._tried.update(left if measure else ())
            return True
        return True

    def _drawn(self) -> Point:
        sketch = self._draw.choice(list(self._sketches.values()))
        return Point.made(sketch.sketch, {knob.name: self._value(knob) for knob in sketch.knobs})

    def _value(self, knob: KnobRangeBody) -> Any:
        if knob.kind == "perfect_tile":
            while True:
                parts = [1] * int(knob.parts or 1)
                for prime in primes(int(knob.extent or 1)):
                    parts[self._draw.randrange(len(parts))] *= prime
                if len(parts) == 1 or parts[-1] <= (knob.max_innermost or parts[-1]):
                    return parts
        low = knob.low or 0
        return self._draw.randint(low, low + knob.size - 1)

    def _moved(self, point: Point) -> Point:
        """One knob changed, sometimes two: a prime moved within a tile, or another choice."""
        sketch: SketchBody = self._sketches[point.sketch]
        knobs = dict(point.body()["knobs"])
        for _ in range(1 + (self._draw.random() < 0.3)):
            knob = self._draw.choice([each for each in sketch.knobs if each.size > 1])
            knobs[knob.name] = self._neighbour(knob, knobs[knob.name])
        return Point.made(point.sketch, knobs)

    def _neighbour(self, knob: KnobRangeBody, value: Any) -> Any:
        if knob.kind != "perfect_tile" or self._draw.random() < 0.1:
            return self._value(knob)
        for _ in range(20):
            parts = list(value)
            a, b = self._draw.sample(range(len(parts)), 2)
            if parts[a] > 1:
                prime = self._draw.choice(list(primes(parts[a])))
                parts[a] //= prime
                parts[b] *= prime
                if parts[-1] <= (knob.max_innermost or parts[-1]):
                    return parts
        return value


def by_portfolio(client: Client, operator: str, trials: int) -> tuple[str, int]:
    """Job and task that the portfolio tuned."""
    job = client.submit(operator=operator, target="cpu", trials=trials, **QUIET)
    client.wait(job.id)
    return job.id, client.tasks(job.id)[0].id


def held(client: Client, operator: str, trials: int) -> tuple[str, int]:
    """A job that draws at random what nobody proposes, paused as it begins, and its task."""
    options: dict[str, Any] = {"search": "random", "cost_model": "none", "proposal_share": 1.0, **QUIET}
    job = client.submit(operator=operator, target="cpu", trials=trials, **options)
    next(event for event in client.follow(job.id) if event.kind == "job_running")
    client.pause(job.id)
    return job.id, client.tasks(job.id)[0].id


def by_agent(client: Client, operator: str, trials: int) -> tuple[str, int]:
    """Job and task that the agent tuned. It thinks while the job is paused, as nothing is to be drawn meanwhile."""
    job, task = held(client, operator, trials)
    agent = Agent(client, job, task)
    agent.think()
    agent.propose()
    client.resume(job)
    ended = threading.Event()
    while not client.job(job).done and not ended.wait(0.3) and agent.propose():
        pass
    client.wait(job)
    return job, task


def champion(client: Client, job: str, task: int) -> Point:
    """What the portfolio found."""
    found = client.space(job, task).champion
    if found is None or found.sketch is None:
        raise SystemExit(f"job {job} found nothing better than the default schedule")
    return Point.made(found.sketch, {knob.name: knob.decision for knob in found.knobs})


def fastest(client: Client, job: str, task: int) -> Point:
    """The agent's own best proposal."""
    measured = [each for each in client.proposals(job, task) if each.latency is not None]
    return Point.of(min(measured, key=lambda each: each.latency or math.inf))


def side_by_side(client: Client, operator: str, points: Sequence[Point]) -> list[float]:
    """Latencies of points in seconds, timed in turn in one batch."""
    job, task = held(client, operator, TURN)
    found = client.propose(job, task, [point.body() for point in dict.fromkeys(points)])
    client.resume(job)
    measured = client.wait_proposals(job, task, [each.id for each in found])
    by_point = {Point.of(each): each.latency or math.inf for each in measured}
    client.wait(job)
    return [by_point[point] for point in points]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=OPERATORS, help="operator specs (default: a product, a conv2d)")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of the portfolio (default: %(default)s)")
    options = parser.parse_args()
    slower = []
    with tempfile.TemporaryDirectory(prefix="tunesmith-agent-") as folder, EmbeddedStack(folder) as stack:
        print(f"{'operator':40} {'portfolio':>21} {'agent':>21} {'slower by':>9} {'took':>6}")
        for operator in options.operators:
            with Client(stack.url) as client:
                start = time.monotonic()
                first = by_portfolio(client, operator, options.trials)
                second = by_agent(client, operator, TIMES * options.trials)
                points = champion(client, *first), fastest(client, *second)
                theirs, ours = side_by_side(client, operator, points)
                counts = [client.job(job).progress.trials for job, _ in (first, second)]
                curves = client.task_curve(*second).sources
            shown = [f"{s * 1e6:8.1f} µs, {n:3d} tr." for s, n in zip((theirs, ours), counts, strict=True)]
            took = time.monotonic() - start
            print(f"{operator:40} {shown[0]:>21} {shown[1]:>21} {ours / theirs - 1:+9.1%} {took:4.0f} s")
            for each in curves:
                print(f"    {each.source}: {each.trials} trials, best {(each.best or math.nan) * 1e6:.1f} µs")
            if not ours <= theirs * (1 + TOLERANCE):
                slower.append(
                    f"{operator}: the agent is {ours / theirs - 1:.1%} slower, and {TOLERANCE:.0%} are allowed"
                )
    for line in slower:
        print(line, file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
