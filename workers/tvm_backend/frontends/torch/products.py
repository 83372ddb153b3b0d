"""PyTorch's products and convolutions in the type of their result: TVM's importer makes float32 of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from workers.tvm_backend.frontends.torch.resize import Convert


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        **dict.fromkeys(("mm.default", "bmm.default", "matmul.default"), _product),
        **dict.fromkeys(("addmm.default", "baddbmm.default"), _sum_of_product),
        "convolution.default": _convolution,
    }


def _product(node: Any, importer: Any) -> relax.Var:
    return importer.block_builder.emit(relax.op.matmul(*(importer.env[arg] for arg in node.args[:2])))


def _sum_of_product(node: Any, importer: Any) -> relax.Var:
    """``beta`` times a tensor, and ``alpha`` times a product; a factor of 0 leaves out what it multiplies."""
    emit, kind = importer.block_builder.emit, str(node.meta["val"].dtype).removeprefix("torch.")
    alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
    bias, one, other = (importer.env[arg] for arg in node.args[:3])

    def times(x: relax.Expr, factor: float) -> relax.Expr:
        return x if factor == 1 else emit(relax.op.multiply(x, relax.const(factor, kind)))

    product = times(emit(relax.op.matmul(one, other)), alpha)
    return product if beta == 0 else emit(relax.op.add(times(bias, beta), product))


def _convolution(node: Any, importer: Any) -> relax.Var:
    x, weight, bias, strides, padding, dilation, transposed, more, groups = node.args
    count, emit = len(strides), importer.block_builder.emit
    steps = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    name = f"conv{count}d" + ("_transpose" if transposed else "")
    if transposed:
        steps["output_padding"] = more
    data, single = importer.env[x], importer.env[x].ty.ndim == count + 1
    data = emit(relax.op.expand_dims(data, 0)) if single else data
    found = emit(getattr(relax.op.nn, name)(data, importer.env[weight], **steps))
    if bias is not None:
        found = emit(relax.op.add(found, emit(relax.op.reshape(importer.env[bias], [1, -1] + [1] * count))))
    return emit(relax.op.squeeze(found, [0])) if single else found
