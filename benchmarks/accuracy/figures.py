"""The table of ``tunesmith bench accuracy``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from benchmarks.accuracy.networks import KEPT
from benchmarks.accuracy.reading import Reading
from benchmarks.harness.report import Report
from tunesmith.names import FLOAT32

NAME = "accuracy"


def report(readings: Sequence[Reading], setup: Mapping[str, str]) -> Report:
    """One line per network and precision, over all seeds."""
    groups = dict[tuple[str, str], list[Reading]]()
    for reading in readings:
        groups.setdefault((reading.network, reading.precision), []).append(reading)
    return Report.of(NAME, "Accuracy by precision", _summary(groups), [_row(*item, groups) for item in groups], setup)


def _row(network: str, precision: str, groups: Mapping[tuple[str, str], list[Reading]]) -> dict[str, object]:
    own, exact = groups[network, precision], groups[network, FLOAT32]
    lost = [100 * (before.right - after.right) for before, after in zip(exact, own, strict=True)]
    peers = [each.peer for each in own if each.peer is not None]
    return {
        "network": network,
        "precision": precision,
        "top-1, %": 100 * mean(each.right for each in own),
        "points lost": mean(lost),
        "most lost": max(lost),
        "read otherwise, %": 100 * mean(each.changed for each in own),
        "rms error, %": 100 * mean(each.rms for each in own),
        "onnxruntime's top-1, %": 100 * mean(peers) if peers else None,
    }


def _summary(groups: Mapping[tuple[str, str], list[Reading]]) -> str:
    seeds = len(next(iter(groups.values())))
    return (
        f"Networks that read scikit-learn's digits, trained here with {seeds} seeds in float32. {KEPT} of the 1797 "
        "images are kept from the training; the libraries read these. Each network is compiled without schedules in "
        f"each precision: they change no rounding. int8 is the file that `tunesmith quantize` makes with {KEPT} "
        "training images. "
        "`points lost`: float32's top-1 less this one's, the mean of the seeds; negative where more is read. `read "
        "otherwise`: images of which another class is read than in float32. `rms error`: of the scores, against "
        "float32's."
    )
