"""The pure parts of ``tunesmith bench measure``, on made-up measurements whose truth is known."""

from __future__ import annotations

import dataclasses
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness.report import write
from benchmarks.measure import reporting, study
from benchmarks.measure.collecting import Schedule, spread, unraced, waves
from benchmarks.measure.recording import Recording, Repeat, Stream, Timed
from benchmarks.measure.repeating import judge
from tunesmith.errors import InvalidInput
from tunesmith.messages import MeasureLimits
from workers.protocol import Built

LIMITS = MeasureLimits()
FLOOR = 0.03


def timed(rng: np.random.Generator, latency: float, noise: float = 0.01) -> Timed:
    samples = latency * (1 + noise * rng.normal(size=30))
    return Timed(latency * 1.2, float(samples[0]), tuple(samples.tolist()))


def search(seed: int = 0, noise: float = 0.01) -> Stream:
    """Four rounds of latencies from 1 to 100 ms, the best in the third."""
    rng = np.random.default_rng(seed)
    latencies = 10 ** rng.uniform(-2.9, -1, (4, 16))
    latencies[2, 5] = 1e-3
    return Stream("gemm:1x1x1", tuple(tuple(timed(rng, t, noise) for t in row) for row in latencies.tolist()))


def repeats(count: int = 20, noise: float = 0.01, passes: int = 3) -> tuple[Repeat, ...]:
    rng = np.random.default_rng(1)
    made = []
    for place in range(count):
        scale = [1e-3 * 1.05**place * (1 + noise * rng.normal()) for _ in range(passes)]
        made.append(Repeat("op", tuple(tuple((t * (1 + 0.002 * rng.normal(size=5))).tolist()) for t in scale)))
    return tuple(made)


def test_without_rules_every_candidate_is_sampled_within_its_time() -> None:
    stream = search()
    chosen = study.play(stream, study.full(LIMITS), [0] * 4)
    assert chosen.index == 37
    expected = sum(
        min(LIMITS.repeats, max(1, int(LIMITS.max_measure_seconds / max(t.short, LIMITS.min_repeat_seconds))))
        for t in stream.timed
    )
    assert chosen.samples == pytest.approx(expected, abs=6)  # a sample of 10 ms is a whole number of runs


def test_the_rules_find_the_same_best_in_less_time() -> None:
    effect = study.compare(search(), LIMITS, draws=10)
    assert effect.candidates == 64
    assert effect.saved > 0.5
    assert effect.samples < 4
    assert max(effect.changed) == max(effect.regret) == max(effect.full_regret) == 0


def test_rules_that_are_too_greedy_show_a_regret() -> None:
    """A first run that misleads: the best candidate's is slow, and everything slower than the incumbent is dropped."""
    stream = search()
    misled = dataclasses.replace(stream.rounds[2][5], first=0.02)
    third = (*stream.rounds[2][:5], misled, *stream.rounds[2][6:])
    stream = dataclasses.replace(stream, rounds=(*stream.rounds[:2], third, stream.rounds[3]))
    greedy = LIMITS.model_copy(update={"cutoff": 1.0})
    assert min(study.compare(stream, greedy, draws=5).regret) > 0.05


def test_a_kernel_of_microseconds_is_not_dropped_for_its_cold_start() -> None:
    good, better = Timed(4e-3, 4e-5, (4e-5,) * 30), Timed(4e-3, 3e-5, (3e-5,) * 30)
    assert study.play(Stream("op", ((good,), (better,))), LIMITS, [0, 0]).index == 1


def test_a_first_run_that_is_cut_off_costs_the_limit_and_is_not_chosen() -> None:
    quick, endless = Timed(1e-3, 1e-3, (1e-3,) * 30), Timed(9.0, 9.0, (9.0,))
    stream = Stream("op", ((quick,), (endless, quick)))
    chosen = study.play(stream, LIMITS, [0, 0])
    assert chosen.index == 0
    assert chosen.device_seconds < 1.0
    assert study.play(stream, study.full(LIMITS), [0, 0]).device_seconds > 9.0


def test_playing_back_depends_on_the_seed_alone() -> None:
    stream = search(noise=0.1)
    assert study.compare(stream, LIMITS, 5, seed=3) == study.compare(stream, LIMITS, 5, seed=3)
    assert study.compare(stream, LIMITS, 5, seed=3) != study.compare(stream, LIMITS, 5, seed=4)


def test_schedules_five_per_cent_apart_keep_their_order() -> None:
    verdict = judge(repeats(), FLOOR)
    assert verdict.schedules == 20
    assert verdict.pairs > 1000
    assert verdict.order > 0.95
    assert verdict.coverage > 0.9
    assert 0.01 < verdict.observed_floor < 0.05
    assert verdict.intervals == 20 * 3 * 2


def test_too_low_a_noise_floor_is_found_out() -> None:
    honest, boasting = judge(repeats(noise=0.05), 0.14), judge(repeats(noise=0.05), 0.001)
    assert honest.coverage > 0.9 > 0.3 > boasting.coverage
    assert honest.order > boasting.order


def test_order_is_counted_over_ordered_pairs_of_passes() -> None:
    one, other = Repeat("op", ((1.0,), (2.0,))), Repeat("op", ((1.5,), (1.5,)))
    verdict = judge([one, other], 0.1)
    assert (verdict.pairs, verdict.kept) == (2, 0)
    assert judge([one, Repeat("another", other.passes)], 0.1).pairs == 0
    assert math.isnan(judge([one], 0.1).order)


def test_the_faster_half_of_the_chosen_schedules_comes_from_the_top() -> None:
    shuffled = np.random.default_rng(0).permutation(np.arange(1, 101.0))
    made = [Schedule("op", Built(), Timed(t, t, (t,))) for t in shuffled]
    latencies = [schedule.timed.latency for schedule in spread(made, 20)]
    assert latencies[:10] == list(range(1, 11))
    assert (latencies[10], latencies[-1]) == (11, 100)
    assert len(set(latencies)) == 20
    assert len(spread(made[:3], 20)) == 3


def test_passes_take_the_waves_of_the_service_each_of_one_operator() -> None:
    made = [Schedule(name, Built(), Timed(1.0, 1.0, (1.0,))) for name in ("a", "b") for _ in range(20)]
    found = [waves(made, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert [len(wave) for wave in found[0]] == [16, 4, 16, 4]
    assert all(len({made[place].operator for place in wave}) == 1 for wave in found[0])
    assert sorted(place for wave in found[0] for place in wave) == list(range(40))


def test_nobody_is_dropped_without_racing() -> None:
    stream = Stream("op", (tuple(Timed(t, t, (t, 1.01 * t) * 15) for t in (1e-3, 5e-3, 2e-2)),))
    limits = LIMITS.model_copy(update={"variation": 0.0})
    assert study.play(stream, limits, [0]).samples == 10 + 1 + 1
    assert study.play(stream, unraced(limits), [0]).samples == 30
    assert MeasureLimits.model_validate(unraced(limits).model_dump()) == unraced(limits)


def test_what_was_recorded_in_one_turn_is_played_in_one() -> None:
    """A slow phase in the middle of the record hits both, wherever the play begins: the order never changes."""
    shape = [1.0] * 10 + [1.5] * 10 + [1.0] * 10
    pair = tuple(Timed(t, t, tuple(t * s for s in shape)) for t in (1.02e-3, 1e-3))
    stream = Stream("op", (pair,))
    assert {study.play(stream, LIMITS, [start]).index for start in range(30)} == {1}


def recording() -> Recording:
    return Recording(FLOOR, (search(),), repeats(), {"CPU": "made up"})


def test_a_record_is_read_back(tmp_path: Path) -> None:
    recording().save(tmp_path / "record.json")
    repeated = Recording.load(tmp_path / "record.json")
    assert repeated.noise_floor == FLOOR
    assert repeated.setup == {"CPU": "made up"}
    assert [t.latency for t in repeated.streams[0].timed] == pytest.approx(
        [t.latency for t in search().timed], rel=1e-5
    )
    assert repeated.repeats[3].medians == pytest.approx(repeats()[3].medians, rel=1e-5)
    repeated.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "record.json").read_bytes()


@pytest.mark.parametrize("text", ["", "{}", '{"format": "tunesmith.measurements/7"}', "[1]"])
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"record\.json"):
        Recording.load(path)
    with pytest.raises(InvalidInput):
        Recording.load(tmp_path / "missing.json")


def test_the_reports_say_what_was_found(tmp_path: Path) -> None:
    made = {report.name: (report, draw) for report, draw in reporting.reports(recording(), LIMITS, 5, 0)}
    assert set(made) == {"measure", "racing"}
    for report, draw in made.values():
        assert {path.suffix for path in write(report, tmp_path, draw)} == {".csv", ".md", ".svg"}
    measure, racing = made["measure"][0], made["racing"][0]
    assert [row[0] for row in measure.rows] == ["op", "all"]
    assert racing.rows[0][:2] == ("gemm:1x1x1", 64)
    assert racing.rows[0][2] > 50
    assert statistics.fmean(row[4] for row in racing.rows) == 0
