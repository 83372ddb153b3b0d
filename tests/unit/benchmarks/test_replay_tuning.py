from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from recordings import synthetic

from benchmarks.replay import tuning
from benchmarks.replay.ranges import ranges
from benchmarks.replay.workloads import held_out
from tunesmith.errors import InvalidInput
from tunesmith.search.genetic import GeneticOptions
from tunesmith.search.registry import SEARCHERS, default_options, make_searcher


@dataclass(frozen=True)
class Options:
    count: int = 8
    none: int = 0
    share: float = 0.5
    off: float = 0.0
    weight: float = 10.0
    flag: bool = True
    names: tuple[str, ...] = ("a",)
    effort: int = 1024


def test_ranges_hold_the_default_and_keep_a_setting_what_it_is() -> None:
    found = {r.name: (r.low, r.high) for r in ranges(Options())}
    assert found == {"count": (2, 32), "none": (0, 1), "share": (0.125, 1.0), "off": (0.0, 0.5), "weight": (2.5, 40.0)}
    for name in SEARCHERS:
        options = default_options(name)
        assert all(r.low <= getattr(options, r.name) <= r.high for r in ranges(options)), name


def test_every_other_space_is_held_out() -> None:
    assert held_out(["c", "a", "b", "d", "a"]) == {"b", "d"}


def test_tuning_sees_one_half_and_finds_better_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is worth most is planted, and lies off the default."""
    toys = [synthetic(f"toy{i}", i) for i in range(2)]
    seen: set[str] = set()
    real = tuning.worth

    def planted(plan, options, recordings, seeds, pool):
        if min(seeds) < tuning.FRESH:
            seen.update(r.name for r in recordings)
            return {("toy0", False): np.full(len(seeds), -abs(options.measured - 40.0))}
        return real(plan, options, recordings, seeds, pool)

    monkeypatch.setattr(tuning, "worth", planted)
    plan = tuning.TuningPlan("genetic", trials=12, seeds=2, batch=8)
    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        tuned = tuning.tune(plan, toys, pool, said.append)
    assert seen == {"toy0"}
    assert len(said) > 1
    assert abs(tuned.best.measured - 40) < abs(GeneticOptions().measured - 40)
    make_searcher("genetic", toys[0].space, 0, tuned.best).ask(4)
    rows = tuning.report(plan, tuned, {}).rows
    assert [(row[0], row[2]) for row in rows] == [
        ("tuning", "genetic"),
        ("tuning", "genetic + cost model"),
        ("held out", "genetic"),
        ("held out", "genetic + cost model"),
    ]
    assert all(row[6] <= row[5] <= row[7] for row in rows)
    tuned.save(tmp_path / "out" / "found.json")
    assert json.loads((tmp_path / "out" / "found.json").read_text())["tuned"]["measured"] == tuned.best.measured


def test_a_searcher_without_settings_is_refused() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidInput, match="no settings"):
        tuning.tune(tuning.TuningPlan("random", 2, 2, 8), [synthetic()], pool, lambda _: None)
