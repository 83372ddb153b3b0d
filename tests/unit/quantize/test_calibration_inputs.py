from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunesmith.errors import InvalidInput
from tunesmith.quantize.calibration import ModelInput, read

IMAGE = ModelInput("image", "float32", (2, 3, None))
WORD = ModelInput("word", "int64", (2,))


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "samples.npz"
    np.savez(path, **arrays)
    return path


def images(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_samples_have_an_axis_of_their_own_or_are_cut_along_the_first_one(tmp_path: Path) -> None:
    given = images(4, 2, 3, 5)
    words = np.arange(8)
    found = read(saved(tmp_path, image=given, word=words), [IMAGE, WORD])
    assert len(found) == 4
    for at, sample in enumerate(found):
        assert np.array_equal(sample["image"], given[at])
        assert sample["word"].tolist() == [2 * at, 2 * at + 1]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "has no array 'image'"),
        ({"image": images(4, 2, 3, 5), "picture": images(1)}, "no input 'picture'; its inputs are image"),
        (
            {"image": images(4, 2, 3, 5).astype(np.float64)},
            r"float64 \[4, 2, 3, 5\].*takes float32 \[2, 3, any\]; conv",
        ),
        ({"image": images(4, 2, 4, 5)}, r"\[4, 2, 4, 5\], and the model takes float32 \[2, 3, any\]"),
        ({"image": images(3, 3, 5)}, "a multiple of 2"),
        ({"image": images(3, 5)}, "put an axis of samples in front"),
        ({"image": images(0, 2, 3, 5)}, "at least one sample"),
        ({"image": np.full((1, 2, 3, 5), np.nan, np.float32)}, "NaN or infinity"),
        ({"image": np.array([{}], object)}, "cannot read"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        read(saved(tmp_path, **arrays), [IMAGE])
    assert refused.value.field == "calibration"


def test_as_many_samples_of_each(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'image' has 4 samples and 'word' 3"):
        read(saved(tmp_path, image=images(4, 2, 3, 5), word=np.zeros((3, 2), np.int64)), [IMAGE, WORD])


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 broken"])
def test_what_is_no_file_of_arrays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "samples.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="expected an"):
        read(path, [IMAGE])
    with pytest.raises(InvalidInput, match="expected an"):
        read(tmp_path / "nowhere.npz", [IMAGE])
    np.save(tmp_path / "one.npy", images(2))
    with pytest.raises(InvalidInput, match="holds a single array"):
        read(tmp_path / "one.npy", [IMAGE])
