"""A graph of Dynamo: what it takes, whether it may be compiled, and the exported program that computes the same."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from tunesmith.errors import InvalidInput, ModelRejected, first_line
from tunesmith.sdk.calling import TENSOR

NO_GRADIENTS = (
    "call it under torch.no_grad() or torch.inference_mode(), which a tuned graph needs as it has no gradients"
)
SET_GRAD = torch._C._set_grad_enabled
STATIC = "_dynamo_static_input_type"
"""Dynamo's mark of parameters and buffers among a graph's inputs."""


def check_mode(graph: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Refuse what trains.

    Raises:
        InvalidInput: gradients are tracked, or a part of the model is in training mode.
    """
    if torch.is_grad_enabled():
        tracked = next((name for name, each in _named(graph, inputs) if getattr(each, "requires_grad", False)), None)
        if tracked is not None:
            raise InvalidInput(f"{tracked!r} requires gradients: {NO_GRADIENTS}", field="model", value=tracked)
    for node in graph.graph.nodes:
        if _trains(graph, node):
            raise InvalidInput(
                f"{node.name!r} is in training mode, where dropout and batch normalisation compute something else: "
                "call .eval() on the model first",
                field="model",
                value=node.name,
            )


def _named(graph: fx.GraphModule, inputs: Sequence[Any]) -> list[tuple[str, Any]]:
    return [*zip(_placeholders(graph), inputs, strict=True), *graph.named_parameters()]


def _placeholders(graph: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in graph.graph.find_nodes(op="placeholder")]


def _trains(graph: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node calls a function with ``training=True``, or a module in training mode."""
    if node.op == "call_module":
        kinds = nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd
        part = graph.get_submodule(str(node.target))
        return part.training and isinstance(part, kinds)
    if node.op != "call_function":
        return False
    try:
        bound = inspect.signature(node.target).bind(*node.args, **node.kwargs)
    except (TypeError, ValueError):  # written in C++, where functions have no such argument
        return False
    bound.apply_defaults()
    return bound.arguments.get("training") is True


@dataclass(frozen=True)
class Frozen:
    """Extents of dynamic dimensions, by the input that has them."""

    extents: dict[str, list[int]]

    def __str__(self) -> str:
        """For a sentence."""
        return ", ".join(f"{name!r} to {extents}" for name, extents in self.extents.items())


def freeze(graph: fx.GraphModule, inputs: Sequence[Any]) -> Frozen:
    """Make Dynamo guard every dynamic dimension: a call with another extent is compiled anew.

    Raises:
        ModelRejected: an extent depends on values of tensors.
    """
    found: dict[str, list[int]] = {}
    for node, given in zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True):
        value = node.meta.get("example_value", given)
        shape = value.shape if isinstance(value, torch.Tensor) else (given,)
        try:
            extents = [int(each) for each in shape if isinstance(each, int | torch.SymInt)]
        except Exception as error:  # the solver has classes of its own for extents without a hint
            raise ModelRejected(
                f"an extent of {node.name!r} depends on values of tensors: {first_line(error)}",
                field="inputs",
                value=node.name,
            ) from error
        if isinstance(value, torch.Tensor) and any(isinstance(each, torch.SymInt) for each in shape):
            found[node.name] = extents
    return Frozen(found)


class _Alone(nn.Module):  # type: ignore[misc]
    """A graph as a module that takes only what changes from call to call."""

    def __init__(self, graph: fx.GraphModule, weights: dict[int, torch.Tensor], constants: dict[int, Any]) -> None:
        super().__init__()
        self.graph, self.constants = graph, constants
        self.places = list(weights)
        for place, value in weights.items():
            self.register_buffer(f"weight{place}", value.detach())

    def forward(self, *tensors: Any) -> Any:
        """The graph's outputs."""
        known = {**self.constants, **{place: getattr(self, f"weight{place}") for place in self.places}}
        given = iter(tensors)
        count = len(known) + len(tensors)
        return self.graph(*[known[place] if place in known else next(given) for place in range(count)])


@dataclass(frozen=True)
class Exported:
    """A graph as a program.

    Attributes:
        program: the ``torch.export.ExportedProgram``.
        places: which arguments of the graph it takes, in order.
        weights: the arguments that are constants of it.
        outputs: for each output of the graph its value, where that is no tensor; ``TENSOR`` otherwise.
    """

    program: Any
    places: tuple[int, ...]
    weights: dict[int, torch.Tensor]
    outputs: tuple[Any, ...]


def export(graph: fx.GraphModule, inputs: Sequence[Any]) -> Exported:
    """Export a graph for inputs of these shapes, its parameters and buffers inside.

    Raises:
        ModelRejected: ``torch.export`` cannot trace it, or a tensor is not on the CPU.
    """
    weights: dict[int, torch.Tensor] = {}
    constants: dict[int, Any] = {}
    for place, (node, given) in enumerate(zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True)):
        if not isinstance(given, torch.Tensor):
            constants[place] = int(given) if isinstance(given, torch.SymInt) else given
        elif given.device.type != "cpu":
            raise ModelRejected(
                f"{node.name!r} is on {given.device}, and tuned graphs run on the CPU", field="inputs", value=node.name
            )
        elif isinstance(given, nn.Parameter) or (node.meta.get("tensor_dict") or {}).get(STATIC):
            weights[place] = given
    places = tuple(place for place in range(len(inputs)) if place not in weights and place not in constants)
    module = _Alone(_without_grad_modes(graph), weights, constants).eval()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module, tuple(inputs[place].detach() for place in places), strict=False)
    except Exception as error:  # tracing runs the graph's operators, which raise whatever they raise
        raise ModelRejected(f"torch.export cannot trace it: {first_line(error)}", field="model") from error
    specs = program.graph_signature.output_specs
    outputs = tuple(getattr(each.arg, "value", TENSOR) for each in specs if each.kind.name == "USER_OUTPUT")
    return Exported(program, places, weights, outputs)


def _without_grad_modes(graph: fx.GraphModule) -> fx.GraphModule:
    """The graph without switches of the gradient mode, which compute nothing."""
    switches = [node for node in graph.graph.nodes if node.target is SET_GRAD]
    if not switches:
        return graph
    made = fx.GraphModule(graph, fx.Graph())
    made.graph.output(made.graph.graph_copy(graph.graph, {}))
    for node in [node for node in made.graph.nodes if node.target is SET_GRAD]:
        made.graph.erase_node(node)
    made.recompile()
    return made
