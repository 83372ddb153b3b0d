"""PyTorch modules into files that a server takes: ``torch.export`` in the process that has the module."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput, ModelRejected, first_line
from tunesmith.sdk.calling import OfProgram

MISSING = (
    "a torch.nn.Module is exported by running it once: give it example inputs, such as "
    "tunesmith.tune(net, (torch.zeros(1, 3, 224, 224),))"
)


def export(module: Any, inputs: Any, path: Path) -> OfProgram:
    """Write a module in evaluation mode as a ``.pt2`` archive.

    Args:
        module: a ``torch.nn.Module`` whose parameters are on the CPU.
        inputs: a tensor, a sequence of positional arguments, or a mapping from names of arguments to them; arrays of
            NumPy count as tensors. The model takes these shapes and types only.
        path: the archive to write.

    Raises:
        InvalidInput: no inputs, a module in training mode or on another device.
        ModelRejected: torch.export cannot trace it.
    """
    torch = importlib.import_module("torch")
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise InvalidInput(f"{name} is a TorchScript module, which torch.export does not take: pass the nn.Module")
    _check(module, name)
    forward = inspect.signature(module.forward)
    args, kwargs = _arguments(torch, forward, inputs, name)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates its own calls
            program = torch.export.export(module, args, kwargs)
    except Exception as error:
        # Tracing runs the module, which raises whatever it raises.
        raise ModelRejected(
            f"torch.export cannot trace {name} with these inputs: {first_line(error)}; the module has to run without "
            "decisions on the values of tensors (see torch.export's documentation)",
            field="model",
        ) from error
    return save(program, path, forward)


def save(program: Any, path: Path, forward: inspect.Signature | None = None) -> OfProgram:
    """Write an exported program.

    Raises:
        ModelRejected: it changes its buffers or its inputs.
    """
    torch, changed = importlib.import_module("torch"), _changed(program)
    if changed:
        raise ModelRejected(
            f"the model changes {', '.join(map(repr, changed[:5]))} when it is called, and a tuned model has no state: "
            "return the new values instead",
            field="model",
            value=changed[0],
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
    return OfProgram(program, forward)


def _changed(program: Any) -> list[str]:
    """Names of the buffers and inputs that a program changes: its signature has them once nothing works in place."""
    schemas = [getattr(node.target, "_schema", None) for node in program.graph.nodes if node.op == "call_function"]
    if any(schema is not None and schema.is_mutable for schema in schemas):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = program.run_decompositions({})
    signature = program.graph_signature
    return [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]


def _check(module: Any, name: str) -> None:
    training = next((where for where, part in module.named_modules() if part.training), None)
    if training is not None:
        what = f"{training!r} in {name}" if training else name
        raise InvalidInput(
            f"{what} is in training mode, where dropout and batch normalisation compute something else: call .eval() "
            "on the model first",
            field="model",
            value=training or name,
        )
    for where, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type != "cpu":
            raise InvalidInput(
                f"{where!r} of {name} is on {tensor.device}: call .cpu() on the model first; the target says where the "
                "tuned model runs",
                field="model",
                value=where,
            )


def _arguments(
    torch: Any, forward: inspect.Signature, inputs: Any, name: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as arguments of ``forward``."""
    if inputs is None:
        raise InvalidInput(MISSING, field="inputs")
    numpy, tree = importlib.import_module("numpy"), importlib.import_module("torch.utils._pytree")
    if isinstance(inputs, torch.Tensor | numpy.ndarray):
        inputs = (inputs,)
    if not isinstance(inputs, Mapping | tuple | list):
        raise InvalidInput(
            f"example inputs are a tensor, a sequence or a mapping of tensors, not {type(inputs).__name__}",
            field="inputs",
            value=type(inputs).__name__,
        )
    inputs = tree.tree_map(lambda x: torch.from_numpy(x) if isinstance(x, numpy.ndarray) else x, inputs)
    given, named = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
    try:
        bound = forward.bind(*given, **named)
    except TypeError as error:
        raise InvalidInput(f"{name} cannot be called with these example inputs: {error}", field="inputs") from error
    return bound.args, dict(bound.kwargs)
