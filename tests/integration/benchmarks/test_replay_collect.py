from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from process_probe import CHILD_ENV

from benchmarks.harness.measurer import LocalMeasurer, discard, open_measurer, race
from benchmarks.replay.collect import Collector, Rules, canonical, filled, open_subject
from benchmarks.replay.reduce import reduce
from benchmarks.replay.timing import LIMITS, Timing
from benchmarks.replay.workloads import file_of
from tunesmith.testing.replay import Recording
from tunesmith.types import Candidate, FailureKind
from workers.protocol import Built
from workers.sandbox.pool import Actor, Pool

pytestmark = pytest.mark.servers

RULES = Rules(points=12, pilot=4, chunk=8, unsteady=math.inf, slowed=math.inf, passes=2, pilot_seconds=1e-3)
"""Lenient: other tests may be busy on this machine."""

SPEC = "softmax:4x16"


@pytest.fixture(scope="module")
def measurer() -> Iterator[LocalMeasurer]:
    with open_measurer() as made:
        yield made


def collect(measurer: LocalMeasurer, folder: Path, seconds: float = 120.0, rules: Rules = RULES) -> Recording | None:
    lines: list[str] = []
    collector = Collector(measurer, folder, time.monotonic() + seconds, lines.append, rules)
    return collector.collect(SPEC, 3.0)


@pytest.fixture(scope="module")
def complete(measurer: LocalMeasurer, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    made = collect(measurer, tmp_path_factory.mktemp("complete"))
    assert made is not None
    return made


@pytest.mark.thorough
def test_a_space_is_measured_completely(complete: Recording) -> None:
    assert complete.facts["complete"]
    assert complete.missing == 0
    assert complete.space.size <= 4 * RULES.points
    assert complete.untuned < 1.0
    assert complete.weight == 3.0
    assert 1e-8 < complete.optimum < 0.1


@pytest.mark.thorough
def test_a_complete_recording_is_left_alone(measurer: LocalMeasurer, complete: Recording, tmp_path: Path) -> None:
    path = file_of(SPEC, tmp_path)
    complete.save(path)
    before = path.read_bytes()
    repeated = collect(measurer, tmp_path)
    assert repeated is not None
    assert repeated.optimum == pytest.approx(complete.optimum, rel=1e-6)
    assert path.read_bytes() == before


@pytest.mark.thorough
def test_a_later_run_goes_on(measurer: LocalMeasurer, complete: Recording, tmp_path: Path) -> None:
    assert collect(measurer, tmp_path, seconds=-1.0) is None
    half = filled(complete, complete.points[:3], [Timing(failure=FailureKind.ABANDONED.value)] * 3)
    dataclasses.replace(half, facts={**half.facts, "complete": False}).save(file_of(SPEC, tmp_path))
    late = collect(measurer, tmp_path, seconds=-1.0)
    assert late is not None
    assert late.missing == 3
    on = collect(measurer, tmp_path)
    assert on is not None
    assert on.missing == 0
    assert on.facts["complete"]


@pytest.mark.thorough
def test_an_unsteady_chunk_stays_missing(measurer: LocalMeasurer, tmp_path: Path) -> None:
    never = Rules(points=6, pilot=2, unsteady=-1.0, attempts=1, passes=1, pilot_seconds=1e-3)
    made = collect(measurer, tmp_path, rules=never)
    assert made is not None
    assert made.missing == len(np.unique(made.alias))
    assert not made.facts["complete"]


def test_the_same_program_has_one_canonical_point(measurer: LocalMeasurer) -> None:
    subject = open_subject(SPEC, 1.0, measurer)
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


def test_failures_are_outcomes(measurer: LocalMeasurer, tmp_path: Path) -> None:
    subject = open_subject(SPEC, 1.0, measurer)
    (built,) = measurer.build(subject.operator, [Candidate(None)])
    assert built.path is not None
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    wrong = Built(path=broken, function="main", args=built.args, code_hash="x")
    failed = Built(failure=FailureKind.BUILD_ERROR, message="no")
    all_built = [built, wrong, failed, built]
    with measurer.device() as runner:
        outcomes = race(runner, all_built, LIMITS, None)
    good, bad, refused, same = map(Timing.of, all_built, outcomes)
    assert good.failure == ""
    assert (bad.failure, bad.seconds) == ("run_error", math.inf)
    assert refused.failure == "build_error"
    assert outcomes[3] is outcomes[0]
    assert same == good
    discard([built])
    assert not built.path.exists()


@pytest.mark.parametrize(
    ("end", "kind"), [("crash", FailureKind.CRASH), ("overrun", FailureKind.BUILD_TIMEOUT)], ids=["crash", "overrun"]
)
def test_a_compilers_end_is_classified_as_the_measure_worker_does(
    measurer: LocalMeasurer, monkeypatch: pytest.MonkeyPatch, end: str, kind: FailureKind
) -> None:
    subject = open_subject(SPEC, 1.0, measurer)
    with Pool(Actor("compiler_ends:Compiler", (end,), CHILD_ENV), 1) as compilers:
        monkeypatch.setattr(measurer, "_builders", compilers)
        (built,) = measurer.build(subject.operator, [Candidate(None)])
    assert (built.path, built.failure) == (None, kind)
