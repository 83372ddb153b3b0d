"""What of an exported PyTorch program no compiled model can do, said by the operator's name and place."""

from __future__ import annotations

import collections
import importlib
from typing import Any

from tunesmith.errors import ModelRejected, UnsupportedOperator

RANDOM = "nondeterministic_seeded"
"""PyTorch's tag of operators that draw numbers."""
DROPOUTS = frozenset({"native_dropout", "dropout"})
UNDEFINED = frozenset({"empty", "empty_like", "new_empty"})


def check(program: Any) -> None:
    """Refuse a decomposed ``torch.export.ExportedProgram`` by what it is to do.

    Raises:
        UnsupportedOperator: it draws random numbers, or has tensors whose extents depend on data.
        ModelRejected: it returns what is no tensor.
    """
    _check_outputs(program)
    random: collections.Counter[str] = collections.Counter()
    for node in program.graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if is_random(node):
            random[str(node.target)] += 1
        _check_extents(node)
    if random:
        listed = ", ".join(f"{name} ({count}×)" for name, count in sorted(random.items()))
        raise UnsupportedOperator(
            f"the program draws random numbers: {listed}; a compiled model has none of its own: export the model after "
            "model.eval(), or pass the numbers as an input",
            field="file",
            operators=dict(sorted(random.items())),
        )


def is_random(node: Any) -> bool:
    """Whether a node of an exported program draws numbers."""
    if RANDOM not in {tag.name for tag in getattr(node.target, "tags", ())} or not node.users:
        return False
    name = node.target.overloadpacket.__name__
    if name in DROPOUTS:
        return bool(node.args[1]) and bool([*node.args, True][2])
    return "_scaled_dot_product" not in name or bool([*node.args, 0.0, 0.0][3])


def _check_extents(node: Any) -> None:
    found = node.meta.get("val")
    for value in found if isinstance(found, list | tuple) else [found]:
        unknown = [str(extent) for extent in getattr(value, "shape", ()) if str(extent).startswith("u")]
        if unknown:
            raise UnsupportedOperator(
                f"{node.target} makes {node.name!r}, whose extents depend on the values of a tensor; export the model "
                "with a fixed number of elements there, such as a mask or torch.topk",
                field="file",
                operators={str(node.target): 1},
            )


def _check_outputs(program: Any) -> None:
    torch = importlib.import_module("torch")
    arguments = torch.export.graph_signature
    for at, spec in enumerate(program.graph_signature.output_specs):
        if isinstance(spec.arg, arguments.ConstantArgument) and spec.arg.value is None:
            continue
        if not isinstance(spec.arg, arguments.TensorArgument):
            value = getattr(spec.arg, "value", spec.arg.name)
            raise ModelRejected(
                f"output {at} of the program is {value!r}, which is no tensor; return tensors alone",
                field="file",
                value=str(value)[:200],
            )
