"""All runs on one cluster: first what it can take, then every scenario in turn."""

from __future__ import annotations

import math
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from benchmarks.faults import servers, trial
from benchmarks.faults.cluster import REPLICAS, Cluster, cluster
from benchmarks.faults.devices import devices
from benchmarks.faults.scenarios import SCENARIOS
from benchmarks.faults.trial import Trial
from benchmarks.harness.progress import Progress
from db.models.base import utcnow
from tunesmith.errors import MeasurementFailed

CANDIDATE_SECONDS = 3.0 / 16.0
"""A batch of 16 takes three seconds."""
QUICK_DEVICES = 8
"""Devices that answer at once, while the capacity is measured: enough to keep the service from waiting for them."""
WARM, WARM_SECONDS = 400, 120.0
"""Results that came before the capacity is measured, and how long they may take: first proposals are slow."""


@dataclass(frozen=True)
class FaultsPlan:
    """What to do.

    Attributes:
        scenarios: their names.
        seconds: of each phase.
        runs: of each scenario.
        load: share of the capacity that devices offer.
        capacity_seconds: for which the capacity is measured.
    """

    scenarios: tuple[str, ...]
    seconds: float
    runs: int
    load: float
    capacity_seconds: float


def run(plan: FaultsPlan, progress: Progress) -> tuple[dict[str, list[Trial]], dict[str, str]]:
    """Every run of every scenario, and what else the report should name.

    Raises:
        MissingDependency: PostgreSQL or Redis is missing.
        StackFailed: the service does not start.
        MeasurementFailed: no result came, so that there is no capacity to take a share of.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tunesmith-faults-")))
        postgres = stack.enter_context(servers.postgres())
        broker = stack.enter_context(servers.redis(folder))
        progress("servers are up, the service starts")
        running = stack.enter_context(cluster(postgres, broker, folder))
        most = capacity(running, plan.capacity_seconds)
        count = max(2, math.ceil(plan.load * most * CANDIDATE_SECONDS))
        progress(f"the service takes {most:.0f} results a second; {count} devices")
        stack.enter_context(devices(count, broker, CANDIDATE_SECONDS, running.signer))
        found: dict[str, list[Trial]] = {name: [] for name in plan.scenarios}
        for number in range(plan.runs):
            for name in plan.scenarios:
                one = trial.run(running, SCENARIOS[name], plan.seconds)
                found[name].append(one)
                progress(f"{name} {number + 1}: {one}, recovery {one.recovery:.3f}")
        facts = {
            "PostgreSQL": postgres.version(),
            "replicas": str(REPLICAS),
            "phase": f"{plan.seconds:g} s",
            "runs": str(plan.runs),
            "devices": f"{count}, invented, {1 / CANDIDATE_SECONDS:.2f} results/s each",
            "capacity": f"{most:.0f} results/s",
        }
        return found, facts


def capacity(running: Cluster, seconds: float) -> float:
    """Results a second with devices that take no time.

    Raises:
        MeasurementFailed: none came.
    """
    engine = sa.create_engine(running.postgres.url(), poolclass=sa.NullPool)
    with devices(QUICK_DEVICES, running.broker, 0.0, running.signer):
        started, end = utcnow(), time.monotonic() + WARM_SECONDS
        while time.monotonic() < end and trial.results(engine, started) < WARM:
            time.sleep(0.5)
        begun = utcnow()
        time.sleep(seconds)
        most = trial.results(engine, begun) / (utcnow() - begun).total_seconds()
    if most <= 0:
        raise MeasurementFailed(f"no result came within {seconds:g} s: see the logs of the service's processes")
    return most
