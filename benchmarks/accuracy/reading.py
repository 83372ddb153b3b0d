"""Compiles trained networks in each precision and has them read what they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.networks import KEPT, NETWORKS, Array, Digits, trained
from tunesmith.names import BF16, FLOAT32, INT8
from tunesmith.options import JobOptions
from tunesmith.preparation import Preparation, for_target
from tunesmith.quantize.static_onnx import quantise
from workers.peers import onnxruntime
from workers.tvm_backend.build.local_model import LocalModel, local_target


@dataclass(frozen=True)
class Reading:
    """What one network in one precision read.

    Attributes:
        right: share of the test images, 0 to 1.
        changed: share that another class was read on than by float32.
        rms: root mean square of the differences of scores over that of float32's.
        peer: share that onnxruntime reads of the same file; None where it has no such precision.
    """

    network: str
    seed: int
    precision: str
    right: float
    changed: float
    rms: float
    peer: float | None


def read_all(folder: Path, seeds: Iterable[int], epochs: int, progress: Callable[[str], None]) -> list[Reading]:
    """All networks in all precisions."""
    found = []
    for seed in seeds:
        digits = Digits.load(seed)
        for name in NETWORKS:
            progress(f"{name}, seed {seed}")
            place = folder / f"{name.replace(' ', '-')}-{seed}"
            place.mkdir()
            path = trained(name, digits, seed, epochs, place / "model.onnx")
            scores = {precision: _scores(made, digits.test, place) for precision, made in _files(path, digits).items()}
            found += _readings(name, seed, digits, scores)
    return found


def _files(path: Path, digits: Digits) -> Mapping[str, tuple[Path, Preparation]]:
    """The file of each precision and how it is prepared; float32 comes first."""
    samples, quantised = path.with_name("samples.npz"), path.with_name("int8.onnx")
    np.savez(samples, image=digits.train[:KEPT])
    quantise(path, samples, quantised)
    files = {FLOAT32: path, BF16: path, INT8: quantised}
    return {
        precision: (file, for_target("llvm", operator=False, options=JobOptions(precision=precision)))
        for precision, file in files.items()
    }


def _scores(made: tuple[Path, Preparation], images: Array, folder: Path) -> tuple[Array, Array]:
    """Of the library without schedules, and onnxruntime's of the same file; [images, classes]."""
    path, preparation = made
    library = folder / f"{path.stem}-{preparation.precision}.so"
    LocalModel(str(path), {}, folder, preparation).compile(library, local_target("cpu:1"), None)
    import tvm
    from tvm import relax

    machine: Any = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    ours: Array = machine["main"](tvm.runtime.tensor(images)).numpy()
    return ours, onnxruntime.prepare(str(path), {"image": images}, 1)()[0]


def _readings(name: str, seed: int, digits: Digits, scores: Mapping[str, tuple[Array, Array]]) -> list[Reading]:
    exact, _ = scores[FLOAT32]
    made = []
    for precision, (ours, theirs) in scores.items():
        apart = np.sqrt(((ours - exact) ** 2).mean() / (exact**2).mean())
        changed = (ours.argmax(axis=1) != exact.argmax(axis=1)).mean()
        peer = None if precision == BF16 else _right(theirs, digits)
        made.append(Reading(name, seed, precision, _right(ours, digits), float(changed), float(apart), peer))
    return made


def _right(scores: Array, digits: Digits) -> float:
    return float((scores.argmax(axis=1) == digits.test_labels).mean())
