"""Records learning curves: a job that gives every task of a model the same number of rounds, by the service itself."""

from __future__ import annotations

from pathlib import Path

from benchmarks.allocation.curves import ModelCurves, curves_of
from benchmarks.harness.jobs import FROM_SCRATCH, IMPORT_LIMIT, service, warm_up
from benchmarks.harness.report import setup
from tunesmith.client import Client
from tunesmith.targets import Target

ROUND = 16
"""Candidates per round."""


def collect(model: str, file: Path, target: Target, rounds: int, limit: float, seed: int, folder: Path) -> ModelCurves:
    """Tune a model with the allocator ``round-robin`` through an embedded stack of its own.

    Args:
        rounds: of each task, at least.
        limit: seconds after which the job ends with what it has.
        folder: empty; everything made on the way goes there.

    Raises:
        TunesmithError: the stack does not start, the model is refused, or the job fails or does not end.
    """
    with service(folder) as client:
        warm_up(client, target)
        uploaded = client.wait_model(client.upload_model(file).id, timeout=IMPORT_LIMIT)
        return _run(client, model, uploaded.id, target, rounds, limit, seed)


def _run(
    client: Client, model: str, model_id: str, target: Target, rounds: int, limit: float, seed: int
) -> ModelCurves:
    # Those without anything to tune leave theirs to the others.
    tasks = len(client.model_tasks(model_id))
    job = client.submit(
        model_id=model_id,
        target=target.to_json(),
        trials=tasks * rounds * ROUND,
        seconds=limit,
        seed=seed,
        allocator="round-robin",
        **FROM_SCRATCH,
    )
    client.wait(job.id, timeout=limit + IMPORT_LIMIT)
    found = [task.model_dump(mode="json") for task in client.tasks(job.id)]
    return curves_of(model, seed, found, list(client.rounds(job.id)), client.trials(job.id), setup())
