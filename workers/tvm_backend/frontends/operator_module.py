"""Operator specs as Relax functions of one operator."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping

import numpy as np
import tvm
from tvm import relax, topi
from tvm.relax import op

from tunesmith.errors import InvalidOperator
from tunesmith.names import FLOAT32
from tunesmith.operators import OperatorSpec
from tunesmith.preparation import Preparation
from tunesmith.types import TensorSpec
from workers.tvm_backend.passes import pipeline

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


PACKED: Mapping[str, Build] = {"dense": lambda spec, args: op.matmul(args[0], op.permute_dims(args[1]))}
"""The same where weights are constants, which are packed."""


def operator_module(spec: OperatorSpec) -> tvm.IRModule:
    """A module whose ``main`` takes the operator's tensors in the order of the spec.

    Weights are among them, unless the precision is a narrow one: then they are constants, drawn at random.
    """
    narrow = spec.precision != FLOAT32
    constants = {t.name: _drawn(t) for t in spec.inputs if narrow and t.name in spec.weights}
    taken = [t for t in spec.inputs if t.name not in constants]
    args = {t.name: relax.Var(t.name, relax.TensorType(t.shape, t.dtype)) for t in taken}
    build = PACKED.get(spec.kind, BUILD[spec.kind]) if narrow else BUILD[spec.kind]
    builder = relax.BlockBuilder()
    with builder.function("main", list(args.values())):
        with builder.dataflow():
            out = build(spec, [(constants | args)[t.name] for t in spec.inputs])
            out = builder.emit_output(builder.normalize(out))
        builder.emit_func_output(out)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("num_input", len(args)).with_attr("input_names", json.dumps(list(args)))
    return mod


def prepare_operator(spec: OperatorSpec, preparation: Preparation) -> pipeline.Prepared:
    """A single operator, prepared.

    Raises:
        InvalidOperator: it has a narrow type, and nothing of it would be computed so.
        ModelRejected: see ``pipeline.prepare``.
    """
    made = pipeline.prepare(operator_module(spec), preparation)
    if spec.precision != FLOAT32 and made.note:
        raise InvalidOperator(
            f"{spec.canonical} would be computed in float32, for it has an odd reduction, columns that fill no "
            "register, or too little work for a conversion: write its type as float32",
            field="operator",
            value=spec.canonical,
        )
    return made


def _drawn(tensor: TensorSpec) -> relax.Constant:
    """Weights of which a product is about as large as its input."""
    terms = tensor.shape[0] if tensor.name == "b" else math.prod(tensor.shape[1:])
    values = np.random.default_rng(0).standard_normal(tensor.shape, dtype=np.float32)
    return relax.const(values / np.float32(math.sqrt(terms)), tensor.dtype)
