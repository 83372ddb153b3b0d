"""How a tuned model is called: from the arguments of its user to tensors in a row, and from those to a result."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tunesmith.errors import InvalidInput

TENSOR = object()
"""Where an argument or an output of a PyTorch program is a tensor and not a constant."""


class Calling(Protocol):
    """Between a model's own arguments and results, and tensors in a row."""

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call, in the order in which the model takes them. Raises InvalidInput."""

    def result(self, outputs: Sequence[Any]) -> Any:
        """What the model returns for its outputs."""


@dataclass(frozen=True)
class ByName:
    """Inputs in their order or by name; one output is returned as it is, several as a tuple.

    Attributes:
        names: names of the model's inputs, in order.
    """

    names: tuple[str, ...]

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """See :class:`Calling`."""
        if not kwargs and len(args) == len(self.names):
            return list(args)
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        problem = self._problem(len(args), kwargs)
        if problem:
            taken = ", ".join(self.names) or "none"
            raise InvalidInput(f"{problem}; the model takes {taken}, in this order or by name", field="inputs")
        return [given[name] for name in self.names]

    def _problem(self, count: int, kwargs: Mapping[str, Any]) -> str:
        if count > len(self.names):
            return f"{count} inputs are given"
        for name in kwargs:
            if name not in self.names:
                return f"there is no input {name!r}"
            if name in self.names[:count]:
                return f"input {name!r} is given twice"
        missing = [name for name in self.names[count:] if name not in kwargs]
        return f"input {missing[0]!r} is missing" if missing else ""

    def result(self, outputs: Sequence[Any]) -> Any:
        """See :class:`Calling`."""
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class OfProgram:
    """Arguments and results of a PyTorch program, in the structure that it was exported with.

    Args:
        program: the ``torch.export.ExportedProgram``.
        forward: signature of the module's ``forward``; None for a program that came without one.
    """

    def __init__(self, program: Any, forward: inspect.Signature | None) -> None:
        self._forward, self._spec, self._made = forward, program.call_spec.in_spec, program.call_spec.out_spec
        given = [each.arg for each in program.graph_signature.input_specs if each.kind.name == "USER_INPUT"]
        self._constants = [getattr(each, "value", TENSOR) for each in given]

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """See :class:`Calling`."""
        given = tuple(args), dict(kwargs)
        if self._forward is not None:
            try:
                bound = self._forward.bind(*args, **kwargs)
            except TypeError as error:
                raise InvalidInput(f"the model cannot be called so: {error}", field="inputs") from error
            given = bound.args, bound.kwargs
        leaves, spec = _tree().tree_flatten(given)
        if spec != self._spec:
            raise InvalidInput(
                f"the arguments are not of the structure that the model was tuned with, {self._spec}: {spec}; pass as "
                "many, as deep and under the same names, or tune it for these",
                field="inputs",
            )
        for leaf, constant in zip(leaves, self._constants, strict=True):
            if constant is not TENSOR and not (leaf is constant or bool(leaf == constant)):
                raise InvalidInput(
                    f"the model was tuned with the value {constant!r}, which is part of its program, and not with "
                    f"{leaf!r}; tune it for that",
                    field="inputs",
                    value=str(leaf)[:100],
                )
        return [leaf for leaf, constant in zip(leaves, self._constants, strict=True) if constant is TENSOR]

    def result(self, outputs: Sequence[Any]) -> Any:
        """See :class:`Calling`."""
        return _tree().tree_unflatten(list(outputs), self._made)


def _tree() -> Any:
    """PyTorch's containers of tensors."""
    return importlib.import_module("torch.utils._pytree")
