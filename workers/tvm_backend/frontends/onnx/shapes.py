"""Arithmetic on shapes and other small constants, done while a model is imported.

All inputs have fixed shapes. TVM's importer keeps a shape as something of its own, which few of its operators take, and
leaves some operators on constants in the program, after which shapes that are made of them are known at run time only.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from tvm import relax

from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.onnx import tensors

LARGEST = 1 << 16
"""Elements of what is computed here, operands and result together: weights are folded later."""
BOUNDED = frozenset({"Compress", "NonZero", "NonMaxSuppression", "Unique", "Slice", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose results are no larger than their operands, and not inferred where they depend on data."""
DRAWN = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike"})
"""Operators that have another result each time."""


def shape_of(x: relax.Expr, attrs: Mapping[str, Any]) -> relax.Expr | None:
    """ONNX's ``Shape`` as a constant; None where an extent is not known."""
    if not isinstance(x.ty, relax.TensorType) or not isinstance(x.ty.shape, relax.ShapeExpr):
        return None
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in x.ty.shape):
        return None
    extents = [int(extent) for extent in x.ty.shape][attrs.get("start", 0) : attrs.get("end")]
    return relax.const(np.array(extents, np.int64), "int64")


def folded(name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], opset: int) -> relax.Expr | None:
    """What an operator makes of small constants, by ONNX's reference; None where it is not such a one.

    Raises:
        ModelRejected: constants that the operator unfolds to more than is accepted.
    """
    own = attrs["tvm_custom"]
    given = [x for x in inputs if x is not None]
    if name in DRAWN or not given or not all(isinstance(x, tvm.ir.GenericConst) for x in given):
        return None
    arrays = {f"x{at}": x.value for at, x in enumerate(inputs) if x is not None}
    node = onnx.helper.make_node(
        name,
        [f"x{at}" if x is not None else "" for at, x in enumerate(inputs)],
        [f"y{at}" for at in range(own["num_outputs"])],
        **{key: value for key, value in attrs.items() if value is not own},
    )
    model = _model(node, arrays, opset)
    if model is None or not _is_small(model, name, arrays):
        return None
    found = by_reference(model, {})
    if found is None or not all(_usual(each) for each in found):
        return None
    made = [relax.const(np.asarray(each), str(each.dtype)) for each in found]
    return made[0] if len(made) == 1 else relax.Tuple(made)


def by_reference(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> list[Any] | None:
    """Results by ONNX's reference; None for an operator or an attribute that it lacks and TVM's importer may have."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(ReferenceEvaluator(model).run(None, dict(inputs)))
    except Exception:
        return None


def _model(node: onnx.NodeProto, arrays: Mapping[str, Any], opset: int) -> onnx.ModelProto | None:
    """The operator alone, with small constants in it and large ones as inputs; None for types that ONNX lacks."""
    types = {name: _type(each) for name, each in arrays.items()}
    if not all(types.values()):
        return None
    small = [
        onnx.numpy_helper.from_array(each.numpy(), name) for name, each in arrays.items() if _count(each) <= LARGEST
    ]
    large = [
        onnx.helper.make_tensor_value_info(name, types[name], list(map(int, each.shape)))
        for name, each in arrays.items()
        if _count(each) > LARGEST
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = onnx.helper.make_graph([node], "folded", large, outputs, small)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def _is_small(model: onnx.ModelProto, name: str, arrays: Mapping[str, Any]) -> bool:
    """Whether operands and results, as far as ONNX infers them, are to be computed here."""
    source = sum(_count(each) * sizes.bits_of(str(each.dtype)) // 8 for each in arrays.values())
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception:
        return False  # an operator that ONNX does not know, or that TVM's importer refuses with its own words
    small = not model.graph.input
    for each in found:
        kind = each.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim if dim.HasField("dim_value")]
        if not kind.HasField("shape") or len(shape) != len(kind.shape.dim):
            small = small and name in BOUNDED
            continue
        bits = tensors.BITS.get(kind.elem_type, 8)
        sizes.Unfolding().add(f"a result of {name}", shape, bits, source)
        small = small and math.prod(shape) <= LARGEST
    return small


def _count(array: Any) -> int:
    return math.prod(map(int, array.shape))


def _type(array: Any) -> int:
    """ONNX's type of an array; 0 where it has none."""
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(str(array.dtype))))
    except (TypeError, ValueError, KeyError):
        return 0


def _usual(found: Any) -> bool:
    """No sequence, no other kind of number, and no weight."""
    tensor = isinstance(found, np.ndarray | np.generic)
    return tensor and found.dtype.kind in "biuf" and found.size <= LARGEST
