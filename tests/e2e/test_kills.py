"""``kill -9`` of anything, in the middle of a job: every trial is accounted for, once."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing

import pytest
from stack_probe import children, nothing_left, processes, wait_for

from services.embedded.lock import holder
from tunesmith.client import Client, EmbeddedStack
from tunesmith.states import JobState

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
GEMM = "gemm:192x192x192:float32"
TRIALS = 64
LIGHT = {"search": "random", "cost_model": "none"}
WAIT = 240.0


TURNS = (("measure", "ingest"), ("device", "train"), ("search", "record"), ("redis",), ("coordinator",))
"""Who dies together: those whose work does not hang together, so that each one's loss is felt by itself."""
VICTIMS = [victim for turn in TURNS for victim in turn]


def trials(client, job_id):
    return client.job(job_id, patience=WAIT).progress.trials


def end_of(client, job_id):
    done = client.wait(job_id, timeout=WAIT)
    assert done.state is JobState.SUCCEEDED, done.error
    return done


def check_records(data_dir, job_id, trials):
    """Each index of each batch has one record; the default schedule is not a trial."""
    with closing(sqlite3.connect(data_dir / "tunesmith.db")) as db:
        batches = db.execute("select id, json_array_length(candidates) from batches where job_id = ?", [job_id])
        expected = {(batch, index) for batch, size in batches for index in range(size)}
        query = 'select batch_id, "index", sketch_hash from records where job_id = ?'
        records = db.execute(query, [job_id]).fetchall()
    assert len(records) == len({row[:2] for row in records})
    assert {row[:2] for row in records} == expected
    assert sum(row[2] is not None for row in records) == trials


def test_a_job_survives_kill_9_of_the_supervisor_and_of_each_process_of_the_next_stack(stack, client, stack_env):
    data_dir = stack.data_dir
    job = client.submit(operator=GEMM, target="cpu", trials=TRIALS, **LIGHT)
    wait_for(lambda: trials(client, job.id) >= 8, "the first results", WAIT)
    os.kill(holder(data_dir)["pid"], signal.SIGKILL)
    assert nothing_left(data_dir, 10.0), processes(data_dir)
    stack.stop()
    with EmbeddedStack(data_dir, env=stack_env) as second, Client(second.url) as after:
        (resumed,) = second.resumed
        assert (resumed["id"], resumed["killed"], resumed["trials_budget"]) == (job.id, True, TRIALS)
        for turn in TURNS:
            before = trials(after, job.id)
            wait_for(lambda: trials(after, job.id) > before, f"results before the end of {turn}", WAIT)  # noqa: B023
            for victim in turn:
                pid, *_ = wait_for(lambda: children(data_dir, victim), f"{victim} to run", 20.0)  # noqa: B023
                os.kill(pid, signal.SIGKILL)
        assert end_of(after, job.id).progress.trials == TRIALS
        check_records(data_dir, job.id, TRIALS)
        assert all(len(children(data_dir, victim)) >= 1 for victim in VICTIMS)
    assert processes(data_dir) == {}
