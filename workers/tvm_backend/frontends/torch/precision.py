"""In which type an exported PyTorch program computes: half precision as float32, and truth values as such.

PyTorch's CPU operators compute half-precision numbers in float32 and round the result, and multiply truth values as a
logical and. TVM has few functions of the one, and no arithmetic of the other.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Mapping
from typing import Any

from workers.tvm_backend.frontends.torch.constants import LIBRARIES

MOVES = frozenset(
    [
        "alias",
        "as_strided",
        "cat",
        "clone",
        "contiguous",
        "copy",
        "detach",
        "diagonal",
        "embedding",
        "expand",
        "flip",
        "gather",
        "index",
        "index_put",
        "index_select",
        "item",
        "masked_fill",
        "permute",
        "repeat",
        "roll",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "stack",
        "t",
        "take",
        "transpose",
        "unfold",
        "unsqueeze",
        "view",
        "where",
        "_to_copy",
        "scatter",
        "constant_pad_nd",
        "arange",
        "full",
        "full_like",
        "empty",
        "empty_like",
        "zeros",
        "ones",
        "zeros_like",
        "ones_like",
        "scalar_tensor",
        "fill",
        "new_zeros",
        "new_ones",
        "new_full",
        "reshape",
        "unbind",
        "isnan",
        "signbit",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ]
)
"""Operators that compute nothing, or no number of the type."""
LOGIC: Mapping[str, str] = {
    "mul": "logical_and",
    "minimum": "logical_and",
    "bitwise_and": "logical_and",
    "add": "logical_or",
    "maximum": "logical_or",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "bitwise_not": "logical_not",
}
COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def widened(program: Any) -> None:
    """Rewrite the graph of a decomposed ``torch.export.ExportedProgram`` in place."""
    torch = importlib.import_module("torch")
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or getattr(node.target, "namespace", "") not in LIBRARIES:
            continue
        name = node.target.overloadpacket.__name__
        if _kind(node) == torch.bool and name in LOGIC:
            node.target = getattr(getattr(torch.ops.aten, LOGIC[name]), "default")  # noqa: B009
            node.args, node.kwargs = (
                _tensors_for(graph, node, torch, node.args[: 1 if name == "bitwise_not" else 2]),
                {},
            )
        elif name in COMPARED:
            _compare_numbers(graph, node, torch)
        elif name not in MOVES:
            _in_single(graph, node, torch)


def _kind(node: Any) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _tensors_for(graph: Any, node: Any, torch: Any, args: Any) -> tuple[Any, ...]:
    """Operands of a logical operator: numbers become tensors."""
    made = []
    for arg in args:
        if not hasattr(arg, "meta"):
            with graph.inserting_before(node):
                number = graph.call_function(torch.ops.aten.full.default, ([], bool(arg)), {"dtype": torch.bool})
            number.meta["val"] = node.meta["val"].new_empty([])
            arg = number
        made.append(arg)
    return tuple(made)


def _compare_numbers(graph: Any, node: Any, torch: Any) -> None:
    """Truth values are compared as whole numbers."""
    operands = [arg for arg in node.args if hasattr(arg, "meta")]
    if all(_kind(arg) == torch.bool for arg in operands):
        node.args = tuple(
            _cast(graph, node, arg, torch.uint8, torch) if hasattr(arg, "meta") else int(arg) for arg in node.args
        )


def _cast(graph: Any, before: Any, source: Any, kind: Any, torch: Any) -> Any:
    with graph.inserting_before(before):
        made = graph.call_function(torch.ops.aten._to_copy.default, (source,), {"dtype": kind})
    made.meta["val"] = source.meta["val"].to(kind)
    return made


def _in_single(graph: Any, node: Any, torch: Any) -> None:
    """One operator on float32, its half-precision operands cast before and its results after."""
    small = {torch.float16, torch.bfloat16}
    inner = torch.fx.node.map_arg(
        (node.args, node.kwargs),
        lambda arg: _cast(graph, node, arg, torch.float32, torch) if _kind(arg) in small else arg,
    )
    values = node.meta.get("val")
    many = isinstance(values, list | tuple)
    results = list(values) if many else [values]
    if not any(getattr(each, "dtype", None) in small for each in results):
        if any(_kind(arg) in small for arg in node.all_input_nodes):
            node.args, node.kwargs = inner
        return
    node.args, node.kwargs = inner
    if node.kwargs.get("dtype") in small:
        node.kwargs = {**node.kwargs, "dtype": torch.float32}
    wide = [each.to(torch.float32) if getattr(each, "dtype", None) in small else each for each in results]
    node.meta["val"] = type(values)(wide) if many else wide[0]
    if not many:
        _round(graph, node, node, values.dtype, torch)
        return
    for user in list(node.users):
        if user.target is operator.getitem and getattr(results[user.args[1]], "dtype", None) in small:
            kind = results[user.args[1]].dtype
            user.meta["val"] = wide[user.args[1]]
            _round(graph, user, user, kind, torch)


def _round(graph: Any, after: Any, source: Any, kind: Any, torch: Any) -> None:
    users = list(source.users)
    with graph.inserting_after(after):
        made = graph.call_function(torch.ops.aten._to_copy.default, (source,), {"dtype": kind})
    made.meta["val"] = source.meta["val"].to(kind)
    for user in users:
        user.replace_input_with(source, made)
