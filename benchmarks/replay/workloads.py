"""What is recorded, and where the recordings lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tunesmith.errors import InvalidInput
from tunesmith.targets import slug
from tunesmith.testing.replay import Recording

DATA = Path(__file__).parent / "data"

WORKLOADS = {
    "gemm:256x256x256": 2.0,
    "gemm:64x768x512": 4.0,
    "dense:128x512x256": 2.0,
    "bmm:12x64x64x64": 4.0,
    "conv2d:1x64x28x28,64x64x3x3,s1,p1": 4.0,
    "conv2d:1x32x56x56,64x32x3x3,s2,p1": 1.0,
    "conv2d:1x256x14x14,128x256x1x1,s1,p0": 6.0,
    "depthwise:1x128x28x28,k3,s1,p1": 5.0,
    "depthwise:1x96x56x56,k3,s2,p1": 2.0,
    "softmax:12x128x128": 4.0,
    "softmax:64x1000": 1.0,
    "layernorm:128x768": 8.0,
}
"""Operator specs, and how often a model made of them runs each: small kernels of the common families."""


def file_of(spec: str, folder: Path) -> Path:
    """Where the recording of an operator lies."""
    return folder / f"{slug(spec)}.npz"


def held_out(names: Iterable[str]) -> frozenset[str]:
    """Every other name, by the alphabet: spaces on which no searcher's settings are tuned."""
    return frozenset(sorted(set(names))[1::2])


def load_all(folder: Path = DATA) -> Sequence[Recording]:
    """Every recording of a folder that was measured to its end, by name.

    Raises:
        InvalidInput: when there is none.
    """
    found = [Recording.load(path) for path in sorted(folder.glob("*.npz"))]
    whole = [recording for recording in found if not recording.missing]
    if not whole:
        raise InvalidInput(
            f"there is no complete recording in {folder.name}: make some with 'tunesmith bench replay collect'",
            field="data",
            value=folder.name,
        )
    return whole
