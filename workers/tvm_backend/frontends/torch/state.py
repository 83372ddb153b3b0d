"""What a PyTorch program does besides its results: buffers that it changes, and checks that may raise.

Buffers, such as caches of keys and values, are inputs and outputs of what is compiled. TVM's importer takes them for
constants, and drops what becomes of them.
"""

from __future__ import annotations

import importlib
from typing import Any


def expose(program: Any) -> list[str]:
    """Make them the last inputs of a ``torch.export.ExportedProgram`` in place, and what they become its last outputs.

    Returns:
        Their names in the PyTorch model, in the order of both.
    """
    signature = importlib.import_module("torch.export.graph_signature")
    found = program.graph_signature
    changed = list(found.buffers_to_mutate.values())
    if not changed:
        return []
    states = {spec.target: spec for spec in found.input_specs if spec.target in changed}
    found.input_specs[:] = [spec for spec in found.input_specs if spec.target not in changed] + [
        signature.InputSpec(signature.InputKind.USER_INPUT, states[name].arg, None) for name in changed
    ]
    for name in changed:
        program.constants.pop(name, None)
    _put_last(program, signature)
    return changed


def without_checks(program: Any) -> None:
    """Drop, in place, checks that a matrix has factors: where it has none, infinity or no number is the result."""
    torch = importlib.import_module("torch")
    check = torch.ops.aten._linalg_check_errors.default
    graph = program.graph_module.graph
    if not any(check in node.args for node in graph.nodes):
        return
    importlib.import_module("torch.export._remove_effect_tokens_pass")._remove_effect_tokens(program)
    for node in list(graph.nodes):
        if node.target is check:
            graph.erase_node(node)


def _put_last(program: Any, signature: Any) -> None:
    """Outputs that are buffers become outputs as others are, behind these."""
    specs = program.graph_signature.output_specs
    (output,) = (node for node in program.graph_module.graph.nodes if node.op == "output")
    last = [spec.kind.name == "BUFFER_MUTATION" for spec in specs]
    order = sorted(range(len(specs)), key=last.__getitem__)
    output.args = (tuple(output.args[0][at] for at in order),)
    program.graph_signature.output_specs[:] = [
        signature.OutputSpec(signature.OutputKind.USER_OUTPUT, specs[at].arg, None) if last[at] else specs[at]
        for at in order
    ]
