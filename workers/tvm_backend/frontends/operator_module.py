"""Operator specs as Relax functions of one operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import tvm
from tvm import relax, topi
from tvm.relax import op

from tunesmith.operators import OperatorSpec

Build = Callable[[OperatorSpec, list[relax.Var]], relax.Expr]


def _conv2d(spec: OperatorSpec, args: list[relax.Var]) -> relax.Expr:
    groups = spec.dims[1] if spec.kind == "depthwise" else 1
    return op.nn.conv2d(args[0], args[1], strides=spec.stride, padding=spec.padding, groups=groups)


def _dense(spec: OperatorSpec, args: list[relax.Var]) -> relax.Expr:
    # One program, where a transpose and a product would be two.
    return relax.BlockBuilder.current().call_te(topi.nn.dense, args[0], args[1], primfunc_name_hint="dense")


BUILD: Mapping[str, Build] = {
    "gemm": lambda spec, args: op.matmul(args[0], args[1]),
    "bmm": lambda spec, args: op.matmul(args[0], args[1]),
    "dense": _dense,
    "conv2d": _conv2d,
    "depthwise": _conv2d,
    "softmax": lambda spec, args: op.nn.softmax(args[0], axis=-1),
    "layernorm": lambda spec, args: op.nn.layer_norm(args[0], args[1], args[2], axes=[-1]),
}


def operator_module(spec: OperatorSpec) -> tvm.IRModule:
    """A module whose ``main`` takes the operator's tensors in the order of the spec, weights included."""
    args = [relax.Var(t.name, relax.TensorType(t.shape, t.dtype)) for t in spec.inputs]
    builder = relax.BlockBuilder()
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(BUILD[spec.kind](spec, args)))
        builder.emit_func_output(out)
    mod = builder.get()
    names = json.dumps([t.name for t in spec.inputs])
    mod["main"] = mod["main"].with_attr("num_input", len(args)).with_attr("input_names", names)
    return mod
