"""The race on scripted kernels, on a device whose speed comes in phases: who is sampled when, and when that ends."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tunesmith.messages import MeasureLimits
from tunesmith.types import StopReason
from workers.protocol import Begun, RunOutcome, RunRequest
from workers.sandbox.lease import HostLease
from workers.tvm_backend.run.race import Entry, Kernel, Race, references_first, running
from workers.tvm_backend.run.timing_windows import Series, Windows

LIMITS = MeasureLimits()
FULL = LIMITS.model_copy(update={"variation": -1.0})
"""Under which no samples agree."""
PHASE = 0.075


def steady(_: float) -> float:
    return 1.0


def phases(now: float) -> float:
    """Half of the time everything takes half as long again."""
    return 1.0 + 0.5 * (int(now / PHASE) % 2)


@dataclass
class World:
    """A device and its clock, which runs while kernels do.

    Attributes:
        calls: (kernel, samples taken) in order. Kernels of a millisecond and more need none for their first runs.
    """

    slowness: Callable[[float], float] = steady
    now: float = 0.0
    calls: list[tuple[str, int]] = field(default_factory=list)

    def run(self, seconds: float, runs: int) -> float:
        """Seconds of each of the runs."""
        took = seconds * self.slowness(self.now)
        self.now += took * runs
        return took


class Scripted(Kernel):
    """Takes ``seconds`` a run, and dies in the call for samples whose number is ``dies``."""

    def __init__(self, world: World, name: str, seconds: float, dies: int = -1) -> None:
        super().__init__(None, name, (), None, None)
        self.world, self.name, self.seconds, self.dies, self.calls = world, name, seconds, dies, 0

    def single(self) -> float:
        took = self.world.run(self.seconds, 1)
        self.device_seconds += took
        return took

    def samples(self, number: int, repeat: int) -> list[float]:
        self.world.calls.append((self.name, repeat))
        if self.calls == self.dies:
            raise RuntimeError("the kernel died")
        self.calls += 1
        warm = self.world.run(self.seconds, 1)
        found = [self.world.run(self.seconds, number) for _ in range(repeat)]
        self.device_seconds += warm + number * sum(found)
        return found


def entry(
    world: World,
    name: str,
    seconds: float,
    limits: MeasureLimits = FULL,
    dies: int = -1,
    before: Begun | None = None,
    champion: bool = False,
    default: bool = False,
) -> Entry:
    request = RunRequest(Path(name), name, (), limits, champion=champion, default=default)
    made = Entry.of(request, before)
    made.kernel = Scripted(world, name, seconds, dies)
    return made


def run(entries: list[Entry], incumbent: float | None = None, fatal: bool = False) -> list[RunOutcome | Begun | None]:
    """A race as a session runs it; a kernel that dies takes it with it when that is ``fatal``."""
    with Series(Windows(HostLease(Path("unused")))) as series:
        race = Race(series, lambda _: None, incumbent)
        for each in references_first(entries):
            race.first_run(each)
        for each in race.turns(entries):
            try:
                race.sample(each)
            except RuntimeError as error:
                each.failed = RunOutcome((), None, str(error))
                if fatal:
                    break
    return [each.outcome() for each in entries]


def outcome(found: RunOutcome | Begun | None) -> RunOutcome:
    assert isinstance(found, RunOutcome)
    return found


def rounds(world: World, size: int) -> list[str]:
    """Names of those sampled, ``size`` at a time."""
    names = "".join(name for name, _ in world.calls)
    return [names[start : start + size] for start in range(0, len(names), size)]


def test_each_contender_sees_the_slow_phases_and_nobody_is_done_within_one() -> None:
    world = World(phases)
    entries = [entry(world, name, 1e-3, LIMITS) for name in "abcdefgh"]
    found = [outcome(each) for each in run(entries)]
    for each in found:
        assert max(each.samples) / min(each.samples) == pytest.approx(1.5)
        assert len(each.samples) > LIMITS.min_repeats
    alone = World(phases)
    (lonely,) = run([entry(alone, "a", 1e-3, LIMITS)])
    assert (len(set(outcome(lonely).samples)), outcome(lonely).stopped) == (1, StopReason.STABLE), "samples at one go"


def test_neighbours_change_and_the_order_is_always_the_same() -> None:
    worlds = World(), World()
    for world in worlds:
        run(
            [
                entry(world, "c", 1.2e-3),
                entry(world, "a", 1e-3),
                entry(world, "b", 1.1e-3),
                entry(world, "d", 1.3e-3, champion=True),
            ],
            incumbent=1e-3,
        )
    assert rounds(worlds[0], 4)[:3] == ["dabc", "adcb", "dabc"]
    assert worlds[0].calls == worlds[1].calls


def test_the_hopeless_keep_their_first_run_and_cost_nobody_a_turn() -> None:
    world = World()
    found = [outcome(each) for each in run([entry(world, "a", 2e-3), entry(world, "b", 1e-3), entry(world, "c", 3e-3)])]
    assert [(len(each.samples), each.stopped) for each in found] == [
        (1, StopReason.RACED),
        (10, StopReason.CAPPED),
        (1, StopReason.RACED),
    ]


def test_who_is_outrun_leaves_when_its_least_samples_are_there() -> None:
    world = World()
    entries = [entry(world, "a", 1e-3), entry(world, "b", 1.05e-3), entry(world, "c", 1.2e-3)]
    best, near, far = (outcome(each) for each in run(entries))
    assert (len(far.samples), far.stopped) == (3, StopReason.RACED)
    assert best.stopped is near.stopped is StopReason.CAPPED
    assert len(best.samples) == len(near.samples) == 10


@pytest.mark.parametrize("fallen", [False, True])
def test_the_champions_latency_of_now_is_the_bar_unless_it_fails(fallen: bool) -> None:
    world = World()
    champion = entry(world, "a", 2e-3, champion=True, dies=1 if fallen else -1)
    _, other = run([champion, entry(world, "b", 2.1e-3)], incumbent=1.5e-3)
    expected = (3, StopReason.RACED) if fallen else (10, StopReason.CAPPED)
    assert (len(outcome(other).samples), outcome(other).stopped) == expected


def test_yardsticks_are_sampled_however_slow_they_are_and_the_default_sets_no_bar() -> None:
    world = World()
    default, champion, other = run(
        [entry(world, "a", 1e-4, default=True), entry(world, "b", 1e-2, champion=True), entry(world, "c", 1.1e-2)]
    )
    assert [len(outcome(each).samples) for each in (default, champion, other)] == [10, 10, 10]


def test_samples_of_a_single_run_come_in_twos_and_end_with_their_time() -> None:
    world = World()
    (found,) = run([entry(world, "a", 0.09)])
    assert (outcome(found).samples, outcome(found).stopped) == (pytest.approx((0.09,) * 3), StopReason.BUDGET)
    assert world.calls == [("a", 2), ("a", 1)]
    assert outcome(found).device_seconds == pytest.approx(0.09 * (2 + 3 + 2)), "first runs, samples, runs to warm up"
    (long,) = run([entry(World(), "a", 0.4)])
    assert (outcome(long).samples, outcome(long).stopped) == ((0.4,), StopReason.BUDGET)


def test_what_the_kernels_ran_is_what_they_cost() -> None:
    world = World(phases)
    times = {"a": 1e-3, "b": 1.1e-3, "c": 5e-3, "d": 3e-5, "e": 3.1e-5}
    found = [outcome(each) for each in run([entry(world, name, seconds) for name, seconds in times.items()])]
    assert sum(each.device_seconds for each in found) == pytest.approx(world.now)


def test_one_that_dies_in_the_second_round_leaves_the_others_theirs() -> None:
    world = World()
    a, b, c = run([entry(world, "a", 1e-3), entry(world, "b", 1.01e-3, dies=1), entry(world, "c", 1.02e-3)])
    assert outcome(b).message == "the kernel died"
    assert all(len(outcome(each).samples) == 10 and outcome(each).stopped is StopReason.CAPPED for each in (a, c))
    assert rounds(world, 3)[:2] == ["abc", "bac"]
    assert "b" not in "".join(rounds(world, 3)[2:])


def test_those_that_a_dying_session_interrupts_go_on_with_their_samples_in_the_next() -> None:
    world = World(phases)
    entries = [
        entry(world, "a", 1e-3),
        entry(world, "b", 1.01e-3, dies=1),
        entry(world, "c", 1.02e-3),
        entry(world, "d", 9e-3),
    ]
    a, b, c, d = run(entries, fatal=True)
    assert isinstance(a, Begun)
    assert isinstance(c, Begun)
    assert isinstance(b, RunOutcome)
    assert outcome(d).stopped is StopReason.RACED, "it was done"
    assert (len(a.samples), len(c.samples)) == (1, 1)
    world.calls.clear()
    found = run([entry(world, "a", 1e-3, before=a), entry(world, "c", 1.02e-3, before=c)])
    for before, after in zip((a, c), map(outcome, found), strict=True):
        assert after.samples[: len(before.samples)] == before.samples
        assert (len(after.samples), after.stopped) == (10, StopReason.CAPPED)
        assert after.seconds > before.seconds
    assert len(world.calls) == 18, "no second first run"
    costs = [outcome(each).device_seconds for each in (*found, d)]
    assert sum(costs) + entries[1].device_seconds == pytest.approx(world.now)


def test_one_that_had_all_its_samples_when_the_session_died_takes_no_more() -> None:
    world, full = World(), Begun(1e-3, 1.0, 0.5, (1e-3,) * 10)
    (found,) = run([entry(world, "a", 1e-3, before=full)])
    assert (outcome(found).samples, outcome(found).stopped) == (full.samples, StopReason.CAPPED)
    assert (outcome(found).device_seconds, world.calls) == (0.5, [])


def test_one_that_never_ran_is_not_begun() -> None:
    assert entry(World(), "a", 1e-3).outcome() is None


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1.0])
def test_a_device_that_invents_times_disturbs_nobody_elses_race(seconds: float) -> None:
    world = World()
    wrong, good, slow = run([entry(world, "a", seconds), entry(world, "b", 1e-3), entry(world, "c", 2e-3)])
    assert isinstance(wrong, RunOutcome)
    assert (len(outcome(good).samples), outcome(good).stopped) == (10, StopReason.CAPPED)
    assert outcome(slow).stopped is StopReason.RACED


def test_done_and_failed_are_not_running() -> None:
    world = World()
    left, done, failed = (entry(world, name, 1e-3) for name in "abc")
    done.stopped, failed.failed = StopReason.CAPPED, RunOutcome()
    assert running([left, done, failed]) == [left]
    assert replace(left, samples=[1e-3] * 3).latency == statistics.median([1e-3] * 3)


def test_a_default_schedule_gets_a_third_of_the_time() -> None:
    world = World()
    limits = FULL.model_copy(update={"max_measure_seconds": 0.18})
    default, other = run([entry(world, "a", 0.02, limits, default=True), entry(world, "b", 0.02, limits)])
    assert [len(outcome(each).samples) for each in (default, other)] == [3, 9]


def test_a_long_kernel_runs_once_for_each_sample_and_once_before() -> None:
    world = World()
    slow = entry(world, "slow", 0.25, FULL.model_copy(update={"max_measure_seconds": 3.0}), default=True)
    (outcome,) = run([slow])
    assert isinstance(outcome, RunOutcome)
    assert len(outcome.samples) in (3, 4)
    assert world.now == pytest.approx(0.25 * (1 + len(outcome.samples)))
    assert outcome.device_seconds == pytest.approx(world.now)


def test_a_default_schedule_of_some_hundredths_of_a_second_needs_no_run_to_warm_up() -> None:
    def runs(default: bool) -> tuple[int, int]:
        world = World()
        limits = FULL.model_copy(update={"max_measure_seconds": 0.3 if default else 0.1})
        (found,) = run([entry(world, "a", 0.04, limits, default=default)])
        return round(world.now / 0.04), len(outcome(found).samples)

    assert runs(default=True) == (3, 2)
    assert runs(default=False) == (5, 2)
