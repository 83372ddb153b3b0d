"""An agent of a few rules next to the portfolio: ``python -m tools.agent [--trials N] [OPERATOR ...]``.

Each operator is tuned twice on one embedded stack, without a warm start: by the portfolio of searchers, and by an agent
that knows only what a task's ``space`` and its own proposals answer, in a job that draws at random whatever the agent
does not propose. The agent's job has twice the trials. The exit status is 1 if
the agent's is slower than the portfolio's by more than ``TOLERANCE``; the last lines say where.
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
"""How much slower the agent's champion may be: two confirmations of one schedule differ by some per cent."""
GENERATIONS, KEPT, FEW = 6, 12, 16
QUIET = {"warm_start": False, "verify": False}
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


def by_agent(client: Client, operator: str, trials: int) -> tuple[str, int]:
    """Job and task that the agent tuned. It thinks while the job is paused, as nothing is to be drawn meanwhile."""
    options = {"search": "random", "cost_model": "none", "proposal_share": 1.0, **QUIET}
    job = client.submit(operator=operator, target="cpu", trials=trials, **options)
    for event in client.follow(job.id):
        if event.kind == "job_running":
            client.pause(job.id)
            break
    task = client.tasks(job.id)[0].id
    agent = Agent(client, job.id, task)
    agent.think()
    agent.propose()
    client.resume(job.id)
    ended = threading.Event()
    while not client.job(job.id).done and not ended.wait(0.3):
        if not agent.propose():
            break
    client.wait(job.id)
    return job.id, task


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=OPERATORS, help="operator specs (default: a product, a conv2d)")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of the portfolio (default: %(default)s)")
    options = parser.parse_args()
    slower = []
    with tempfile.TemporaryDirectory(prefix="tunesmith-agent-") as folder, EmbeddedStack(folder) as stack:
        print(f"{'operator':44} {'untuned':>9} {'portfolio':>15} {'agent':>15} {'by':>7} {'took':>10}")
        for operator in options.operators:
            with Client(stack.url) as client:
                found, start = [], time.monotonic()
                for tuned, trials in ((by_portfolio, options.trials), (by_agent, TIMES * options.trials)):
                    job, task = tuned(client, operator, trials)
                    body = client.tasks(job)[0]
                    found.append((body.best_latency or math.inf, body.trials, client.task_curve(job, task), body))
                took = time.monotonic() - start
            (theirs, trials, _, body), (ours, used, curves, _) = found
            best = min(curves.sources, key=lambda each: each.best or math.inf)
            shown = [f"{seconds * 1e6:7.1f} µs {count:4d}" for seconds, count in ((theirs, trials), (ours, used))]
            untuned = (body.untuned_latency or math.nan) * 1e6
            print(f"{operator:44} {untuned:6.0f} µs {shown[0]:>15} {shown[1]:>15} {best.source:>7} {took:8.0f} s")
            for each in curves.sources:
                print(f"    {each.source}: {each.trials} trials, best {(each.best or math.nan) * 1e6:.1f} µs")
            if ours > theirs * (1 + TOLERANCE) or best.source != "agent":
                slower.append(f"{operator}: {ours / theirs - 1:+.1%} behind, best by {best.source}")
    for line in slower:
        print(line, file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
