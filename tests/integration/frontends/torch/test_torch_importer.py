"""Operators of PyTorch's that TVM's own importer takes for something else, or lacks: against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from one_operator import all_by_tvm
from torch import Tensor
from torch_function import Function

from tunesmith.errors import UnsupportedOperator
from workers.tvm_backend.frontends import import_model

pytestmark = pytest.mark.parallel


def imported(path: Path, function: Callable[[Tensor], Any], x: Tensor, **options: Any) -> Any:
    torch.export.save(torch.export.export(Function(function), (x,), **options), path)
    return import_model.import_model(path, "pt2")


NUMBERS = torch.tensor([-7, 3, 8])
OF_NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x * 0.5,
    "sum": lambda x: x + 0.5,
    "difference": lambda x: 0.5 - x,
    "quotient": lambda x: x / 2,
    "inverse": lambda x: 1.5 / x,
    "power": lambda x: x.abs() ** 0.5,
    "compare": lambda x: x > 2.5,
    "root": torch.exp,
    "clamp": lambda x: x.clamp(max=2.5),
    "mask": lambda x: (x > 0) * 1.5,
    "count": lambda x: (x > 0).cumsum(0),
    "above": lambda x: x.clamp(min=0),
    "below": lambda x: x.clamp(max=5),
    "bounds": lambda x: x.clamp(-1, 5),
    "floor": lambda x: x // 2,
    "cut": lambda x: torch.div(x, 2, rounding_mode="trunc"),
    "constant": lambda x: x + torch.arange(3) * 0.25,
    "twice": lambda x: torch.add(x, x, alpha=2),
    "angles": lambda x: torch.outer(x.float(), 1 / (10000 ** (torch.arange(0, 4, 2) / 4))),
}
IMAGE = torch.randn(1, 4, 5, 6, generator=torch.Generator().manual_seed(0))
OF_IMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: torch.add(x, x * x, alpha=0.3),
    "sub": lambda x: torch.sub(x, x * x, alpha=0.3),
    "rsub": lambda x: torch.rsub(x, 1.0, alpha=2),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.6),
    "elu": F.elu,
    "behind": lambda x: x[:, :, torch.tensor([0, 3, -1])],
    "both": lambda x: x[:, :, [0, -1], [-2, 3]],
    "apart": lambda x: x[:, [0, -1], :, [-2, 3]],
    "inner": lambda x: x[:, [0, 1, 2], [-2, 3, 1]],
    "crossed": lambda x: x[:, [[0], [-1]], [-2, 3, 1]],
    "spread": lambda x: x[:, [[0], [1]], :, [[2, 3, 1], [0, 0, 1]]],
    "mask": lambda x: torch.where(x > 0, x, 0.0),
    "groups": lambda x: F.group_norm(x, 2),
    "amax": lambda x: x.amax((1, 2)),
    "amin": lambda x: x.amin(-1, True),
    "largest": lambda x: x.amax(),
    "prod": lambda x: x.prod(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "pool": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
    "mean": lambda x: F.avg_pool2d(x, 3, ceil_mode=True),
    "volume": lambda x: F.max_pool3d(x, 2, ceil_mode=True),
    "average": lambda x: F.avg_pool3d(x[None], 2, padding=1),
    "row": lambda x: F.avg_pool1d(x[0], 2, ceil_mode=True),
    "line": lambda x: F.max_pool1d(x[0], 2, ceil_mode=True),
    "up": lambda x: F.conv_transpose3d(x[None], x[0, :1, None, None, :4].repeat(1, 2, 2, 2, 1), x[0, 0, 0, :2], 2, 1),
    "windows": lambda x: F.adaptive_max_pool2d(x, (2, 4)),
    "halves": lambda x: F.adaptive_max_pool2d(x, (5, 3)),
    "whole": lambda x: F.adaptive_max_pool2d(x, 1),
    "lines": lambda x: F.adaptive_max_pool1d(x[0], 4),
    "cubes": lambda x: F.adaptive_max_pool3d(x, 2),
    "slide": lambda x: x.unfold(2, 3, 2),
    "frames": lambda x: x.unfold(-1, 4, 1),
    "variance": lambda x: torch.var_mean(x, (2, 3))[0],
    "biased": lambda x: torch.var_mean(x, 1, correction=0, keepdim=True)[0],
    "all": lambda x: torch.var_mean(x)[0],
    "middle": lambda x: torch.var_mean(x, (0, 2))[1],
    "distance": lambda x: torch.cdist(x, x + 1),
    "taxi": lambda x: torch.cdist(x, x[:, :, :2] * 2, p=1),
    "cubes apart": lambda x: torch.cdist(x, x[:, :1] * 2, p=3),
    "moved": lambda x: torch.cdist(x, x, p=0),
    "divisor": lambda x: F.avg_pool2d(x, 2, padding=1, divisor_override=3),
    "chess": lambda x: torch.cdist(x, x[:, :1] * 2, p=math.inf),
    "bags": lambda x: F.embedding_bag(torch.tensor([1, 0, 4, 4, 2]), x[0, 0], torch.tensor([0, 2, 2, 4]), mode="sum"),
    "means": lambda x: F.embedding_bag(torch.tensor([[1, 0, 4], [4, 2, 3]]), x[0, 0]),
    "ends": lambda x: F.embedding_bag(
        torch.tensor([1, 0, 4]),
        x[0, 0],
        torch.tensor([0, 1, 3]),
        mode="sum",
        include_last_offset=True,
        per_sample_weights=torch.tensor([0.5, 2.0, 3.0]),
    ),
    "left": lambda x: F.embedding_bag(torch.tensor([[1, 0, 4], [4, 4, 4]]), x[0, 0], padding_idx=4),
    "double": lambda x: F.interpolate(x[None], scale_factor=2),
    "linear": lambda x: F.interpolate(x[0], scale_factor=2, mode="linear"),
    "trilinear": lambda x: F.interpolate(x[None], size=(3, 8, 9), mode="trilinear"),
    "corners": lambda x: F.interpolate(x[None], size=(3, 8, 9), mode="trilinear", align_corners=True),
    "joined": lambda x: torch.cat([torch.tensor([]), x, x], 2),
    "none": lambda x: torch.cat([x[0, 0, 0, :0]] * 2),
    "causal": lambda x: (x + torch.full((5, 6), -math.inf).triu(1)).softmax(-1),
    "grid": lambda x: F.grid_sample(x, torch.tanh(x[..., :2]).reshape(1, 5, 4, 2), align_corners=False),
    "nearest": lambda x: F.grid_sample(x, torch.tanh(x[..., :2]).reshape(1, 5, 4, 2), "nearest", "border", True),
}


def written(x: Tensor, at: Any, values: Any) -> Tensor:
    made = x.clone()
    made[at] = values
    return made


AT, TO = torch.tensor([3, 1]), torch.tensor([[0], [1]])
PUT: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: written(x, TO[:1, 0], x * 2),
    "axis": lambda x: x.index_copy(2, AT, -x[:, :, :2]),
    "cells": lambda x: written(x, (slice(None), TO, slice(None), AT), x[0, :2, :2, 0, None, None] * torch.ones(5)),
    "side": lambda x: written(x, (slice(None), TO, AT - 5), x[:, :2, :2]),
    "scalar": lambda x: x.index_fill(3, AT, 5.0),
    "add": lambda x: x.index_add(1, AT, x[:, :2]),
    "sum": lambda x: x[0, 0].index_put((torch.tensor([1, 1, 2]),), x[0, 0, :3], accumulate=True),
    "mask": lambda x: written(x, x > 0, 3.0),
    "maps": lambda x: x.index_put((x.mean((2, 3)) > 0,), torch.tensor([3.0]), accumulate=True),
}


TOGETHER = 6
"""Functions of one program: PyTorch takes half a second for each program, however little there is in it."""


def groups(functions: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> list[Any]:
    names = list(functions)
    parts = [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]
    return [pytest.param({name: functions[name] for name in part}, x, id="-".join(part)) for part in parts]


@pytest.mark.parametrize(
    ("functions", "x"),
    [
        *groups(OF_NUMBERS, NUMBERS),
        *groups(OF_IMAGES, IMAGE),
        *groups(PUT, IMAGE),
    ],
)
def test_as_pytorch(tmp_path: Path, functions: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> None:
    def each(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(x) for function in functions.values())

    found = all_by_tvm(imported(tmp_path / "m.pt2", each, x), x.numpy())
    for name, ours, theirs in zip(functions, found, each(x), strict=True):
        torch.testing.assert_close(
            torch.from_numpy(ours), theirs, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_a_pools_own_divisor_with_windows_that_reach_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperator, match=r"which makes .avg_pool2d., has a divisor_override and ceil_mode"):
        imported(tmp_path / "m.pt2", lambda x: F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3), IMAGE)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: F.embedding_bag(torch.tensor([[1, 0]]), x[0, 0], mode="max"), "maxima"),
        (lambda x: x.index_put((x > 0,), x[0, 0, 0, :1].expand(60)), "a mask with a value for each place"),
    ],
)
def test_what_is_refused_says_so(tmp_path: Path, function: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(UnsupportedOperator, match=message):
        imported(tmp_path / "m.pt2", function, IMAGE)
