"""What PyTorch programs take: dimensions that are fixed when they are submitted, and arguments that are no tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import tvm
from one_operator import all_by_tvm, by_tvm
from run_once import machine
from torch import Tensor
from torch.export import Dim

from tunesmith.errors import InvalidInput
from workers.tvm_backend.frontends import import_model

pytestmark = pytest.mark.parallel

X = torch.arange(20.0).reshape(5, 4)


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, scale: float = 2.0, more: tuple[Tensor, ...] = ()
    ) -> Any:
        return self.function(x * scale, mask, *more)


def exported(
    path: Path, function: Callable[..., Any], *args: Any, dynamic: Mapping[str, Any] | None = None, **options: Any
) -> Path:
    torch.export.save(torch.export.export(Function(function), args, options, dynamic_shapes=dynamic), path)
    return path


def visible(x: Tensor) -> Tensor:
    at = torch.arange(x.shape[0])
    return x.T @ torch.where(at[None] <= at[:, None], x @ x.T, 0.0) / x.shape[0]


@pytest.mark.parametrize(
    "functions",
    [
        {
            "windows": lambda x: x.unfold(0, 2, 1),
            "columns": lambda x: x[:, [0, -1]] * math.pi,
            "rows": lambda x: x[[0, -1]],
            "mask": visible,
        },
        {
            "positions": lambda x: x + torch.arange(x.shape[0])[:, None],
            "halves": lambda x: x.reshape(x.shape[0] * 2, -1),
            "copies": lambda x: x.expand(3, -1, -1),
            "mean": lambda x: x.mean(0),
            "first": lambda x: x[: x.shape[0] // 2],
        },
    ],
    ids="-".join,
)
def test_a_dimension_is_fixed_when_the_model_is_submitted(
    tmp_path: Path, functions: dict[str, Callable[[Tensor], Tensor]]
) -> None:
    def each(x: Tensor, _: object) -> tuple[Tensor, ...]:
        return tuple(function(x) for function in functions.values())

    path = exported(tmp_path / "m.pt2", each, X[:4], dynamic={"x": {0: Dim("rows", min=4, max=9)}})
    found = all_by_tvm(import_model.import_model(path, "pt2", {"x": (5, 4)}), X.numpy())
    for name, ours, theirs in zip(functions, found, each(X * 2, None), strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("args", "options", "names"),
    [
        ((X, None), {"scale": 3.0}, ["x"]),
        ((X, X), {}, ["x", "mask"]),
        ((X, None), {"more": (X, X + 1)}, ["x", "more_0", "more_1"]),
    ],
)
@pytest.mark.parametrize("fixed", [True, False])
def test_arguments_that_are_no_tensors_are_what_they_were(
    tmp_path: Path, args: tuple[Any, ...], options: dict[str, Any], names: list[str], fixed: bool
) -> None:
    def total(x: Tensor, mask: Tensor | None, *more: Tensor) -> Tensor:
        return torch.stack([x, *([] if mask is None else [mask]), *more]).sum(0)

    dynamic = {"x": {0: Dim.AUTO}, "mask": None if args[1] is None else {0: Dim.AUTO}}
    dynamic |= {
        name: None if name == "scale" else tuple({0: Dim.AUTO} for _ in value) for name, value in options.items()
    }
    path = exported(tmp_path / "m.pt2", total, *args, dynamic=None if fixed else dynamic, **options)
    module = import_model.import_model(path, "pt2", {} if fixed else dict.fromkeys(names, (5, 4)))
    assert json.loads(str(module["main"].attrs["input_names"])) == names
    assert len(module["main"].params) == len(names)
    if len(names) == 1:
        torch.testing.assert_close(torch.from_numpy(by_tvm(module, X.numpy())), X * 3)


def test_shapes_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    path = exported(
        tmp_path / "m.pt2",
        lambda x, mask: x @ mask,
        X,
        X.T,
        dynamic={"x": {1: Dim("inner")}, "mask": {0: Dim("inner")}},
    )
    with pytest.raises(InvalidInput, match=r"'mask': the dimension .* is 6 elsewhere and 3 here") as caught:
        import_model.import_model(path, "pt2", {"x": (5, 6), "mask": (3, 5)})
    assert caught.value.field == "inputs"


def test_shapes_that_the_program_cannot_run_on_are_refused(tmp_path: Path) -> None:
    path = exported(
        tmp_path / "m.pt2", lambda x, _: x.reshape(-1, 2, 2), X[:4], dynamic={"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    )
    with pytest.raises(InvalidInput, match="torch cannot run the program on inputs of these shapes") as caught:
        import_model.import_model(path, "pt2", {"x": (5, 3)})
    assert caught.value.value == {"x": [5, 3]}


class Caching(torch.nn.Module):
    """Keeps what it was given, in a buffer that is saved and in one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(6, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)
        self.register_buffer("factor", torch.full((4,), 2.0), persistent=False)
        self.kept: Tensor
        self.count: Tensor
        self.factor: Tensor

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.kept.index_copy_(0, at, x * self.factor)
        self.count += 1
        return self.kept.sum(0) * self.count


def test_buffers_that_a_program_changes_are_inputs_and_outputs(tmp_path: Path) -> None:
    at = torch.tensor([3])
    torch.export.save(torch.export.export(Caching(), (X[:1], at)), tmp_path / "m.pt2")
    module = import_model.import_model(tmp_path / "m.pt2", "pt2")
    assert sorted(json.loads(str(module["main"].attrs["input_names"]))[2:]) == ["count", "kept"]
    names = json.loads(str(module["main"].attrs["input_names"]))[2:]
    main, net = machine(module)["main"], Caching()
    states = [getattr(net, name).clone() for name in names]
    for row in (1, 2):
        x = X[row : row + 1].contiguous()
        found, *states = (
            torch.from_numpy(each.numpy())
            for each in main(*(tvm.runtime.tensor(each.numpy()) for each in (x, at + row, *states)))
        )
        torch.testing.assert_close(found, net(x, at + row))
        for name, state in zip(names, states, strict=True):
            torch.testing.assert_close(state, getattr(net, name))
