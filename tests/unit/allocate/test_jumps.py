from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tunesmith.allocate.bandit import NO_RESULT, BanditAllocator, BanditOptions
from tunesmith.allocate.base import TaskView
from tunesmith.allocate.jumps import Curves, JumpOptions, Posterior, behind, posterior_of, quantiles
from tunesmith.space.base import Ints

ALONE = np.array([0])
OPTIONS = JumpOptions(size=0.2, gain=0.3, evidence=2.0, shared=0.5, fadings=(1.0,))


def task(number: int, history: tuple[float, ...] = (), **changes: object) -> TaskView:
    view = TaskView(number, weight=1.0, flops=1e9, family="f", untuned=1.0, history=history)
    return view._replace(**changes)  # type: ignore[arg-type]


def fitted(histories: Sequence[Sequence[float]], relatives: Ints, options: JumpOptions = JumpOptions()) -> Posterior:
    return posterior_of(Curves.of(histories), relatives, options)


def test_what_a_belief_needs_of_curves() -> None:
    found = Curves.of([[math.inf, math.e**2, math.e, 1.0], [math.inf], [], [3.0, 3.0]])
    assert found.rounds.tolist() == [3, 0, 0, 2]
    assert found.last.tolist() == [1.0, math.inf, math.inf, 3.0]
    assert found.gained.tolist() == pytest.approx([2.0, 0.0, 0.0, 0.0])
    assert found.late.tolist() == pytest.approx([math.log(1.5), 0.0, 0.0, 0.0])
    assert len(Curves.of([]).rounds) == 0


def test_what_is_believed_before_anything_is_known() -> None:
    found = fitted([[1.0]], ALONE, OPTIONS)
    assert (found.shape.item(), found.rate.item(), found.weight.item()) == (2.0, pytest.approx(2 / 0.3), 1.0)
    (mean,), (deviation,) = found.saved(np.array([1]), np.array([0]))
    each = -math.expm1(-0.2) / 0.2 / (2 / 0.3)  # g is gamma distributed, the jumps given g are a Poisson process
    twice = -math.expm1(-0.4) / 0.2 / (2 / 0.3)
    assert mean == pytest.approx(1 - (1 + each) ** -2)
    assert deviation == pytest.approx(math.sqrt((1 + twice) ** -2 - (1 + each) ** -4))


def test_every_jump_and_every_round_counts() -> None:
    found = fitted([[math.exp(0.6), math.exp(0.2), math.exp(0.2)]], ALONE, OPTIONS)
    assert found.shape.item() == pytest.approx(2 + 0.4 / 0.2)
    assert found.rate.item() == pytest.approx(2 / 0.3 + (1 + (3 / 2) ** -1) / 0.2)


def test_relatives_count_in_part() -> None:
    improved, not_yet = [math.e, 1.0], [1.0]
    strangers = fitted([improved, not_yet], np.array([0, 1]), OPTIONS)
    relatives = fitted([improved, not_yet], np.array([0, 0]), OPTIONS)
    assert strangers.shape[1, 0] == pytest.approx(2.0)
    assert relatives.shape[1, 0] == pytest.approx(2.0 + 0.5 * 1.0 / 0.2)
    assert relatives.rate[1, 0] == pytest.approx(2 / 0.3 + 0.5 * 1 / 0.2)
    assert relatives.shape[0, 0] == strangers.shape[0, 0]


def test_who_is_behind_its_relatives() -> None:
    latency = np.array([1e-3, 2e-3, 4e-3, math.inf, 5e-3, 1e-3])
    flops = np.array([1e9, 1e9, 1e9, 1e9, 1e9, 0.0])
    found = behind(latency, flops, np.array([0, 0, 0, 0, 1, 0]), 0.5)
    assert found.tolist() == pytest.approx([0.0, 0.0, math.log(2), 0.0, 0.0, 0.0])
    assert behind(latency, flops, np.array([0, 0, 0, 0, 1, 0]), 1.0)[:3].tolist() == pytest.approx(
        [0.0, math.log(2), math.log(4)]
    )
    assert behind(np.array([]), np.array([]), np.array([], dtype=np.int64), 0.5).tolist() == []


def test_the_mark_is_the_quantile_of_each_family() -> None:
    rng = np.random.default_rng(0)
    values, groups = rng.normal(size=200), rng.integers(0, 30, 200)
    groups[groups == 7] = 8  # a number that nobody has
    for quantile in (0.0, 0.3, 0.5, 0.75, 1.0):
        expected = [np.quantile(values[groups == group], quantile) for group in groups]
        assert quantiles(values, groups, quantile).tolist() == pytest.approx(expected)


def test_who_is_behind_is_expected_to_catch_up_until_rounds_tell_otherwise() -> None:
    options, relatives = JumpOptions(ahead=1.0), np.array([0, 0])

    def saved(*histories: list[float]) -> list[float]:
        curves = Curves.of(histories)
        found = posterior_of(curves, relatives, options, np.array([1e9, 1e9]))
        out: list[float] = found.saved(curves.rounds, np.zeros(2, dtype=np.int64))[0].tolist()
        return out

    first, slow = saved([1e-3], [4e-3])
    assert slow > 2 * first
    assert saved([1e-3], [4e-3] * 6)[1] < slow / 3


def test_foretold_savings_are_those_of_the_process() -> None:
    """Curves drawn from the prior: what is foretold after four rounds is on average what the fifth brings."""
    rng, rounds, count = np.random.default_rng(0), 5, 20_000
    gain = rng.gamma(OPTIONS.evidence, OPTIONS.gain / OPTIONS.evidence, size=count)
    rates = (np.arange(2, rounds + 1) / 2.0) ** -1.0
    jumps = rng.poisson(gain[:, None] * rates / OPTIONS.size)
    curves = np.exp(-OPTIONS.size * np.concatenate([np.zeros((count, 1)), np.cumsum(jumps, axis=1)], axis=1))
    found = fitted(curves[:, :4].tolist(), np.arange(count), OPTIONS)
    mean, deviation = found.saved(np.full(count, 4), np.zeros(count, dtype=np.int64))
    saved = 1 - curves[:, 4] / curves[:, 3]
    assert mean.mean() == pytest.approx(saved.mean(), rel=0.03)
    assert np.mean((saved - mean) ** 2) == pytest.approx(np.mean(deviation**2), rel=0.05)
    large = mean > np.median(mean)
    assert mean[large].mean() == pytest.approx(saved[large].mean(), rel=0.03)


def test_a_curve_that_falls_late_is_not_thought_to_fade() -> None:
    options = JumpOptions(size=0.1, fadings=(0.0, 3.0))
    early, late = [1.0, 0.4, 0.4, 0.4, 0.4], [1.0, 1.0, 1.0, 1.0, 0.4]
    found = fitted([early, late], np.array([0, 1]), options)
    assert found.weight[0, 1] > 0.9
    assert found.weight[1, 0] > 0.9


def test_rounds_under_way_are_expected_to_bring_something() -> None:
    found = fitted([[2.0, 1.5, 1.2]], ALONE)
    saved = [found.saved(np.array([3]), np.array([flying]))[0].item() for flying in range(4)]
    assert saved == sorted(saved, reverse=True)
    assert saved[0] > saved[-1] > 0


def test_the_bandit_takes_what_weighs_and_still_falls() -> None:
    flat, falling = (1.0, 1.0, 1.0, 1.0, 1.0), (2.0, 1.7, 1.4, 1.2, 1.0)
    allocator = BanditAllocator(0, BanditOptions(exploration=0.0))
    strangers = {"family": "a"}, {"family": "b"}
    pair = [task(1, flat, **strangers[0]), task(2, falling, **strangers[1])]
    assert allocator.choose(pair, {}).task == 2  # type: ignore[union-attr]
    heavy = [pair[0]._replace(weight=100.0), pair[1]]
    assert allocator.choose(heavy, {}).task == 1  # type: ignore[union-attr]
    assert allocator.choose([task(1, falling), task(2, falling)], {1: 3}).task == 2  # type: ignore[union-attr]


def test_the_bandit_counts_what_a_round_takes() -> None:
    pair = [task(1, (2.0, 1.5), seconds=4.0), task(2, (2.0, 1.5), seconds=1.0), task(3, (2.0, 1.5))]
    allocator = BanditAllocator()
    choice = allocator.choose(pair, {})
    assert choice is not None
    assert choice.task == 2
    assert choice.scores[1] == pytest.approx(choice.scores[2] / 4)
    assert choice.scores[3] == pytest.approx(choice.scores[2] / 2.5), "as the others, where it is not known"
    gain = allocator.arms(pair, {}).gain
    assert gain[0] == pytest.approx(gain[1])


def test_tasks_without_any_result_come_last_between_their_tries_and_take_turns() -> None:
    failing = [task(1, (math.inf,) * 3), task(2, (math.inf,) * 4)]
    choice = BanditAllocator().choose([*failing, task(3, (1e-9, 1e-9))], {})
    assert choice is not None
    assert choice.task == 3
    alone = BanditAllocator().choose(failing, {})
    assert alone is not None
    assert (alone.task, alone.scores[1]) == (1, NO_RESULT - 3)
