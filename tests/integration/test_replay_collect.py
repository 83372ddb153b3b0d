from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.replay.collect import Collector, Rules, canonical, filled, open_subject
from benchmarks.replay.reduce import reduce
from benchmarks.replay.station import Station, Timing
from benchmarks.replay.workloads import file_of
from tunesmith.testing.replay import Recording
from tunesmith.types import FailureKind
from workers.protocol import Built

pytestmark = pytest.mark.pair

RULES = Rules(points=12, pilot=4, chunk=8, unsteady=math.inf, slowed=math.inf, passes=2, ceiling=1e-4)
"""Lenient: other tests may be busy on this machine."""

SPEC = "softmax:4x16"


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    made = Station(tmp_path_factory.mktemp("station"))
    yield made
    made.close()


def collect(station: Station, folder: Path, seconds: float = 120.0, rules: Rules = RULES) -> Recording | None:
    lines: list[str] = []
    collector = Collector(station, folder, time.monotonic() + seconds, lines.append, rules)
    return collector.collect(SPEC, 3.0)


@pytest.fixture(scope="module")
def complete(station: Station, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    made = collect(station, tmp_path_factory.mktemp("complete"))
    assert made is not None
    return made


def test_a_space_is_measured_completely(complete: Recording) -> None:
    assert complete.facts["complete"]
    assert complete.missing == 0
    assert complete.space.size <= 4 * RULES.points
    assert complete.untuned < 1.0
    assert complete.weight == 3.0
    assert 1e-8 < complete.optimum < 0.1


def test_a_complete_recording_is_left_alone(station: Station, complete: Recording, tmp_path: Path) -> None:
    path = file_of(SPEC, tmp_path)
    complete.save(path)
    before = path.read_bytes()
    again = collect(station, tmp_path)
    assert again is not None
    assert again.optimum == pytest.approx(complete.optimum, rel=1e-6)
    assert path.read_bytes() == before


def test_a_later_run_goes_on(station: Station, complete: Recording, tmp_path: Path) -> None:
    assert collect(station, tmp_path, seconds=-1.0) is None
    half = filled(complete, complete.points[:3], [Timing(failure=FailureKind.ABANDONED.value)] * 3)
    dataclasses.replace(half, facts={**half.facts, "complete": False}).save(file_of(SPEC, tmp_path))
    late = collect(station, tmp_path, seconds=-1.0)
    assert late is not None
    assert late.missing == 3
    on = collect(station, tmp_path)
    assert on is not None
    assert on.missing == 0
    assert on.facts["complete"]


def test_an_unsteady_chunk_stays_missing(station: Station, tmp_path: Path) -> None:
    never = Rules(points=6, pilot=2, unsteady=-1.0, attempts=1, passes=1, ceiling=1e-4)
    made = collect(station, tmp_path, rules=never)
    assert made is not None
    assert made.missing == len(np.unique(made.alias))
    assert not made.facts["complete"]


def test_the_same_program_has_one_canonical_point(station: Station) -> None:
    subject = open_subject(SPEC, 1.0, station)
    full = subject.traces.space
    pilot, valid = subject.traces.resolve(full.sample(np.random.default_rng(0), 8))
    small = reduce(full, pilot.take(valid), np.arange(valid.sum()) + 1.0, 90, np.random.default_rng(1))
    alias, usable = canonical(subject.traces, small)
    assert usable.any()
    assert (alias[alias] == alias).all()
    assert (alias <= np.arange(small.size)).all()
    assert len(np.unique(alias)) < small.size, "clamped compute locations give the same program"
    spelled = full.batch(small.candidates(small.at(np.arange(small.size))))
    taken, _ = subject.traces.resolve(spelled)
    keys = full.keys(taken)
    assert (keys == keys[alias])[usable].all()


def test_failures_are_outcomes(station: Station, tmp_path: Path) -> None:
    subject = open_subject(SPEC, 1.0, station)
    (built,) = station.build(subject.task, [(None, ())])
    assert built.path is not None
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    wrong = Built(path=broken, function="main", args=built.args, code_hash="x")
    failed = Built(failure=FailureKind.BUILD_ERROR, message="no")
    good, bad, refused, same = station.time([built, wrong, failed, built], 1e-4)
    assert good.failure == ""
    assert (bad.failure, bad.seconds) == ("run_error", math.inf)
    assert refused.failure == "build_error"
    assert same is good
    station.discard([built])
    assert not built.path.exists()
