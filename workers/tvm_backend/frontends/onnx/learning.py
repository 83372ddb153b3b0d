"""Trees and tables of ONNX's domain of classical machine learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from tvm import relax

from workers.tvm_backend.frontends.onnx import recurrent
from workers.tvm_backend.frontends.onnx.attention import Attributes, Emit
from workers.tvm_backend.frontends.onnx.special import LEARNING, Convert
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

EQUAL, MEMBER = 4, 6
COMPARED: Sequence[Callable[[relax.Expr, relax.Expr], relax.Expr]] = (
    relax.op.less_equal,
    relax.op.less,
    relax.op.greater_equal,
    relax.op.greater,
    relax.op.equal,
    relax.op.not_equal,
)
"""What a node asks of a feature and its number, by the node's mode."""
AVERAGE, SUM, MIN, MAX = range(4)
Array = NDArray[Any]


@dataclass(frozen=True)
class Nodes:
    """Nodes of all trees, and behind them the leaves, which lead to themselves."""

    mode: Array
    feature: Array
    number: Array
    missing: Array
    """Whether NaN takes the way of what is true."""
    true: Array
    false: Array


def _trees(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """One step down all trees at a time."""
    emit, x = importer.bb.emit, inputs[0]
    kind, (rows, features) = str(x.ty.dtype), fixed_extents("TreeEnsemble", x)
    if attrs.get("post_transform", 0):  # ONNX and onnxruntime number them differently
        raise unsupported(
            "TreeEnsemble", f"post_transform {attrs['post_transform']}", "export it with 0 and a node after it"
        )
    roots = np.array(attrs["tree_roots"], np.int64)
    nodes, leaves = _nodes(attrs)
    _check(nodes, roots, features)
    at: relax.Expr = relax.const(np.tile(roots, (rows, 1)), "int64")
    for _ in range(_depth(nodes, roots, len(nodes.mode) - leaves)):
        at = _step(emit, x, at, nodes)
    weights, targets = np.zeros(len(nodes.mode), kind), np.zeros(len(nodes.mode), np.int64)
    weights[-leaves:] = onnx.numpy_helper.to_array(attrs["leaf_weights"])
    targets[-leaves:] = attrs["leaf_targetids"]
    weight = emit(relax.op.expand_dims(_looked_up(emit, weights, at), 2))
    target = emit(relax.op.expand_dims(_looked_up(emit, targets, at), 2))
    hit = emit(relax.op.equal(target, relax.const(np.arange(attrs["n_targets"])[None, None], "int64")))
    return _together(emit, weight, hit, attrs.get("aggregate_function", SUM), len(roots))


def _together(emit: Emit, weight: relax.Expr, hit: relax.Expr, how: int, trees: int) -> relax.Expr:
    """The scores of all trees as one."""
    kind = str(weight.ty.dtype)
    none = {MIN: np.finfo(kind).max, MAX: np.finfo(kind).min}.get(how, 0)
    scores = emit(relax.op.where(hit, weight, relax.const(none, kind)))
    found = emit({MIN: relax.op.min, MAX: relax.op.max}.get(how, relax.op.sum)(scores, [1]))
    return emit(relax.op.divide(found, relax.const(trees, kind))) if how == AVERAGE else found


def _step(emit: Emit, x: relax.Expr, at: relax.Expr, nodes: Nodes) -> relax.Expr:
    """The nodes that follow, [rows, trees]."""
    value = emit(relax.op.gather_elements(x, _looked_up(emit, nodes.feature, at), 1))
    number, mode = _looked_up(emit, nodes.number, at), _looked_up(emit, nodes.mode, at)
    first, *others = sorted({*nodes.mode.tolist()})
    holds = emit(COMPARED[first](value, number))
    for each in others:
        own = emit(relax.op.equal(mode, relax.const(each, "int64")))
        holds = emit(relax.op.where(own, emit(COMPARED[each](value, number)), holds))
    if nodes.missing.any():
        absent = emit(relax.op.logical_and(emit(relax.op.isnan(value)), _looked_up(emit, nodes.missing, at)))
        holds = emit(relax.op.logical_or(holds, absent))
    return emit(relax.op.where(holds, _looked_up(emit, nodes.true, at), _looked_up(emit, nodes.false, at)))


def _looked_up(emit: Emit, table: Array, at: relax.Expr) -> relax.Expr:
    return emit(relax.op.take(relax.const(table, str(table.dtype)), at, 0))


def _nodes(attrs: Attributes) -> tuple[Nodes, int]:
    """Nodes and the number of leaves; a node that asks for members of a set is as many that ask for one number."""
    modes = onnx.numpy_helper.to_array(attrs["nodes_modes"]).tolist()
    numbers = onnx.numpy_helper.to_array(attrs["nodes_splits"])
    missing = attrs.get("nodes_missing_value_tracks_true", [0] * len(modes))
    sets = _sets(attrs) if MEMBER in modes else []
    inner, leaves = len(modes) + sum(max(len(each) - 1, 0) for each in sets), len(attrs["leaf_targetids"])
    ways = [
        [
            place + inner * leaf
            for place, leaf in zip(attrs[f"nodes_{way}nodeids"], attrs[f"nodes_{way}leafs"], strict=True)
        ]
        for way in ("true", "false")
    ]
    rows = [list(row) for row in zip(modes, attrs["nodes_featureids"], numbers, missing, *ways, strict=True)]
    for row, members in zip([row for row in rows if row[0] == MEMBER], sets, strict=True):
        end, row[0], row[2] = row[5], EQUAL, members[0] if len(members) else np.nan
        for member in members[1:]:
            row[5] = len(rows)
            row = [EQUAL, row[1], member, 0, row[4], end]
            rows.append(row)
    rows += [[rows[0][0], 0, 0, 0, leaf, leaf] for leaf in range(inner, inner + leaves)]
    kinds = (np.int64, np.int64, numbers.dtype, np.bool_, np.int64, np.int64)
    return Nodes(
        *(np.array(each).astype(kind) for each, kind in zip(zip(*rows, strict=True), kinds, strict=True))
    ), leaves


def _sets(attrs: Attributes) -> list[Array]:
    """Sets in the order of the nodes that ask for their members; NaN ends each."""
    values = onnx.numpy_helper.to_array(attrs["membership_values"])
    parts = np.split(values, np.flatnonzero(np.isnan(values)))[:-1]
    return [part[~np.isnan(part)] for part in parts]


def _check(nodes: Nodes, roots: Array, features: int) -> None:
    """Refuse places of nodes, leaves and features that there are not."""
    count = len(nodes.mode)
    for what, places, limit in (
        ("tree_roots", roots, count),
        ("nodes_truenodeids", nodes.true, count),
        ("nodes_falsenodeids", nodes.false, count),
        ("nodes_featureids", nodes.feature, features),
        ("nodes_modes", nodes.mode, len(COMPARED)),
    ):
        if places.min() < 0 or places.max() >= limit:
            raise unsupported("TreeEnsemble", f"{what} that are none of its own", "export the model again")


def _depth(nodes: Nodes, roots: Array, inner: int) -> int:
    """How many nodes are asked at most."""
    at, steps = np.unique(roots), 0
    while (at := at[at < inner]).size:
        steps += 1
        if steps > recurrent.MOST_STEPS:
            raise unsupported("TreeEnsemble", f"more than {recurrent.MOST_STEPS} nodes one after another")
        at = np.unique(np.concatenate([nodes.true[at], nodes.false[at]]))
    return steps


def _label(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """A table of numbers; the last one of equal keys counts, and NaN is equal to NaN."""
    emit, x = importer.bb.emit, inputs[0]
    keys, values = _table(attrs, "keys")[::-1], _table(attrs, "values")[::-1]
    if keys.shape != values.shape:
        raise unsupported("LabelEncoder", f"{keys.size} keys and {values.size} values", "export as many of both")
    kind = str(values.dtype)
    default = onnx.numpy_helper.to_array(attrs["default_tensor"]) if "default_tensor" in attrs else None
    if default is None:
        default = attrs.get("default_float", -0.0) if kind == "float32" else attrs.get("default_int64", -1)
    wide = emit(relax.op.expand_dims(x, x.ty.ndim))
    found = emit(relax.op.equal(wide, relax.const(keys, str(keys.dtype))))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = emit(relax.op.logical_and(emit(relax.op.isnan(wide)), relax.const(np.isnan(keys), "bool")))
        found = emit(relax.op.logical_or(found, both))
    number = emit(relax.op.astype(found, "int8"))
    place = emit(relax.op.argmax(number, x.ty.ndim))
    known = emit(relax.op.astype(emit(relax.op.max(number, [x.ty.ndim])), "bool"))
    return relax.op.where(
        known, _looked_up(emit, values, place), relax.const(np.array(default, kind).reshape(()), kind)
    )


def _table(attrs: Attributes, what: str) -> Array:
    """Keys or values of a table.

    Raises:
        UnsupportedOperator: they are text.
    """
    for name, kind in (("int64s", np.int64), ("floats", np.float32)):
        if f"{what}_{name}" in attrs:
            return np.array(attrs[f"{what}_{name}"], kind)
    found = attrs.get(f"{what}_tensor")
    if found is None or found.data_type == onnx.TensorProto.STRING:
        raise unsupported("LabelEncoder", f"{what} of text", "export the model with numbers alone")
    return np.asarray(onnx.numpy_helper.to_array(found))


CONVERTED: Mapping[str, Convert] = {f"{LEARNING}LabelEncoder": _label, f"{LEARNING}TreeEnsemble": _trees}
"""How each is converted, by its name."""
