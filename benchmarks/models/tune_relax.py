"""A model tuned by MetaSchedule for a given wall time, in a process of its own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness.jobs import GRACE, Tuned
from benchmarks.harness.processes import Tree, environment
from benchmarks.models.metaschedule import DONE, Job
from tunesmith.errors import MeasurementFailed
from tunesmith.metaschedule import read_database
from tunesmith.preparation import PLAIN
from tunesmith.safe_path import python
from tunesmith.targets import Target

FAILED_SECONDS = 1e9
"""MetaSchedule records what failed with a latency beyond this."""


def tune(module: bytes, target: Target, seconds: float, per_round: int, seed: int, folder: Path) -> Tuned:
    """Tune with ``tune_relax`` in processes of its own; TVM's start counts, the model's import does not.

    Args:
        module: JSON of the module, prepared plainly.
        per_round: candidates a round; TVM's default is 64.

    Raises:
        MeasurementFailed: TVM ended early.
    """
    file, database = folder / "module.json", folder / "database"
    database.mkdir(parents=True)
    file.write_bytes(module)
    job = Job(str(file), target.to_json(), str(database), seconds, per_round, seed)
    command = python("benchmarks.models.metaschedule", json.dumps(asdict(job)))
    env = environment(TVM_NUM_THREADS=str(target.num_cores))
    with Tree(command, log=folder / "log.txt", folder=folder, env=env) as tree:
        tree.wait(seconds + GRACE)
        if not (database / DONE).exists():
            raise MeasurementFailed(f"MetaSchedule ended early: {tree.tail()}")
    taken = float(json.loads((database / DONE).read_text())["seconds"])
    records = read_database(database)
    good = [record for record in records if min(record.run_seconds, default=FAILED_SECONDS) < FAILED_SECONDS]
    return Tuned(good, PLAIN, len(good), taken)
