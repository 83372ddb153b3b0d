"""Resizing by ONNX's rules and PyTorch's, also where a scale makes no whole number of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from effort import some
from one_operator import both, by_tvm, write
from onnx import TensorProto

from tunesmith.errors import UnsupportedOperator
from workers.tvm_backend.frontends import import_model

pytestmark = pytest.mark.parallel


def resize(path: Path, shape: Sequence[int], scales: Sequence[float], opset: int = 18, **attrs: Any) -> Path:
    given = {"scales": np.array(scales, np.float32)}
    return write(path, "Resize", shape, opset, attrs, given, ["", "scales"])


COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
SHAPES = (
    ((1, 2, 7, 9), (0.5, 0.5)),
    ((1, 2, 7, 9), (1.7, 0.6)),
    ((1, 2, 6, 10), (2.0, 1.5)),
    ((1, 2, 9), (0.3,)),
    ((1, 1, 5, 7, 3), (0.5, 1.3, 2.0)),
)


MODES = ("nearest", "linear", "cubic")
CASES = [(mode, *case) for mode in MODES for case in SHAPES if mode != "cubic" or len(case[0]) == 4]
"""onnxruntime has the cubic mode for images alone."""


@pytest.mark.parametrize(
    ("mode", "shape", "scales", "coordinates"),
    some([(*case, coordinates) for coordinates in COORDINATES for case in CASES], kind=lambda case: (case[0], case[3])),
)
def test_scales(tmp_path: Path, mode: str, coordinates: str, shape: tuple[int, ...], scales: tuple[float, ...]) -> None:
    path = resize(
        tmp_path / "m.onnx", shape, (1.0, 1.0, *scales), mode=mode, coordinate_transformation_mode=coordinates
    )
    ours, theirs = both(path, shape)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("size", [(3, 4), (7, 4)])
def test_what_is_made_smaller_is_smoothed_where_the_model_says_so(
    tmp_path: Path, size: tuple[int, int], mode: str
) -> None:
    shape, given = (1, 2, 7, 9), {"sizes": np.array([1, 2, *size])}
    path = write(tmp_path / "m.onnx", "Resize", shape, 18, {"mode": mode, "antialias": 1}, given, ["", "", "sizes"])
    ours, theirs = both(path, shape)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("axes", [[2, 3], [-1, -2], [3]])
@pytest.mark.parametrize("by_size", [False, True])
def test_axes(tmp_path: Path, axes: list[int], by_size: bool) -> None:
    shape, name = (1, 2, 7, 9), "sizes" if by_size else "scales"
    given = np.array([11, 6][: len(axes)]) if by_size else np.array([0.6, 2.0][: len(axes)], np.float32)
    path = write(
        tmp_path / "m.onnx",
        "Resize",
        shape,
        18,
        {"mode": "linear", "axes": axes},
        {name: given},
        ["", "", name] if by_size else ["", name],
    )
    ours, theirs = both(path, shape)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2.0, 3.0), (1.5, 1.3)])
def test_old_opsets(tmp_path: Path, scales: tuple[float, float], mode: str) -> None:
    shape, given = (1, 2, 7, 9), {"scales": np.array((1.0, 1.0, *scales), np.float32)}
    for name, opset in (("Resize", 10), ("Upsample", 9)):
        path = write(tmp_path / f"{name}.onnx", name, shape, opset, {"mode": mode}, given, ["scales"])
        ours, theirs = both(path, shape)
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    attrs = {"mode": mode, "scales": [1.0, 1.0, *scales]}
    ours, repeated = both(write(tmp_path / "oldest.onnx", "Upsample", shape, 7, attrs, {}, []), shape)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    np.testing.assert_allclose(repeated, theirs, atol=2e-5)


def test_whole_scales_stay_tvms_operator(tmp_path: Path) -> None:
    path = resize(tmp_path / "m.onnx", (1, 2, 7, 9), (1.0, 1.0, 2.0, 3.0), mode="linear")
    assert "resize2d" in str(import_model.import_model(path, "onnx"))
    path = resize(tmp_path / "n.onnx", (1, 2, 7, 9), (1.0, 1.0, 0.5, 1.0), mode="nearest")
    text = str(import_model.import_model(path, "onnx"))
    assert "take" in text
    assert "matmul" not in text


def test_what_nobody_does_right_is_refused(tmp_path: Path) -> None:
    attrs, given = {"axes": [2, 3], "mode": "linear"}, {"sizes": np.array([4, 5])}
    path = write(tmp_path / "m.onnx", "Resize", (1, 2, 7, 9), 18, attrs, given, ["", "", "sizes"], TensorProto.INT32)
    with pytest.raises(UnsupportedOperator, match="int32"):
        import_model.import_model(path, "onnx")


class Interpolated(torch.nn.Module):
    def __init__(self, how: Mapping[str, Any]) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, **self.how)


@pytest.mark.parametrize(
    "how",
    some(
        [
            *(
                {"scale_factor": factor, "mode": mode}
                for factor in (2, 0.5, 1.7, (1.7, 0.6), 0.29)
                for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
            ),
            *({"size": size, "mode": mode} for size in ((11, 6), (3, 3), (1, 1)) for mode in ("nearest", "bilinear")),
            *({"size": (4, 13), "mode": mode, "antialias": True} for mode in ("bilinear", "bicubic")),
            {"scale_factor": 0.6, "mode": "bilinear", "antialias": True},
            {"scale_factor": 1.7, "mode": "bilinear", "align_corners": True},
        ],
        kind=lambda how: (*how, how["mode"]),
    ),
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_interpolation_of_pytorch(tmp_path: Path, how: dict[str, Any]) -> None:
    x, network = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 2, 7, 9), np.float32)), Interpolated(how)
    torch.export.save(torch.export.export(network, (x,)), tmp_path / "m.pt2")
    ours = by_tvm(import_model.import_model(tmp_path / "m.pt2", "pt2"), x.numpy())
    np.testing.assert_allclose(ours, network(x).numpy(), atol=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_maps_whose_size_is_fixed_later(tmp_path: Path, mode: str) -> None:
    x, network = (
        torch.from_numpy(np.random.default_rng(0).standard_normal((1, 2, 7, 9), np.float32)),
        Interpolated({"size": (5, 12), "mode": mode}),
    )
    rows = {2: torch.export.Dim("rows", min=4, max=16)}
    torch.export.save(torch.export.export(network, (x,), dynamic_shapes=(rows,)), tmp_path / "m.pt2")
    ours = by_tvm(import_model.import_model(tmp_path / "m.pt2", "pt2", {"x": (1, 2, 7, 9)}), x.numpy())
    np.testing.assert_allclose(ours, network(x).numpy(), atol=2e-5)


def test_corners_cannot_be_aligned_and_smoothed(tmp_path: Path) -> None:
    network = Interpolated({"size": (4, 5), "mode": "bilinear", "antialias": True, "align_corners": True})
    torch.export.save(torch.export.export(network, (torch.zeros(1, 2, 7, 9),)), tmp_path / "m.pt2")
    with pytest.raises(UnsupportedOperator, match="align_corners"):
        import_model.import_model(tmp_path / "m.pt2", "pt2")
