"""A compiled model in a user's process: arrays and PyTorch's tensors, however they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from effort import quick

from tunesmith.answers.models import TensorBody
from tunesmith.errors import InvalidInput
from tunesmith.sdk.library import Library
from workers.tvm_backend.build.linking import export_library
from workers.tvm_backend.warm import warm

warm("llvm")

from tvm import relax  # noqa: E402
from tvm.script import relax as script  # noqa: E402
from tvm.target import Target  # noqa: E402

pytestmark = pytest.mark.parallel
INPUTS = [TensorBody(name=name, dtype="float32", shape=[4, 8]) for name in "ab"]
X = torch.arange(32, dtype=torch.float32).reshape(4, 8)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Sum and product of two tensors."""
    path, block = tmp_path_factory.mktemp("library") / "model.so", relax.BlockBuilder()
    given = [relax.Var(each.name, script.Tensor(each.shape, each.dtype)) for each in INPUTS]
    with block.function("main", given):
        block.emit_func_output(block.emit(relax.Tuple([relax.op.add(*given), relax.op.multiply(*given)])))
    relax.build(block.get(), Target(quick())).export_library(str(path), fcompile=export_library)
    return Library(path, {"kind": "llvm"}, INPUTS)


@pytest.mark.parametrize(
    "other",
    [
        X + 1,
        (X + 1).requires_grad_(),
        torch.nn.Parameter(X + 1),
        (X.T.contiguous() + 1).T,
        torch.cat([torch.zeros(1), X.flatten() + 1])[1:].reshape(4, 8),
        torch._neg_view(-X - 1),
        X.numpy() + 1,
    ],
    ids=("as it is", "gradient", "parameter", "transposed", "misaligned", "negative view", "array"),
)
def test_tensors_are_taken_however_they_lie(library: Library, other: Any) -> None:
    total, product = library.run((X, other))
    assert (type(total), total.requires_grad) == (torch.Tensor, False)
    torch.testing.assert_close(total, 2 * X + 1)
    torch.testing.assert_close(product, X * (X + 1))


def test_arrays_make_arrays(library: Library) -> None:
    total, _ = library.run((X.numpy(), (X.numpy() + 1)[:, ::1]))
    assert isinstance(total, np.ndarray)
    np.testing.assert_array_equal(total, 2 * X.numpy() + 1)


@pytest.mark.parametrize("other", [X.double(), X[:3], X.to("meta")])
def test_another_tensor_is_refused_by_name(library: Library, other: torch.Tensor) -> None:
    with pytest.raises(InvalidInput, match="input 'b' is"):
        library.run((X, other))
