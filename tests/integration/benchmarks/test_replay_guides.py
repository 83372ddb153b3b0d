"""Searchers that are told what a ranker estimates, on recorded spaces."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from recordings import synthetic

from benchmarks.replay.workloads import DATA
from tunesmith.errors import InvalidInput
from tunesmith.space.base import Floats
from tunesmith.testing.replay import Recording
from workers.tvm_backend.warm import warm

warm("llvm")

from benchmarks.replay import guides  # noqa: E402
from benchmarks.replay.guides import BESIDE, GUIDES, RANKER, SCORED, STATIC, Guided  # noqa: E402
from tools import pretrain  # noqa: E402
from workers.core import labelled  # noqa: E402

pytestmark = pytest.mark.parallel


def told(recording: Recording, static: Floats, ranker: Floats) -> Guided:
    """A space whose refused points have no estimate."""
    refused = ~np.isin(np.arange(recording.space.size), recording.points)
    return Guided(recording, *(np.where(refused, np.inf, each) for each in (static, ranker)))


@pytest.mark.parametrize("searcher", ["genetic", "portfolio"])
def test_the_better_guide_gains_paired_by_space_and_seed(searcher: str) -> None:
    spaces = []
    for seed in (0, 1):
        recording = synthetic(f"toy{seed}", seed)
        latency = np.where(np.isfinite(recording.seconds), recording.seconds, 1.0)
        spaces.append(told(recording, np.random.default_rng(seed).permutation(latency), latency))
    runs = [guides.run(space, searcher, range(4), 4) for space in spaces]
    for each in runs:
        assert set(each.found) == set(GUIDES)
        assert all(each.found[ranker].mean() > each.found[static].mean() for ranker, static in BESIDE.items())
    report = guides.report(runs, {})
    static, scored, ranker, turns, ranked = (dict(zip(report.columns, row, strict=True)) for row in report.rows)
    assert (static["guide"], static["gain"], scored["guide"], scored["gain"]) == (STATIC, None, SCORED, None)
    for found in (ranker, turns, ranked):
        assert found["gain from"] > 0
        assert found["gain from"] <= found["here from"]
        assert found["spaces where it gains"] == "2 of 2"
    assert ranker["P"] == pytest.approx(np.mean([each.found[RANKER].mean() for each in runs]), abs=1e-4)


def test_a_ranker_of_other_recordings_guides_on_one(tmp_path: Path) -> None:
    for name in ("dense-128x512x256.npz", "gemm-256x256x256.npz"):
        shutil.copy(DATA / name, tmp_path)
    recording = Recording.load(DATA / "bmm-12x64x64x64.npz")
    assert pretrain.write(labelled.of_folder(tmp_path), tmp_path / "ranker.json").endswith(" bytes")
    found = guides.guided(recording, guides.ranker_in(tmp_path / "ranker.json"))
    assert found is not None
    known = np.isfinite(found.static)
    assert known.mean() > 0.5
    assert (np.isfinite(found.ranker) == known).all()
    assert np.array_equal(found.ranker[~known], found.static[~known], equal_nan=True)
    assert len(pretrain.recorded()) == len(list(DATA.glob("*.npz")))
    (tmp_path / "other.json").write_text("{}")
    for name in ("other.json", "none.json"):
        with pytest.raises(InvalidInput, match=f"{name} holds no ranker"):
            guides.ranker_in(tmp_path / name)
