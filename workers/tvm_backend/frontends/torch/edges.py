"""Tensors without dimensions and without elements, as TVM's operators take them."""

from __future__ import annotations

import importlib
import operator
from typing import Any

from workers.tvm_backend.frontends.torch import constants

ALONG = frozenset(
    [
        "_softmax",
        "_log_softmax",
        "softmax",
        "log_softmax",
        "argmax",
        "argmin",
        "cumsum",
        "cumprod",
        "sort",
        "topk",
        "gather",
        "scatter",
        "scatter_reduce",
        "scatter_add",
        "index_select",
        "amax",
        "amin",
        "sum",
        "mean",
        "prod",
        "flip",
        "unfold",
        "var",
        "std",
        "var_mean",
        "index_put",
        "roll",
    ]
)
"""Operators along axes: of a number, they are those of a vector of one."""
NO_AXES = frozenset({"sum", "mean", "prod", "amax", "amin", "var", "std", "var_mean", "argmax", "argmin"})
"""Those of them that may have no axis, or several."""


def filled(program: Any) -> None:
    """Give each call of a graph all its arguments by their place, with the operator's defaults."""
    for node in program.graph_module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or node.target.namespace not in constants.LIBRARIES:
            continue
        given, args = dict(node.kwargs), list(node.args)
        for argument in schema.arguments[len(args) :]:
            if argument.kwarg_only or not (argument.name in given or argument.has_default_value()):
                break
            args.append(given.pop(argument.name, argument.default_value))
        while len(args) > len(node.args) and args[-1] is None and len(args) > _positional(schema):
            args.pop()
        node.args, node.kwargs = tuple(args), given


def _positional(schema: Any) -> int:
    """How many arguments have no default."""
    return sum(not (argument.kwarg_only or argument.has_default_value()) for argument in schema.arguments)


def with_elements(program: Any) -> None:
    """Compute what has no elements, or is made of nothing that has."""
    torch = importlib.import_module("torch")
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if isinstance(value, list | tuple) and _of_nothing(node):
            for user, each in zip(list(node.users), _computed(node, torch), strict=False):
                constants.replace(program, user, each, f"empty_{user.name}", outputs=True)
            continue
        if node.op != "call_function" or not hasattr(value, "dtype") or not all(type(n) is int for n in value.shape):
            continue
        if value.numel() == 0:
            made = torch.empty(value.shape, dtype=value.dtype)
        elif _of_nothing(node):
            (made,) = _computed(node, torch)
        elif node.target.__name__.startswith("addmm") and node.args[1].meta["val"].numel() == 0:
            node.target, node.args, node.kwargs = torch.ops.aten.expand.default, (node.args[0], list(value.shape)), {}
            continue
        elif _writes_nothing(node):
            node.replace_all_uses_with(node.args[0])
            continue
        else:
            continue
        constants.replace(program, node, made, f"empty_{node.name}", outputs=True)
    graph.eliminate_dead_code()


def _of_nothing(node: Any) -> bool:
    """Whether an operator has operands, and none of them has elements."""
    sources = [each.meta.get("val") for each in node.all_input_nodes]
    empty = bool(sources) and all(hasattr(each, "dtype") and each.numel() == 0 for each in sources)
    return empty and constants.repeatable(node)


def _computed(node: Any, torch: Any) -> list[Any]:
    """What an operator makes of nothing; of several results, those that are used, in the order of the users."""
    real = {each: torch.empty(each.meta["val"].shape, dtype=each.meta["val"].dtype) for each in node.all_input_nodes}
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), real.__getitem__)
    made = node.target(*args, **kwargs)
    found = [made] if hasattr(made, "dtype") else [made[user.args[1]] for user in node.users]
    return [each.contiguous() for each in found]


def _writes_nothing(node: Any) -> bool:
    """A write at no index leaves what was there."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if not name.startswith(("scatter", "index_put")):
        return False
    indices = node.args[1] if name == "index_put" else [node.args[2]]
    return any(index is not None and index.meta["val"].numel() == 0 for index in indices)


def with_dimensions(program: Any) -> None:
    """Operators along axes of a number become those of a vector of one element."""
    torch = importlib.import_module("torch")
    graph, aten = program.graph_module.graph, torch.ops.aten
    for node in list(graph.nodes):
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        if node.op != "call_function" or name not in ALONG or not hasattr(node.args[0], "meta"):
            continue
        if getattr(node.args[0].meta.get("val"), "ndim", 1) != 0:
            continue

        def vector(arg: Any, node: Any = node) -> Any:
            if getattr(arg.meta.get("val"), "ndim", 1) != 0:
                return arg
            return _viewed(graph, node, arg, [1], aten)

        node.args, node.kwargs = torch.fx.node.map_arg((node.args, node.kwargs), vector)
        if name in NO_AXES and len(node.args) > 1:
            axes = node.args[1]
            node.args = (
                node.args[0],
                0 if type(axes) is int else [0] if axes is not None or name[:3] != "arg" else 0,
                *node.args[2:],
            )
        _narrow(graph, node, aten)


def _narrow(graph: Any, node: Any, aten: Any) -> None:
    """The results are numbers for all that use them."""
    values = node.meta["val"]
    results = [(user, values[user.args[1]]) for user in node.users if user.target is operator.getitem]
    for made, value in results if isinstance(values, list | tuple) else [(node, values)]:
        users = list(made.users)
        with graph.inserting_after(made):
            flat = graph.call_function(aten.view.default, (made, list(value.shape)))
        flat.meta["val"] = value
        made.meta["val"] = value.new_empty([1])
        for user in users:
            user.replace_input_with(made, flat)
    if isinstance(values, list | tuple):
        node.meta["val"] = type(values)(each.new_empty([1]) for each in values)


def _viewed(graph: Any, before: Any, source: Any, shape: list[int], aten: Any) -> Any:
    with graph.inserting_before(before):
        made = graph.call_function(aten.view.default, (source, shape))
    made.meta["val"] = source.meta["val"].reshape(shape)
    return made
