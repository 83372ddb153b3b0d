"""What PyTorch's operators do on the way, as nodes of their own: TVM's importer knows operators without it.

PyTorch computes in the type that all operands have in common, multiplies by ``alpha``, counts indices from behind and
takes those of several axes together. TVM's importer silently gives constants the type of the tensor (``arange(4) *
0.25`` is 0), and passes over the rest.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from tunesmith.errors import UnsupportedOperator

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
ARITHMETIC = frozenset(
    {
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "pow",
        "maximum",
        "minimum",
        "clamp",
        "fmod",
        "remainder",
        "atan2",
        "reciprocal",
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sigmoid",
        "sqrt",
        "rsqrt",
        "erf",
        "cumsum",
        "sum",
        "prod",
        "mean",
    }
)
"""Operators that compute in the type of their result."""
POOLS = frozenset({"avg_pool2d", "avg_pool3d"})
DIVISOR = 6
"""Where pools have the divisor that takes the place of the window's size."""

Rewrite = Callable[[Any, Any], None]


def made_explicit(program: Any) -> None:
    """Rewrite the graph of a ``torch.export.ExportedProgram`` in place.

    Raises:
        UnsupportedOperator: for what TVM's importer would take for something else, and this does not know either.
    """
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or not hasattr(node.target, "overloadpacket"):
            continue
        name = node.target.overloadpacket.__name__
        if name in REWRITES:
            REWRITES[name](graph, node)
        compares = name in COMPARISONS and len(node.args) > 1
        if compares or name in ARITHMETIC:
            _promote(graph, node, compares)


def _before(graph: Any, node: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """A new node in front of another one, with the value that its users may ask for."""
    with graph.inserting_before(node):
        made = graph.call_function(target, args, kwargs)
    values = [arg.meta["val"] if hasattr(arg, "meta") else arg for arg in args]
    made.meta["val"] = target(*values, **kwargs)
    return made


def _aten() -> Any:
    return importlib.import_module("torch").ops.aten


def _promote(graph: Any, node: Any, compares: bool) -> None:
    """Operands of another type than the operator computes in are converted."""
    torch = importlib.import_module("torch")
    tensors = [arg for arg in node.args if hasattr(arg, "meta") and hasattr(arg.meta.get("val"), "dtype")]
    if not tensors or not hasattr(node.meta.get("val"), "dtype"):
        return
    wanted = node.meta["val"].dtype
    if compares:
        wanted = torch.result_type(*(arg.meta["val"] if hasattr(arg, "meta") else arg for arg in node.args[:2]))
    made = {
        arg: _before(graph, node, _aten()._to_copy.default, arg, dtype=wanted)
        for arg in dict.fromkeys(tensors)
        if arg.meta["val"].dtype != wanted
    }
    node.args = tuple(made.get(arg, arg) if hasattr(arg, "meta") else arg for arg in node.args)


def _promote_choice(graph: Any, node: Any) -> None:
    """Both choices have the type of the result."""
    wanted = node.meta["val"].dtype
    node.args = (
        node.args[0],
        *(
            _before(graph, node, _aten()._to_copy.default, arg, dtype=wanted)
            if arg.meta["val"].dtype != wanted
            else arg
            for arg in node.args[1:]
        ),
    )


def _split_factor(graph: Any, node: Any) -> None:
    """``alpha`` of a sum or a difference becomes a product."""
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    node.args = node.args[:2]
    if alpha != 1:
        at = 0 if node.target.overloadpacket.__name__ == "rsub" else 1
        args = list(node.args[:2])
        args[at] = (
            _before(graph, node, _aten().mul.Tensor, args[at], alpha) if hasattr(args[at], "meta") else args[at] * alpha
        )
        node.args, node.kwargs = tuple(args), {}


def _split_elu(graph: Any, node: Any) -> None:
    """``elu`` with ``scale`` and ``input_scale`` becomes one between two products."""
    x, alpha, scale, inner = list(node.args) + [1] * (4 - len(node.args))
    if (scale, inner) == (1, 1):
        return
    aten = _aten()
    found = _before(graph, node, aten.elu.default, _before(graph, node, aten.mul.Tensor, x, inner), alpha * inner)
    node.target, node.args = aten.mul.Tensor, (found, scale / inner)


def _count_from_front(graph: Any, node: Any) -> None:
    """Indices below 0 are counted from behind."""
    shape = node.args[0].meta["val"].shape
    indices = [
        _before(graph, node, _aten().remainder.Scalar, index, extent)
        if _is_number(index) and isinstance(extent, int)
        else index
        for index, extent in zip(node.args[1], shape, strict=False)
    ]
    node.args = (node.args[0], indices, *node.args[2:])
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) == len(indices) or not all(_is_number(indices[axis]) for axis in axes):
        return
    if not _crossed([list(indices[axis].meta["val"].shape) for axis in axes]):
        _take_together(graph, node, axes)
    elif len(axes) > 1:
        flat = {axis: _before(graph, node, _aten().view.default, indices[axis], [-1]) for axis in axes}
        node.args = (node.args[0], [flat.get(axis) for axis in range(len(indices))], *node.args[2:])


def _crossed(shapes: list[list[int]]) -> bool:
    """Whether indices of several axes run over dimensions of their own, in order: TVM takes them one by one then."""
    count = len(shapes)
    padded = [[1] * (count - len(shape)) + shape for shape in shapes]
    return count < 2 or all(
        len(shape) == count and all(extent == 1 for extent in (*shape[:at], *shape[at + 1 :]))
        for at, shape in enumerate(padded)
    )


def _take_together(graph: Any, node: Any, axes: list[int]) -> None:
    """Indices of several axes, one for each: those axes come first for TVM, and back to where they were."""
    x, indices = node.args[:2]
    aten, rank = _aten(), x.meta["val"].ndim
    moved = _before(graph, node, aten.permute.default, x, [*axes, *(i for i in range(rank) if i not in axes)])
    with graph.inserting_before(node):
        taken = graph.call_function(aten.index.Tensor, (moved, [indices[axis] for axis in axes]))
    made, kept = node.meta["val"].ndim - (rank - len(axes)), axes[0] if axes[-1] - axes[0] < len(axes) else 0
    order = [*range(made, made + kept), *range(made), *range(made + kept, node.meta["val"].ndim)]
    taken.meta["val"] = node.meta["val"].permute([order.index(i) for i in range(len(order))])
    node.target, node.args = aten.permute.default, (taken, order)


def _is_number(index: Any) -> bool:
    """Whether an index counts, and is neither missing nor a mask."""
    torch = importlib.import_module("torch")
    return index is not None and index.meta["val"].dtype in {torch.int64, torch.int32}


def _coordinates_first(graph: Any, node: Any) -> None:
    """A grid's two coordinates are TVM's second axis."""
    grid = _before(graph, node, _aten().permute.default, node.args[1], [0, 3, 1, 2])
    node.args = (node.args[0], grid, *node.args[2:])


def _expand_infinity(graph: Any, node: Any) -> None:
    """A tensor full of infinity or of no number, over which TVM's compiler stumbles, is one number for all places."""
    value, found = node.args[1], node.meta["val"]
    fixed = all(isinstance(extent, int) for extent in found.shape)
    if fixed and isinstance(value, float) and not math.isfinite(value):
        one = _before(graph, node, _aten().scalar_tensor.default, value, dtype=found.dtype)
        node.target, node.args, node.kwargs = _aten().expand.default, (one, list(found.shape)), {}


def _scale_by_one(graph: Any, node: Any) -> None:
    """Group normalisation without weights has those that do nothing."""
    x, *given = node.args
    channels, made = x.meta["val"].shape[1], x.meta["val"].dtype
    for at, neutral in ((0, 1.0), (1, 0.0)):
        given[at] = given[at] or _before(graph, node, _aten().full.default, [channels], neutral, dtype=made)
    node.args = (x, *given)


def _divide_by_tensor(graph: Any, node: Any) -> None:
    """A whole number that others are divided by, and the result rounded, has their type."""
    x, divisor = node.args[:2]
    if "rounding_mode" in node.kwargs and isinstance(divisor, int):
        node.args = (x, _before(graph, node, _aten().full_like.default, x, divisor))


def _bound_of_numbers(graph: Any, node: Any) -> None:
    """Whole numbers with a bound on one side alone: TVM's other one would be infinite."""
    x, low, high = [*node.args, None, None][:3]
    low, high = node.kwargs.get("min", low), node.kwargs.get("max", high)
    value = x.meta["val"]
    if (low is None) == (high is None) or value.dtype.is_floating_point or not isinstance(low or high or 0, int):
        return
    bound = _before(graph, node, _aten().full.default, [], high if low is None else low, dtype=value.dtype)
    node.target = _aten().minimum.default if low is None else _aten().maximum.default
    node.args, node.kwargs = (x, bound), {}


def _without_empty(graph: Any, node: Any) -> None:
    """Vectors without elements are joined to anything."""
    parts = [part for part in node.args[0] if tuple(part.meta["val"].shape) != (0,)]
    node.args = (parts or node.args[0], *node.args[1:])


def _average(graph: Any, node: Any) -> None:
    """An average pool with a divisor of its own is one of whole windows, times the ratio of the divisors."""
    _stride_of_window(graph, node)
    divisor = node.args[DIVISOR] if len(node.args) > DIVISOR else None
    if divisor is None:
        return
    x, window, strides, padding, ceil = node.args[:5]
    if ceil:
        raise UnsupportedOperator(
            f"{node.target}, which makes {node.name!r}, has a divisor_override and ceil_mode, which are not supported "
            "together; export the model without one of them",
            field="file",
            operators={str(node.target): 1},
        )
    rank = 2 if "2d" in node.target.overloadpacket.__name__ else 3
    size = math.prod(window) if len(window) == rank else window[0] ** rank
    made = _before(graph, node, node.target, x, window, strides, padding, False, True, None)
    node.target, node.args = _aten().mul.Tensor, (made, size / divisor)


def _stride_of_window(graph: Any, node: Any) -> None:
    """A pool whose stride is empty has its window's."""
    if len(node.args) > 2 and not node.args[2]:
        node.args = (*node.args[:2], node.args[1], *node.args[3:])


def _ask_for_nan(graph: Any, node: Any) -> None:
    """A number that is not itself is no number; TVM takes the negation of that for true."""
    x, y = node.args[:2]
    if x is not y or not x.meta["val"].dtype.is_floating_point:
        return
    if node.target.overloadpacket.__name__ == "ne":
        node.target, node.args = _aten().isnan.default, (x,)
    else:
        node.target, node.args = _aten().logical_not.default, (_before(graph, node, _aten().isnan.default, x),)


REWRITES: Mapping[str, Rewrite] = {
    **dict.fromkeys(POOLS, _average),
    **dict.fromkeys(("avg_pool1d", "max_pool2d_with_indices", "max_pool3d_with_indices"), _stride_of_window),
    "add": _split_factor,
    "sub": _split_factor,
    "rsub": _split_factor,
    "elu": _split_elu,
    "index": _count_from_front,
    "grid_sampler_2d": _coordinates_first,
    "full": _expand_infinity,
    "full_like": _expand_infinity,
    "native_group_norm": _scale_by_one,
    "clamp": _bound_of_numbers,
    "div": _divide_by_tensor,
    "cat": _without_empty,
    "where": _promote_choice,
    "eq": _ask_for_nan,
    "ne": _ask_for_nan,
}
