"""PyTorch's operators that TVM's importer lacks, or takes for something else: how they are converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax

from workers.tvm_backend import torch_resize


def converters() -> Mapping[str, torch_resize.Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {**torch_resize.converters(), "amax.default": _reduced(relax.op.max), "amin.default": _reduced(relax.op.min),
            "prod.dim_int": _reduced(relax.op.prod)}


def _reduced(op: Callable[..., relax.Expr]) -> torch_resize.Convert:
    """Over the axes that are the second argument; over all where there are none."""

    def convert(node: Any, importer: Any) -> relax.Var:
        x, axes, keep = list(node.args) + [None] * (3 - len(node.args))
        return importer.block_builder.emit(op(importer.env[x], None if axes == [] else axes, keepdims=bool(keep)))

    return convert
