"""Arithmetic on shapes and other small constants, done while a model is imported.

All inputs have fixed shapes. TVM's importer keeps a shape as something of its own, which few of its operators take, and
leaves some operators on constants in the program, after which shapes that are made of them are known at run time only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import relax

LARGEST = 1 << 16
"""Elements of what is computed here, operands and result alike: weights are folded later."""
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
    """What an operator makes of small constants, by ONNX's reference; None where it is not such a one."""
    given = {f"x{at}": _array(x) for at, x in enumerate(inputs) if x is not None}
    own = attrs["tvm_custom"]
    if name in DRAWN or not given or any(array is None for array in given.values()):
        return None
    names = [f"x{at}" if x is not None else "" for at, x in enumerate(inputs)]
    results = [f"y{at}" for at in range(own["num_outputs"])]
    plain = {key: value for key, value in attrs.items() if value is not own}
    try:
        found = _evaluated(onnx.helper.make_node(name, names, results, **plain), given, opset)
    except Exception:
        return None  # an operator or an attribute that the reference lacks: TVM's importer may have it
    if not all(_usual(each) for each in found):
        return None
    made = [relax.const(np.asarray(each), str(each.dtype)) for each in found]
    return made[0] if len(made) == 1 else relax.Tuple(made)


def _usual(found: Any) -> bool:
    """No sequence, no other kind of number, and no weight."""
    tensor = isinstance(found, np.ndarray | np.generic)
    return tensor and found.dtype.kind in "biuf" and found.size <= LARGEST


def _evaluated(node: onnx.NodeProto, given: Mapping[str, Any], opset: int) -> Sequence[Any]:
    """The results of an operator, arrays where they are tensors."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "folded", [value(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                           for name, array in given.items()],
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.output])  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Sequence[Any] = ReferenceEvaluator(model).run(None, dict(given))
    return found


def _array(x: Any) -> np.ndarray[Any, Any] | None:
    if not isinstance(x, tvm.ir.GenericConst):
        return None
    array = x.value.numpy()
    return array if array.size <= LARGEST else None
