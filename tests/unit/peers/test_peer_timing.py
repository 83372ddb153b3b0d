"""How a peer's process times: warm-up, samples, and a core for each thread that works."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from workers.peers import timing
from workers.peers.timing import PeerRun, RunModel, each_busy_thread_bound, measure


def spin(seconds: float) -> None:
    end = os.times().elapsed + seconds
    while os.times().elapsed < end:
        pass


def test_the_threads_that_work_most_get_a_core_each() -> None:
    cores = sorted(os.sched_getaffinity(0))
    seen: dict[str, set[int]] = {}
    start, stop = threading.Event(), threading.Event()

    def work(name: str, seconds: float) -> None:
        start.wait(10)
        spin(seconds)
        done.release()
        stop.wait(10)
        seen[name] = os.sched_getaffinity(0)

    done = threading.Semaphore(0)
    threads = [threading.Thread(target=work, args=args) for args in (("idle", 0.0), ("busy", 0.3))]
    for thread in threads:
        thread.start()
    with each_busy_thread_bound(cores[:1]):
        start.set()
        for _ in threads:
            assert done.acquire(timeout=10)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert seen == {"busy": {cores[0]}, "idle": set(cores)}
    assert os.sched_getaffinity(0) == set(cores), "the main thread only waited"


def test_a_job_is_warmed_up_and_sampled(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(3.0))
    runs: list[int] = []

    def prepare(model: str, inputs: object, threads: int):
        return lambda: [runs.append(1) or np.ones(2)]

    before = os.sched_getaffinity(0)
    try:
        found = measure(PeerRun("m", str(tmp_path / "in.npz"), str(tmp_path / "out.npz"), 0.05, 1), prepare)
    finally:
        os.sched_setaffinity(0, before)
    samples = found["samples"]
    assert timing.MIN_SAMPLES <= len(samples) <= timing.MAX_SAMPLES
    assert len(runs) >= 1 + timing.WARM_UP + len(samples)
    with np.load(tmp_path / "out.npz") as out:
        assert out["0"].tolist() == [1.0, 1.0]


def test_inputs_of_bfloat16_keep_their_type(tmp_path: Path) -> None:
    inputs, outputs = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    np.savez(inputs, x=np.array([1.5, -2.0], ml_dtypes.bfloat16))
    seen: list[str] = []

    def prepare(model: str, arrays: Mapping[str, Any], threads: int) -> RunModel:
        seen.append(arrays["x"].dtype.name)
        return lambda: [arrays["x"]]

    measure(PeerRun("", str(inputs), str(outputs), 0.0, 1), prepare)
    assert seen == ["bfloat16"]
    with np.load(outputs) as file:
        np.testing.assert_array_equal(file["0"], np.array([1.5, -2.0], np.float32))
