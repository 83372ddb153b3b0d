"""Calibration inputs: a file of arrays, checked against what a model takes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.errors import InvalidInput

Array = NDArray[Any]
FIELD = "calibration"
FORM = "expected an .npz file with one array for each input of the model, as numpy.savez(file, input=array) writes it"


@dataclass(frozen=True)
class ModelInput:
    """What a model takes.

    Attributes:
        dtype: a NumPy name.
        shape: extents; None where any will do.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join('any' if extent is None else str(extent) for extent in self.shape)}]"


@dataclass(frozen=True)
class Calibration:
    """Samples of all inputs of a model.

    Attributes:
        arrays: by input; the first axis is that of the samples, the others are the input's.
    """

    arrays: Mapping[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for at in range(len(self)):
            yield {name: array[at] for name, array in self.arrays.items()}


def read(path: Path, inputs: Sequence[ModelInput]) -> Calibration:
    """The samples in a file.

    An array has one axis more than its input, that of the samples, or as many: then its first axis is cut into pieces
    as long as the input's.

    Raises:
        InvalidInput: naming the array, what is wrong with it and what would be right.
    """
    arrays = _load(path)
    if unknown := sorted(arrays.keys() - {each.name for each in inputs}):
        names = ", ".join(each.name for each in inputs)
        raise _refused(f"{path}: the model has no input {unknown[0]!r}; its inputs are {names}", unknown[0])
    samples = {each.name: _samples(path, each, arrays.get(each.name)) for each in inputs}
    first, *others = samples
    for name in others:
        if len(samples[name]) != len(samples[first]):
            raise _refused(
                f"{path}: {first!r} has {len(samples[first])} samples and {name!r} {len(samples[name])}; give as many "
                "of each input",
                name,
            )
    return Calibration(samples)


def _load(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise _refused(f"{path} holds a single array; {FORM}", str(path))
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        # Arrays of Python objects are a ValueError, too: reading them would run code.
        raise _refused(f"cannot read {path}: {error}; {FORM}", str(path)) from error


def _samples(path: Path, wanted: ModelInput, array: Array | None) -> Array:
    """The array with an axis of samples in front. Raises InvalidInput."""
    if array is None:
        raise _refused(f"{path} has no array {wanted.name!r}: give samples of every input", wanted.name)
    said = f"{path}: {wanted.name!r} is {array.dtype} {list(array.shape)}, and the model takes {wanted}"
    if array.dtype.name != wanted.dtype:
        raise _refused(f"{said}; convert it with .astype({wanted.dtype!r})", wanted.name)
    if array.ndim == len(wanted.shape) and array.ndim:
        batch = wanted.shape[0] or 1
        if len(array) % batch:
            raise _refused(f"{said}; its first axis must be a multiple of {batch}", wanted.name)
        array = array.reshape(-1, batch, *array.shape[1:])
    elif array.ndim != len(wanted.shape) + 1:
        raise _refused(f"{said}; put an axis of samples in front", wanted.name)
    if any(extent not in (None, given) for extent, given in zip(wanted.shape, array.shape[1:], strict=True)):
        raise _refused(f"{said}, or one axis of samples more", wanted.name)
    if not len(array):
        raise _refused(f"{said}; at least one sample is needed", wanted.name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _refused(
            f"{path}: {wanted.name!r} contains NaN or infinity, of which no scale can be made; leave those samples out",
            wanted.name,
        )
    return array


def _refused(detail: str, value: str) -> InvalidInput:
    return InvalidInput(detail, field=FIELD, value=value)
