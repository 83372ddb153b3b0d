"""Operator specs as Relax functions of one operator."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tvm
from tvm import relax, topi
from tvm.relax import op

from tunesmith.errors import InvalidOperator, PrecisionUnavailable
from tunesmith.names import FLOAT32, INT8
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
CODE_OF_ZERO, INPUT_STEP, OUTPUT_STEP = 128, 2.0**-6, 2.0**-5
"""Quantisation of an operator in int8: both sides spread over most of their codes."""
LARGEST_WEIGHT = 127


def operator_module(spec: OperatorSpec) -> tvm.IRModule:
    """A module whose ``main`` takes the operator's tensors in the order of the spec.

    Weights are among them, unless the precision is a narrow one: then they are constants, drawn at random.
    """
    return _module({"": spec})


def _module(specs: Mapping[str, OperatorSpec]) -> tvm.IRModule:
    """A module whose ``main`` computes each of the operators from tensors of its own, whose names begin as its key."""
    args: dict[str, relax.Var] = {}
    for lead, spec in specs.items():
        taken = [t for t in spec.inputs if t.name not in _constants(spec)]
        args |= {f"{lead}{t.name}": relax.Var(f"{lead}{t.name}", relax.TensorType(t.shape, t.dtype)) for t in taken}
    builder = relax.BlockBuilder()
    with builder.function("main", list(args.values())):
        with builder.dataflow():
            results = [_result(builder, spec, args, lead) for lead, spec in specs.items()]
            out = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(out)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("num_input", len(args)).with_attr("input_names", json.dumps(list(args)))
    return mod


def _constants(spec: OperatorSpec) -> frozenset[str]:
    """The tensors that are no arguments."""
    return spec.weights if spec.precision != FLOAT32 else frozenset()


def _result(builder: relax.BlockBuilder, spec: OperatorSpec, args: Mapping[str, relax.Var], lead: str) -> relax.Expr:
    build = PACKED.get(spec.kind, BUILD[spec.kind]) if spec.precision != FLOAT32 else BUILD[spec.kind]
    fixed = _constants(spec)
    taken = [drawn(spec, t) if t.name in fixed else args[f"{lead}{t.name}"] for t in spec.inputs]
    if spec.precision == INT8:
        out = build(spec, [_decoded(x) if isinstance(x, relax.Var) else x for x in taken])
        return builder.normalize(_encoded(out))
    return builder.normalize(build(spec, taken))


def prepare_operator(spec: OperatorSpec, preparation: Preparation) -> pipeline.Prepared:
    """A single operator, prepared.

    Raises:
        InvalidOperator: it has a narrow type, and nothing of it would be computed so.
        ModelRejected: see ``pipeline.prepare``.
    """
    try:
        made = pipeline.prepare(operator_module(spec), preparation)
        wide = made.note != "" and spec.precision != FLOAT32
    except PrecisionUnavailable:
        wide = True
    if wide:
        odd = "a reduction that is no multiple of four" if spec.precision == INT8 else "an odd reduction"
        raise InvalidOperator(
            f"{spec.canonical} would be computed in float32, for it has {odd}, columns that fill no register, or too "
            "little work for a conversion: write its type as float32",
            field="operator",
            value=spec.canonical,
        )
    return made


def prepare_operators(specs: Sequence[OperatorSpec], preparation: Preparation) -> pipeline.Prepared:
    """Several operators of one precision as one module. What is not worth its narrow type is computed in float32.

    Raises:
        ModelRejected: see ``pipeline.prepare``.
    """
    return pipeline.prepare(_module({f"o{place}_": spec for place, spec in enumerate(specs)}), preparation)


def _decoded(x: relax.Var) -> relax.Expr:
    """What the codes of an operator's input stand for."""
    step, zero = relax.const(INPUT_STEP, "float32"), relax.const(CODE_OF_ZERO, "uint8")
    return relax.BlockBuilder.current().emit(op.dequantize(x, step, zero, axis=-1))


def _encoded(out: relax.Expr) -> relax.Expr:
    """The codes of an operator's output."""
    step, zero = relax.const(OUTPUT_STEP, "float32"), relax.const(CODE_OF_ZERO, "uint8")
    return op.quantize(relax.BlockBuilder.current().emit(out), step, zero, axis=-1, out_dtype="uint8")


def drawn(spec: OperatorSpec, tensor: TensorSpec) -> relax.Constant:
    """Weights of which a product is about as large as its input; in int8, whole numbers times a scale by channel."""
    terms = tensor.shape[0] if tensor.name == "b" else math.prod(tensor.shape[1:])
    values = np.random.default_rng(0).standard_normal(tensor.shape, dtype=np.float32) / np.float32(math.sqrt(terms))
    if spec.precision == INT8:
        summed = 0 if tensor.name == "b" else tuple(range(1, values.ndim))
        step = np.abs(values).max(axis=summed, keepdims=True) / np.float32(LARGEST_WEIGHT)
        values = np.rint(values / step) * step
    return relax.const(values, "float32")
