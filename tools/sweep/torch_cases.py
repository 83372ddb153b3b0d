"""PyTorch's own samples of its operators, exported with every tensor kept an input."""

from __future__ import annotations

import importlib
import io
import itertools
import random
import sys
import types
import unittest
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tools.sweep.base import APART, Case, CaseOutcome
from tunesmith.errors import first_line
from workers.tvm_backend.frontends.torch import refuse

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "bool")
"""Types of samples: the first that an operator has, or those that are parts of the names wanted."""
DRAWN = 40
"""How many samples of an operator and a type one is drawn from, by the operator's name.

Those without elements are left out where there are others.
"""
ELEMENTS = 1 << 20
"""Most elements of a sample's inputs."""
TOLERANCES = {"float16": (2e-2, 2e-3), "bfloat16": (5e-2, 2e-2)}
"""Relative and absolute tolerances of types that round coarsely."""
ROUNDING = 1e-6
"""What sums may lose, as a share of the largest number of a result."""
UNDEFINED = ("empty", "empty_like", "new_empty", "empty_permuted", "empty_strided", "new_empty_strided")
"""Operators whose results have no defined values."""


def cases(parts: Sequence[str] = ()) -> Iterator[Case | CaseOutcome]:
    """Samples whose names contain one of the ``parts``; those of the first type of all operators without ``parts``.

    Args:
        parts: parts of names, which are ``operator.variant_type``.

    Yields:
        Cases; outcomes of the kind ``APART`` for samples that are none: torch.export refuses them, they draw random
        numbers, or nothing that they return is a tensor.
    """
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)  # a fork has none of the other threads
    wanted = [kind for kind in TYPES if any(kind in part for part in parts)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in _database():
            name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
            kinds = [kind for kind in TYPES if getattr(torch, kind) in info.dtypes]
            for kind in [each for each in kinds if each in wanted] if wanted else kinds[:1]:
                if not parts or any(part in f"{name}_{kind}" for part in parts):
                    yield _of_operator(torch, info, name, kind)


def _database() -> Any:
    """PyTorch's operators with samples; its base class of tests, of a package of its own, is of no use here."""
    if "expecttest" not in sys.modules:
        module: Any = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase
        sys.modules["expecttest"] = module
    return importlib.import_module("torch.testing._internal.common_methods_invocations").op_db


def _of_operator(torch: Any, info: Any, name: str, kind: str) -> Case | CaseOutcome:
    torch.manual_seed(0)
    full = f"{name}_{kind}"
    if info.name in UNDEFINED:
        return CaseOutcome(full, name, APART, "its values are not defined")
    try:
        found = list(itertools.islice(info.sample_inputs("cpu", getattr(torch, kind), requires_grad=False), DRAWN))
        small = [each for each in found if _size(torch, each) <= ELEMENTS]
        sample = random.Random(name).choice([each for each in small if _size(torch, each)] or small)
        return _case(torch, info, full, name, sample, TOLERANCES.get(kind, (1e-3, 1e-5)))
    except Exception as error:
        # torch.export raises whatever an operator happens to raise.
        return CaseOutcome(full, name, APART, first_line(error))


def _size(torch: Any, sample: Any) -> int:
    leaves = torch.utils._pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(each.numel() for each in leaves if isinstance(each, torch.Tensor))


def _case(torch: Any, info: Any, full: str, name: str, sample: Any, tolerances: tuple[float, float]) -> Case:
    """Export a sample.

    Raises:
        ValueError: it is no case.
    """
    tree, (relative, absolute) = torch.utils._pytree, tolerances
    leaves, spec = tree.tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = tuple(_plain(each) for each in leaves if isinstance(each, torch.Tensor))

    class Called(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *given: Any) -> Any:
            left = iter(given)
            first, args, kwargs = tree.tree_unflatten(
                [next(left) if isinstance(each, torch.Tensor) else each for each in leaves], spec
            )
            made = tree.tree_leaves(sample.output_process_fn_grad(info.op(first, *args, **kwargs)))
            return tuple(each for each in made if isinstance(each, torch.Tensor))

    expected = [_plain(each) for each in Called()(*(each.clone() for each in tensors))]
    if not expected:
        raise ValueError("it returns no tensor")
    program, file = torch.export.export(Called(), tensors), io.BytesIO()
    if any(map(refuse.is_random, program.graph.nodes)):
        raise ValueError("it draws random numbers")
    torch.export.save(program, file)
    return Case(
        full,
        name,
        "pt2",
        file.getvalue(),
        tuple(map(_array, tensors)),
        tuple(map(_array, expected)),
        (),
        relative,
        max([absolute, *(ROUNDING * _largest(torch, each) for each in expected)]),
    )


def _largest(torch: Any, tensor: Any) -> float:
    """The size of the largest finite number."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return 0.0
    return float(torch.where(torch.isfinite(tensor), tensor, 0.0).abs().max())


def _plain(tensor: Any) -> Any:
    """A tensor as a caller gives it: its elements in order, with no operation put off."""
    return tensor.detach().resolve_conj().resolve_neg().to_dense().contiguous()


def _array(tensor: Any) -> NDArray[Any]:
    torch = importlib.import_module("torch")
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())
