"""Networks that read scikit-learn's digits (1797 images of 8 x 8, from the UCI repository), trained in seconds."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
KEPT = 512
"""Images that no training sees, of 1797; the networks' batch."""
ROWS, RATE = 32, 0.1
"""Images and rate of a step of stochastic gradient descent."""
SIDE, CLASSES, BRIGHTEST = 8, 10, 16.0
CHANNELS, HIDDEN = 32, 128


@dataclass(frozen=True)
class Digits:
    """Images float32 [number, 1, 8, 8] of 0 to 1, and what they show."""

    train: Array
    train_labels: Array
    test: Array
    test_labels: Array

    @classmethod
    def load(cls, seed: int) -> Digits:
        """Split anew with each seed."""
        datasets: Any = importlib.import_module("sklearn.datasets")
        found = datasets.load_digits()
        images = (found.images / BRIGHTEST).astype(np.float32)[:, None]
        order = np.random.default_rng(seed).permutation(len(images))
        test, train = order[:KEPT], order[KEPT:]
        return cls(images[train], found.target[train], images[test], found.target[test])


def _convolutions() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, CHANNELS, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        nn.BatchNorm2d(CHANNELS),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * CHANNELS * (SIDE // 2) ** 2, CLASSES),
    )


def _layers() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(SIDE * SIDE, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.GELU(),
        nn.Linear(HIDDEN, CLASSES),
    )


NETWORKS: Mapping[str, Callable[[], Any]] = {"convolutions": _convolutions, "dense layers": _layers}


def trained(name: str, digits: Digits, seed: int, epochs: int, out: Path) -> Path:
    """Train a network and write it as ONNX, with a batch of ``KEPT`` images."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # waiting for each other takes longer than such small steps
    network = NETWORKS[name]()
    images, labels = torch.from_numpy(digits.train), torch.from_numpy(digits.train_labels)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(ROWS):
            network.zero_grad()
            torch.nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter -= RATE * parameter.grad
    example = torch.zeros(KEPT, 1, SIDE, SIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the newer exporter needs one more library
        torch.onnx.export(
            network.eval(), (example,), str(out), input_names=["image"], output_names=["scores"], dynamo=False
        )
    return out
