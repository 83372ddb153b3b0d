"""PyTorch programs whose meaning is easily lost: right as PyTorch is, or refused by the operator's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import tvm
from effort import quick
from torch import Tensor
from torch_function import Function
from tvm import relax

from tools.linked import linked
from tunesmith.errors import UnsupportedOperator
from tunesmith.preparation import for_target
from workers.tvm_backend import tir
from workers.tvm_backend.export import script
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline

pytestmark = pytest.mark.parallel


def imported(path: Path, function: Callable[[Tensor], Any], x: Tensor) -> tvm.IRModule:
    torch.export.save(torch.export.export(Function(function), (x,)), path)
    return import_model.import_model(path, "pt2")


def compiled(module: tvm.IRModule, x: Tensor, folder: Path) -> list[np.ndarray]:
    """What the prepared model makes of an input, with default schedules."""
    prepared = pipeline.prepare(module, for_target("llvm", operator=False))
    steps, target = script(), tvm.target.Target(quick({"kind": "llvm"}))
    pipeline.save_params(prepared.params, folder / "params.npz")
    mod, _, _ = steps.apply_schedules(tir.load_module(prepared.module), target, None)
    library = linked(steps.build(steps.bind_params(mod, folder / "params.npz"), target))
    machine: Any = relax.VirtualMachine(library, tvm.cpu())
    found = machine["main"](tvm.runtime.from_dlpack(x))
    return [each.numpy().astype("float64") for each in ([found] if hasattr(found, "numpy") else found)]


def wide(x: Tensor) -> np.ndarray:
    return x.detach().double().numpy()


R = torch.Generator().manual_seed(0)
M = torch.randn(8, 32, generator=R)
HOLES = torch.where(torch.arange(256).reshape(8, 32) % 7 == 3, torch.nan, M)
RIGHT: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "adaptive": (lambda x: F.adaptive_max_pool2d(x[None, None], 3, return_indices=True), M),
    "sorted": (
        lambda x: (
            x.sort(dim=1, stable=True),
            x.sort(dim=0, descending=True, stable=True),
            x.topk(3)[0],
            x.argmax(1),
            x.argmin(),
            x.cummax(1),
            x.median(1),
            F.max_pool2d(x[None, None], 3, 2, 1),
        ),
        HOLES,
    ),
    "curves": (lambda x: (x.sinh(), x.cosh(), x.expm1(), x.log1p(), x.erfc(), x.lgamma()), M),
}
REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "rand_like": (lambda x: x + torch.rand_like(x), "draws random numbers: aten.rand"),
    "dropout": (lambda x: F.dropout(x, 0.5, training=True), "draws random numbers: aten.native_dropout"),
    "multinomial": (lambda x: x.abs().multinomial(2), "draws random numbers: aten.multinomial"),
    "nonzero": (lambda x: x.nonzero(), "aten.nonzero.default makes 'nonzero', whose extents depend"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(tmp_path: Path, name: str) -> None:
    function, x = RIGHT[name]
    expected = torch.utils._pytree.tree_leaves(function(x))
    flat = imported(tmp_path / "net.pt2", lambda x: tuple(torch.utils._pytree.tree_leaves(function(x))), x)
    for ours, theirs in zip(compiled(flat, x, tmp_path), map(wide, expected), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(tmp_path: Path, name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(UnsupportedOperator, match=reason):
        imported(tmp_path / "net.pt2", function, M)
