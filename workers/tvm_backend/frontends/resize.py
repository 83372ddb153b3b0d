"""ONNX's ``Resize`` where TVM's importer would compute something else, as a product with a matrix for each axis.

TVM's operators know how large a map is and how large it shall be, and no scale. Where a scale and a size do not make a
whole number (a half of 7), ONNX rounds the size and goes on sampling by the scale; TVM samples by the sizes. It also
passes over anti-aliasing, and over ``axes``. Resizing is linear and works axis by axis, so what ONNX's reference makes
of an identity matrix is the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from tunesmith.errors import UnsupportedOperator
from workers.tvm_backend.frontends import refusals, sizes

STRETCH = b"stretch"
CROPPED = b"tf_crop_and_resize"
BY_SIZE = frozenset({b"align_corners", CROPPED})
"""Coordinates that depend on sizes alone."""
ROUNDING = 1e-6
"""How far from a whole number a size may be, relatively, and count as one: scales are of single precision."""
OPSET = 19
"""Version of the node that the reference evaluates; the model's node may lack attributes, which are then not set."""
AXIS_ATTRIBUTES = (
    "mode",
    "coordinate_transformation_mode",
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "antialias",
)
"""Attributes that say how an axis is sampled."""
OLD = {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"}
"""What ``Upsample``, and ``Resize`` before opset 11, do."""


@dataclass(frozen=True)
class Stretch:
    """One axis that changes; ``scale`` is None where the new size was given."""

    axis: int
    before: int
    after: int
    scale: float | None

    @property
    def whole(self) -> bool:
        """Whether sampling by the scale is sampling by the sizes."""
        return self.scale is None or abs(self.scale * self.before - self.after) <= ROUNDING * self.after

    @property
    def width(self) -> float:
        """The extent that the scale makes, before it is rounded."""
        return float(self.after) if self.scale is None else self.scale * self.before


def modern(name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], opset: int) -> tuple[list[Any], dict[str, Any]]:
    """Inputs and attributes of a ``Resize`` or ``Upsample`` of any opset as those of a ``Resize`` of today."""
    if name == "Resize" and opset >= 11:
        return list(inputs), dict(attrs)
    scales = relax.const(np.array(attrs["scales"], np.float32)) if "scales" in attrs else inputs[1]
    return [inputs[0], None, scales], {"mode": attrs.get("mode", b"nearest"), **OLD}


def by_products(
    builder: relax.BlockBuilder, inputs: Sequence[Any], attrs: Mapping[str, Any], params: Any
) -> relax.Expr | None:
    """A ``Resize`` that TVM's importer would get wrong; None where it does it right.

    Args:
        builder: emits what is needed on the way.
        inputs: inputs of the node, as TVM's importer has them.
        attrs: attributes of the node, likewise.
        params: what TVM's ``get_constant`` looks constants up in.

    Raises:
        UnsupportedOperator: neither TVM nor this can do it.
    """
    if attrs.get("keep_aspect_ratio_policy", STRETCH) != STRETCH:
        raise unsupported(f"keep_aspect_ratio_policy {attrs['keep_aspect_ratio_policy'].decode()!r}")
    found = stretches(inputs, attrs, params)
    by_size = attrs.get("coordinate_transformation_mode") in BY_SIZE
    if "axes" not in attrs and not attrs.get("antialias") and (by_size or all(each.whole for each in found)):
        return None
    return stretched(builder, inputs[0], found, attrs)


def stretched(
    builder: relax.BlockBuilder, x: relax.Expr, stretches: Sequence[Stretch], attrs: Mapping[str, Any]
) -> relax.Expr:
    """``x`` with some axes resized, each by a product with its matrix.

    Args:
        builder: emits what is needed on the way.
        x: floating-point numbers.
        stretches: what becomes of the axes.
        attrs: attributes in ``AXIS_ATTRIBUTES``, of ONNX's ``Resize``.

    Raises:
        UnsupportedOperator: for whole numbers.
    """
    if not str(x.ty.dtype).startswith("float"):
        raise unsupported(f"{x.ty.dtype}, and a scale that makes no whole number")
    for each in stretches:
        if each.after != each.before or each.scale not in {None, 1.0}:
            x = builder.normalize(_product(x, each.axis, _matrix(each, attrs)))
    return x


def stretches(inputs: Sequence[Any], attrs: Mapping[str, Any], params: Any) -> list[Stretch]:
    """What becomes of each axis that the node names."""
    shape = [int(extent) for extent in inputs[0].ty.shape]
    axes = [int(axis) % len(shape) for axis in attrs.get("axes", range(len(shape)))]
    scales, extents = (_numbers(inputs, at, params) for at in (2, 3))
    if extents:
        return [Stretch(axis, shape[axis], int(size), None) for axis, size in zip(axes, extents, strict=True)]
    return [
        Stretch(axis, shape[axis], int(np.floor(scale * shape[axis] * (1.0 + ROUNDING))), scale)
        for axis, scale in zip(axes, scales, strict=True)
    ]


def _numbers(inputs: Sequence[Any], at: int, params: Any) -> list[float]:
    """A constant input's numbers; none where it is missing or empty."""
    if len(inputs) <= at or inputs[at] is None:
        return []
    found = get_constant(inputs[at], params)
    if isinstance(found, relax.ShapeExpr):
        return [float(value.value) for value in found.values]
    if not isinstance(found, tvm.ir.GenericConst):
        raise unsupported("scales or sizes that are computed")
    # The shortest decimal of a float32, not its value: 6.5 / 1.3 is 5, and rounding depends on it.
    return [float(str(value)) for value in found.value.numpy().ravel()]


def _matrix(stretch: Stretch, attrs: Mapping[str, Any]) -> NDArray[np.float32]:
    """What a signal along the axis is multiplied with, float32 [before, after], by ONNX's reference."""
    kept = {name: attrs[name] for name in AXIS_ATTRIBUTES if name in attrs}
    n, floats = stretch.before, onnx.TensorProto.FLOAT
    sizes.Unfolding().add("a matrix of Resize", [n, max(n, stretch.after)], 32, 0)
    scale, size = ("", "size") if stretch.whole else ("scale", "")
    node = onnx.helper.make_node("Resize", ["x", "", scale, size], ["y"], **kept)
    given = [
        onnx.numpy_helper.from_array(np.array([n, stretch.after], np.int64), "size"),
        onnx.numpy_helper.from_array(np.array([1.0, stretch.scale or 1.0]), "scale"),
    ]
    graph = onnx.helper.make_graph(
        [node],
        "resize",
        [onnx.helper.make_tensor_value_info("x", floats, [n, n])],
        [onnx.helper.make_tensor_value_info("y", floats, None)],
        given,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    (found,) = ReferenceEvaluator(model).run(None, {"x": np.eye(n, dtype=np.float32)})
    return np.asarray(found, dtype=np.float32)


def _product(x: relax.Expr, axis: int, matrix: NDArray[np.float32]) -> relax.Expr:
    """``x`` with the signals along an axis multiplied by a matrix [before, after]; copied where it only copies."""
    if (np.sort(matrix, axis=0)[:-1] == 0).all() and (matrix.max(axis=0) == 1).all():
        return relax.op.take(x, relax.const(matrix.argmax(axis=0).astype(np.int64)), axis=axis)
    rank, dtype = len(x.ty.shape), str(x.ty.dtype)
    if axis == rank - 1:
        return relax.op.matmul(x, relax.const(matrix.astype(dtype)))
    if axis == rank - 2:
        return relax.op.matmul(relax.const(np.ascontiguousarray(matrix.T).astype(dtype)), x)
    order = [*(i for i in range(rank) if i != axis), axis]
    moved = relax.op.matmul(relax.op.permute_dims(x, order), relax.const(matrix.astype(dtype)))
    return relax.op.permute_dims(moved, np.argsort(order).tolist())


def unsupported(what: str) -> UnsupportedOperator:
    """The refusal of a ``Resize``."""
    return refusals.unsupported("Resize", what, "export the model with fixed sizes instead")
