"""What a PyTorch program computes of its constants alone, computed by PyTorch while the program is imported.

Such are positions and their rotations, masks of attention, indices of windows, and weights that a layer standardises in
every call. TVM's importer leaves them to every run, or does not know their operators.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Iterator
from typing import Any

from workers.tvm_backend.frontends import sizes

MOST_BYTES = 4 << 20
"""Most bytes of a constant that is larger than all it is made of."""
MOVES = frozenset(
    {
        "alias",
        "clone",
        "detach",
        "expand",
        "permute",
        "select",
        "slice",
        "squeeze",
        "t",
        "transpose",
        "unsqueeze",
        "view",
    }
)
"""Operators that compute nothing: those of weights are left to the passes that lay weights out."""
LIBRARIES = ("aten", "prims")


def fold(program: Any) -> None:
    """Replace, in place, what a ``torch.export.ExportedProgram`` computes of constants.

    Left as it is: what makes a tensor of no other (``full``), what only moves weights, and what would be a large
    constant made of small ones.
    """
    torch = importlib.import_module("torch")
    graph, values = program.graph_module.graph, constants_of(program)
    with torch.no_grad():
        found = _evaluated(graph, list(_ends(graph, frozenset(values))), values)
    for number, (node, value) in enumerate(found.items()):
        replace(program, node, value, f"folded_{number}")
    graph.eliminate_dead_code()


def check_sizes(program: Any) -> None:
    """Check all values of a program, before any is computed.

    Raises:
        ModelRejected: one is larger than any tensor may be, or a constant that unfolds to more than is accepted.
    """
    unfolding, made = sizes.Unfolding(), dict.fromkeys(constants_of(program), 0)
    for node in graph_inputs(program):
        held = [_count(node.name, unfolding, each, None) for each in _tensors(node)]
        if node in made:
            made[node] = sum(held)
    for node in program.graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        constant = repeatable(node) and all(each in made for each in node.all_input_nodes)
        source = sum(made[each] for each in node.all_input_nodes) if constant else None
        held = [_count(node.name, unfolding, each, source) for each in _tensors(node)]
        if constant:
            made[node] = sum(held)


def _tensors(node: Any) -> list[Any]:
    """What a node makes, as far as its extents are known."""
    found = node.meta.get("val")
    return [
        each
        for each in (found if isinstance(found, list | tuple) else [found])
        if hasattr(each, "dtype") and all(type(extent) is int for extent in each.shape)
    ]


def _count(name: str, unfolding: sizes.Unfolding, value: Any, source: int | None) -> int:
    what, shape, bits = f"value {name!r}", list(value.shape), 8 * value.dtype.itemsize
    return sizes.check(what, shape, bits) if source is None else unfolding.add(what, shape, bits, source)


def constants_of(program: Any) -> dict[Any, Any]:
    """Values of the placeholders that are no inputs."""
    held = {**program.constants, **program.state_dict}
    targets = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
    return {node: held[targets[node.name]] for node in graph_inputs(program) if targets.get(node.name) in held}


def graph_inputs(program: Any) -> list[Any]:
    """Placeholders, in order."""
    return [node for node in program.graph_module.graph.nodes if node.op == "placeholder"]


def _ends(graph: Any, given: frozenset[Any]) -> Iterator[Any]:
    """Nodes to replace: the last ones that depend on constants alone."""
    computed = dict.fromkeys(given, False)
    for node in graph.nodes:
        if repeatable(node) and all(each in computed for each in node.all_input_nodes):
            computed[node] = _name(node) not in MOVES or any(computed[each] for each in node.all_input_nodes)
    waiting = [node for node in computed if any(user not in computed for user in node.users)]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if _is_worth(node):
            if computed[node]:
                yield node
            continue
        waiting += [each for each in node.all_input_nodes if each not in seen]
        seen.update(node.all_input_nodes)


def _name(node: Any) -> str:
    return str(node.target.overloadpacket.__name__) if hasattr(node.target, "overloadpacket") else ""


def repeatable(node: Any) -> bool:
    """Whether it is a call that gives the same each time."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    tags = {tag.name for tag in getattr(node.target, "tags", ())}
    return getattr(node.target, "namespace", "") in LIBRARIES and "nondeterministic_seeded" not in tags


def _is_worth(node: Any) -> bool:
    """Whether its value can be a constant, and takes no more memory than it should."""
    found = node.meta.get("val")
    if not node.all_input_nodes or _name(node) == "expand" or not hasattr(found, "dtype"):
        return False
    return bool(
        found.nbytes
        <= max(
            MOST_BYTES,
            sum(each.meta["val"].nbytes for each in node.all_input_nodes if hasattr(each.meta.get("val"), "nbytes")),
        )
    )


def _evaluated(graph: Any, wanted: list[Any], values: dict[Any, Any]) -> dict[Any, Any]:
    """Tensors of the wanted nodes; those of all that they are made of are added to ``values``."""
    torch = importlib.import_module("torch")
    needed, waiting = set(wanted), list(wanted)
    while waiting:
        more = [each for each in waiting.pop().all_input_nodes if each not in needed]
        needed.update(more)
        waiting += more
    for node in graph.nodes:
        if node in needed and node not in values:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **{**kwargs, **({"device": "cpu"} if kwargs.get("device") else {})})
    return {node: values[node].contiguous() for node in wanted}


def replace(program: Any, node: Any, value: Any, name: str, outputs: bool = False) -> None:
    """Give users of a node a constant of the program instead; the program's outputs only where ``outputs`` says so."""
    signature = importlib.import_module("torch.export.graph_signature")
    graph = program.graph_module.graph
    with graph.inserting_before(next(iter(graph.nodes))):
        made = graph.placeholder(name)
    made.meta["val"] = node.meta["val"].new_empty(value.shape)
    kind, argument = signature.InputKind.CONSTANT_TENSOR, signature.TensorArgument(made.name)
    program.graph_signature.input_specs.insert(0, signature.InputSpec(kind, argument, made.name))
    program.constants[made.name] = value
    node.replace_all_uses_with(made, delete_user_cb=lambda user: outputs or user.op != "output")
