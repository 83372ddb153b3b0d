"""TVM's ONNX importer, except for operators that it would import as something else than ONNX says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, get_constant

from tunesmith.errors import ModelRejected, TunesmithError, first_line
from workers.tvm_backend.frontends import refusals, resize, sizes
from workers.tvm_backend.frontends.onnx import (
    boxes,
    casts,
    computed,
    contrib,
    grams,
    learning,
    loops,
    mel,
    old_opsets,
    operands,
    optimizers,
    recurrent,
    sequences,
    shapes,
    special,
    windows,
)
from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.refusals import unsupported

SAME = (b"SAME_UPPER", b"SAME_LOWER")
CONSTANTS = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
"""What TVM's importer does not take besides a whole tensor, by the attribute."""
DROPOUT_INFERS, DROPOUT_OF_TRUTH = 7, 10
"""First opset whose ``Dropout`` has no training unless it says so, and first one whose mask is of truth values."""
OWN: Sequence[Mapping[str, computed.Convert]] = (
    computed.CONVERTED,
    casts.CONVERTED,
    special.CONVERTED,
    boxes.CONVERTED,
    windows.CONVERTED,
    loops.CONVERTED,
    sequences.CONVERTED,
    learning.CONVERTED,
    mel.CONVERTED,
    optimizers.CONVERTED,
    contrib.CONVERTED,
    grams.CONVERTED,
)
"""Converters by operator, tried in order; one that returns None leaves the operator to the next, or to TVM."""


class Importer(ONNXGraphImporter):  # type: ignore[misc]
    """Raises UnsupportedOperator for what neither TVM nor this imports rightly."""

    _nodes: dict[str, Any]

    def __init__(self, shapes: dict[str, list[int]], declared: Mapping[str, Sequence[int]]) -> None:
        """``shapes``: of inputs, by name; ``declared``: of what operators make, as far as the file says."""
        super().__init__(shapes, "float32")
        self.declared = declared
        self.results: Sequence[str] = ()

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """The reader has checked them, before anything else."""

    def _construct_nodes(self, graph: Any) -> None:
        """Convert operators in order, so that each refusal says where its operator is."""
        for node in graph.node:
            self.results = node.output
            with refusals.at(operands.label(node)):
                if node.op_type == "Identity":
                    self._nodes[node.output[0]] = self._nodes[node.input[0]]
                elif node.op_type != "If" or not self._take_branch(node):
                    super()._construct_nodes(SimpleNamespace(node=[node]))
                if node.op_type in loops.CONVERTED and len(node.output) == 1:
                    self._nodes[node.output[0]] = self._nodes[node.output[0]][0]  # which may be a sequence

    def _take_branch(self, node: Any) -> bool:
        """Convert the one branch of an ``If`` whose condition is known; False where it is not."""
        condition = get_constant(self._nodes[node.input[0]], [self._nodes, self._params])
        if not isinstance(condition, GenericConst):
            return False
        taken = "then_branch" if condition.value.numpy().all() else "else_branch"
        (graph,) = (each.g for each in node.attribute if each.name == taken)
        self._nodes.update(zip(node.output, self.branch(graph, {}), strict=True))
        return True

    def _convert_subgraph(self, bb: relax.BlockBuilder, graph: Any) -> relax.Expr:
        """The results of a branch, which sees the values around it."""
        found = self.branch(graph, {})
        if not all(isinstance(each, relax.Expr) for each in found):
            raise unsupported(
                "If", "a branch that makes no value (an empty optional)", "export it with a value in both"
            )
        return found[0] if len(found) == 1 else relax.Tuple(found)

    def branch(self, graph: Any, inputs: Mapping[str, Any]) -> list[relax.Expr]:
        """What a graph inside of an operator makes of its inputs and of the values around it."""
        outer, results = self._nodes, self.results
        self._nodes = {**outer, **inputs}
        try:
            self._parse_graph_initializers(graph)
            self._construct_nodes(graph)
            return [self._nodes[value.name] for value in graph.output]
        finally:
            self._nodes, self.results = outer, results

    @property
    def shape(self) -> Sequence[int] | None:
        """The declared shape of what is converted."""
        return self.declared.get(self.results[0]) if self.results else None

    def _convert_operator(self, op_name: str, inputs: list[Any], attrs: Attributes, opset: int) -> relax.Expr:
        try:
            return self._checked(op_name, inputs, attrs, opset)
        except TunesmithError:
            raise
        except Exception as error:
            raise ModelRejected(
                f"{refusals.place_or(op_name)} cannot be imported ({first_line(error)}); "
                "export the model without it, or with constant operands",
                field="file",
            ) from error

    def _checked(self, op_name: str, inputs: list[Any], attrs: Attributes, opset: int) -> relax.Expr:
        inputs, attrs, opset = old_opsets.modern(op_name, inputs, attrs, opset)
        found = shapes.folded(op_name, inputs, attrs, opset)
        if found is None and op_name == "Shape":
            found = shapes.shape_of(inputs[0], attrs)
        if found is None:
            found = self._converted(op_name, inputs, attrs, opset)
        if not isinstance(found, relax.Expr):
            return found
        found = self.bb.normalize(found)  # the next operator may ask for its type
        sizes.check_type(f"a result of {op_name}", found.ty)
        return found

    def _converted(self, op_name: str, inputs: list[Any], attrs: Attributes, opset: int) -> relax.Expr:
        for table in OWN:
            found = table[op_name](self, inputs, attrs, opset) if op_name in table else None
            if found is not None:
                return found
        if op_name in {"Resize", "Upsample"}:
            op_name, (inputs, attrs) = "Resize", resize.modern(op_name, inputs, attrs, opset)
            found = resize.by_products(self.bb, inputs, attrs, [self._nodes, self._params])
            if found is not None:
                return found
        elif op_name == "MaxPool":
            if attrs.get("auto_pad") in SAME:
                attrs = _padded_pool(_spatial(inputs[0]), attrs)
            if attrs["tvm_custom"]["num_outputs"] > 1:
                return windows.with_places(self, inputs, attrs, opset)
        elif op_name == "ConvTranspose" and "output_shape" in attrs:
            return self._transposed(inputs, attrs, opset)
        elif op_name == "Constant" and (kinds := CONSTANTS.keys() & attrs.keys()):
            (kind,) = kinds
            return relax.const(np.array(attrs[kind], CONSTANTS[kind]), CONSTANTS[kind])  # else int32
        elif op_name in recurrent.CELLS:
            return recurrent.converted(self.bb, op_name, inputs, attrs, [self._nodes, self._params])
        elif op_name == "InstanceNormalization":
            # TVM makes it of six operators; as one it has a rule.
            axes = list(range(2, inputs[0].ty.ndim))
            return relax.op.nn.instance_norm(*inputs, channel_axis=1, axes=axes, epsilon=attrs.get("epsilon", 1e-5))
        elif op_name == "LayerNormalization" and attrs["tvm_custom"]["num_outputs"] > 1:
            # TVM has zeros for the other results.
            x, gamma, beta = [*inputs, None][:3]
            return relax.Tuple(
                contrib.normalised(self.bb.emit, x, gamma, beta, attrs.get("axis", -1), attrs.get("epsilon", 1e-5))
            )
        elif op_name == "Dropout":
            return _dropout(inputs, attrs, opset, [self._nodes, self._params])
        elif op_name == "Clip":
            return _bounded(self.bb.emit, inputs, attrs, [self._nodes, self._params])
        elif op_name == "OneHot":
            return _one_hot(self.bb.emit, inputs, attrs, [self._nodes, self._params])
        elif op_name == "Pow":
            return _power(self.bb.emit, *inputs)
        elif op_name == "DynamicQuantizeLinear":
            return _quantized(inputs[0])
        return self.by_tvm(op_name, inputs, attrs, opset)

    def _transposed(self, inputs: list[Any], attrs: Attributes, opset: int) -> relax.Expr:
        """A convolution of a given size: behind what the input makes is the bias alone, as in onnxruntime."""
        emit, name, (x, weight, bias) = self.bb.emit, "ConvTranspose", [*inputs, None][:3]
        attrs, rest = _padded_transpose(_spatial(x), _spatial(weight), attrs)
        if not any(rest):
            return self.by_tvm(name, inputs, attrs, opset)
        found = emit(self.by_tvm(name, type(inputs)([x, weight]), attrs, opset))
        found = emit(relax.op.nn.pad(found, [0] * 4 + [width for each in rest for width in (0, each)]))
        if bias is None:
            return found
        return relax.op.add(found, emit(relax.op.reshape(bias, [-1, *[1] * len(rest)])))

    def by_tvm(self, op_name: str, inputs: list[Any], attrs: Attributes, opset: int) -> relax.Expr:
        """What TVM's importer makes of an operator."""
        return super()._convert_operator(op_name, inputs, attrs, opset)


def _dropout(inputs: list[Any], attrs: Attributes, opset: int, params: list[Any]) -> relax.Expr:
    """The identity and a mask of what is kept, which is all; training is refused."""
    training = get_constant(inputs[2], params) if len(inputs) > 2 and inputs[2] is not None else None
    if training is not None and not (isinstance(training, GenericConst) and not training.value.numpy().any()):
        raise unsupported("Dropout", "training_mode")
    if opset < DROPOUT_INFERS and not attrs.get("is_test", 0):
        raise unsupported("Dropout", "is_test 0, which is training")
    if attrs["tvm_custom"]["num_outputs"] == 1:
        return inputs[0]
    kind = "bool" if opset >= DROPOUT_OF_TRUTH else inputs[0].ty.dtype
    return relax.Tuple([inputs[0], relax.op.ones(inputs[0].ty.shape, kind)])


def _bounded(
    emit: Callable[[relax.Expr], relax.Expr], inputs: list[Any], attrs: Attributes, params: list[Any]
) -> relax.Expr:
    """As operators that keep NaN: TVM lowers maxima and minima at once. A bound that is NaN is none."""
    x, *bounds = [*inputs, None, None][:3]
    kind = str(x.ty.dtype)
    for at, (name, choose) in enumerate((("min", relax.op.maximum), ("max", relax.op.minimum))):
        bound = relax.const(attrs[name], kind) if name in attrs else bounds[at]
        if bound is None:
            continue
        known = get_constant(bound, params)
        if isinstance(known, GenericConst):
            if np.isnan(known.value.numpy().astype("float64")).any():
                continue
            bound = known
        elif kind.startswith(("float", "bfloat")):
            none = relax.const(-np.inf if name == "min" else np.inf, kind)
            bound = emit(relax.op.where(emit(special.is_nan(emit, bound)), none, bound))
        x = emit(choose(x, bound))
    return x


def _one_hot(
    emit: Callable[[relax.Expr], relax.Expr], inputs: list[Any], attrs: Attributes, params: list[Any]
) -> relax.Expr:
    """TVM takes two values of one type alone, and counts no index from the end."""
    depth = get_constant(inputs[1], params)
    if not isinstance(depth, GenericConst):
        raise unsupported("OneHot", "a depth that is computed")
    many, rank = int(depth.value.numpy().item()), inputs[0].ty.ndim + 1
    axis = attrs.get("axis", -1) % rank
    index = emit(relax.op.astype(inputs[0], "int64"))
    zero, number = relax.const(0, "int64"), relax.const(many, "int64")
    index = emit(relax.op.where(relax.op.less(index, zero), relax.op.add(index, number), index))
    places = np.arange(many, dtype=np.int64).reshape([many if at == axis else 1 for at in range(rank)])
    off, on = (
        emit(relax.op.reshape(relax.op.strided_slice(inputs[2], axes=[0], begin=[at], end=[at + 1]), [1] * rank))
        for at in (0, 1)
    )
    return relax.op.where(relax.op.equal(relax.op.expand_dims(index, axis), relax.const(places, "int64")), on, off)


def _quantized(x: relax.Expr) -> relax.Tuple:
    """As ``DynamicQuantizeLinear``; TVM's scale of a tensor of zeros is 0, by which it divides."""
    zero, steps = relax.const(0.0, "float32"), relax.const(255.0, "float32")
    low, high = relax.op.minimum(relax.op.min(x), zero), relax.op.maximum(relax.op.max(x), zero)
    step = relax.op.divide(relax.op.subtract(high, low), steps)
    scale = relax.op.where(relax.op.greater(step, zero), step, relax.const(1.0, "float32"))
    origin = relax.op.clip(relax.op.round(relax.op.divide(relax.op.negative(low), scale)), 0.0, 255.0)
    point = relax.op.astype(origin, "uint8")
    return relax.Tuple([relax.op.quantize(x, scale, point, axis=0, out_dtype="uint8"), scale, point])


def _power(emit: Callable[[relax.Expr], relax.Expr], x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """In the type of the base, and of whole numbers by way of floating-point ones: TVM takes two of one such type."""
    kind = str(x.ty.dtype)
    wide = kind if kind.startswith("float") else "float64"
    x, y = (each if str(each.ty.dtype) == wide else emit(relax.op.astype(each, wide)) for each in (x, y))
    found = emit(relax.op.power(x, y))
    return found if wide == kind else emit(relax.op.astype(emit(relax.op.round(found)), kind))


def _spatial(x: Any) -> list[int]:
    return [int(extent) for extent in x.ty.shape][2:]


def _padded_pool(shape: Sequence[int], attrs: Attributes) -> Attributes:
    """With the padding written out: TVM takes a size too little where it stands before."""
    kernel = _spans(attrs["kernel_shape"], attrs)
    strides = attrs.get("strides", [1] * len(shape))
    total = [
        max((-(-extent // stride) - 1) * stride + span - extent, 0)
        for extent, stride, span in zip(shape, strides, kernel, strict=True)
    ]
    return _with_pads(attrs, total)


def _padded_transpose(
    shape: Sequence[int], kernel: Sequence[int], attrs: Attributes
) -> tuple[Attributes, Sequence[int]]:
    """With the padding that makes ``output_shape``, which TVM passes over; and how much is missing behind each axis."""
    ones = [1] * len(shape)
    strides, more = attrs.get("strides", ones), attrs.get("output_padding", [0 for _ in shape])
    total = [
        stride * (extent - 1) + extra + span - wanted
        for stride, extent, extra, span, wanted in zip(
            strides, shape, more, _spans(kernel, attrs), attrs["output_shape"][-len(shape) :], strict=True
        )
    ]
    rest = [max(-each, 0) for each in total]
    if any(each >= stride for each, stride in zip(rest, strides, strict=True)):
        raise unsupported(
            "ConvTranspose",
            f"an output_shape of {list(attrs['output_shape'])}, a stride or more beyond what its input makes",
            "export it with pads and output_padding instead",
        )
    return _with_pads(attrs, [max(each, 0) for each in total]), rest


def _spans(kernel: Sequence[int], attrs: Attributes) -> list[int]:
    """How far each axis of a window reaches."""
    dilations = attrs.get("dilations", [1] * len(kernel))
    return [(extent - 1) * dilation + 1 for extent, dilation in zip(kernel, dilations, strict=True)]


def _with_pads(attrs: Attributes, total: Sequence[int]) -> Attributes:
    """The larger half of each axis' padding stands behind with ``SAME_UPPER``, else before."""
    less = [each // 2 for each in total]
    more = [each - half for each, half in zip(total, less, strict=True)]
    pads = [*less, *more] if attrs.get("auto_pad") == SAME[0] else [*more, *less]
    return {**{name: value for name, value in attrs.items() if name not in {"auto_pad", "output_shape"}}, "pads": pads}
