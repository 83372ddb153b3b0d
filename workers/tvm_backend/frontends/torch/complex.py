"""PyTorch programs that compute with complex numbers inside, as programs of pairs of real ones.

TVM has no complex numbers. A tensor of them is one with a last axis of two here, as ``torch.view_as_real`` makes it; a
Fourier transform is a product with its matrix, which is a constant.
"""

from __future__ import annotations

import importlib
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tunesmith.errors import UnsupportedOperator
from workers.tvm_backend.frontends import fourier
from workers.tvm_backend.frontends.torch import constants

NAME = "aten.fft"
"""Name of Fourier transforms, for refusals."""
BY_ROOT, BY_COUNT = 1, 2
"""How PyTorch numbers the ways to scale a Fourier transform; 0 is not at all."""


@dataclass(frozen=True)
class Pair:
    """A complex tensor.

    Attributes:
        parts: real and imaginary ones along the last axis.
    """

    parts: Any

    @property
    def rank(self) -> int:
        """Axes of the complex tensor."""
        return int(self.parts.ndim) - 1


def is_complex(program: Any) -> bool:
    """Whether a decomposed ``torch.export.ExportedProgram`` computes with complex numbers."""
    return any(_is_complex(node) for node in program.graph_module.graph.nodes)


def made_real(program: Any) -> Any:
    """The same program on pairs, traced anew.

    Raises:
        UnsupportedOperator: for inputs and outputs that are complex, and for operators that are not known here.
    """
    torch = importlib.import_module("torch")
    decompositions = importlib.import_module("workers.tvm_backend.frontends.torch.decompositions")
    wrapped, inputs = _wrapped(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(wrapped, tuple(inputs)).run_decompositions(decompositions.table())


def _is_complex(node: Any) -> bool:
    dtype = getattr(node.meta.get("val"), "dtype", None)
    return bool(getattr(dtype, "is_complex", False))


def _wrapped(program: Any) -> tuple[Any, list[Any]]:
    """A module that runs the program on pairs, and inputs to trace it with."""
    torch = importlib.import_module("torch")
    base: Any = torch.nn.Module
    interpreter = _interpreter(torch)(program.graph_module)
    held = {**program.constants, **program.state_dict}
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    order = constants.graph_inputs(program)
    for node in order:
        if node.name in names and _is_complex(node):
            raise _unsupported(f"the input {node.name!r} of complex numbers")

    class Real(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for node in order:
                if node.name not in names:
                    value = held[specs[node.name].target].detach().resolve_conj()
                    value = torch.view_as_real(value) if value.is_complex() else value
                    self.register_buffer(f"held_{node.name}", value)

        def forward(self, *tensors: Any) -> Any:
            given = dict(zip(names, tensors, strict=True))
            values = [given[node.name] if node.name in given else getattr(self, f"held_{node.name}") for node in order]
            found = interpreter.run(
                *(Pair(value) if _is_complex(node) else value for node, value in zip(order, values, strict=True))
            )
            return tuple(
                each
                for each, spec in zip(found, program.graph_signature.output_specs, strict=True)
                if spec.kind.name == "USER_OUTPUT"
            )

    values = {node.name: node.meta["val"] for node in order}
    return Real(), [torch.zeros(tuple(values[name].shape), dtype=values[name].dtype) for name in names]


def _interpreter(torch: Any) -> Any:
    """Runs a graph; what touches complex numbers is done on pairs."""
    base: Any = torch.fx.Interpreter

    class Interpreter(base):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            pairs = [each for each in _flat((args, tuple(kwargs.values()))) if isinstance(each, Pair)]
            if node.op == "output" and pairs:
                name = next(each.name for each in node.all_input_nodes if isinstance(self.env[each], Pair))
                raise _unsupported(f"the output {name!r} of complex numbers")
            if node.op != "call_function" or not (pairs or _is_complex(node)):
                return super().run_node(node)
            name = node.target.overloadpacket.__name__ if hasattr(node.target, "overloadpacket") else str(node.target)
            if name not in OPERATORS:
                source = node.args[0] if node.target is operator.getitem else node
                raise _unsupported(f"{source.target} of complex numbers at {source.name!r}")
            return OPERATORS[name](torch, *args, **{key: kwargs[key] for key in kwargs if key not in KINDS})

    return Interpreter


KINDS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


def _flat(values: Any) -> list[Any]:
    return [each for value in values for each in (_flat(value) if isinstance(value, (tuple, list)) else [value])]


def _unsupported(what: str) -> UnsupportedOperator:
    return UnsupportedOperator(
        f"{what}, which TVM does not have; export the model with real numbers there", field="file", operators={what: 1}
    )


def _parts(torch: Any, value: Any) -> Any:
    """Parts of a complex or real tensor, or of a number."""
    if isinstance(value, Pair):
        return value.parts
    if isinstance(value, complex):
        return torch.tensor([value.real, value.imag])
    value = value if hasattr(value, "ndim") else torch.tensor(float(value))
    return torch.stack([value, torch.zeros_like(value)], -1)


def _product(torch: Any, x: Any, y: Any) -> Pair:
    x, y = (x, y) if isinstance(x, Pair) else (y, x)
    x = x if isinstance(x, Pair) else Pair(_parts(torch, x))  # a number and a tensor of real ones
    if not isinstance(y, (Pair, complex)):
        return Pair(x.parts * (y.unsqueeze(-1) if hasattr(y, "ndim") else y))
    (a, b), (c, d) = x.parts.unbind(-1), _parts(torch, y).unbind(-1)
    return Pair(torch.stack([a * c - b * d, a * d + b * c], -1))


def _matrix_product(torch: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = _parts(torch, x).unbind(-1), _parts(torch, y).unbind(-1)
    return Pair(torch.stack([a @ c - b @ d, a @ d + b @ c], -1))


def _quotient(torch: Any, x: Any, y: Any) -> Pair:
    if not isinstance(y, (Pair, complex)):
        return Pair(_parts(torch, x) / (y.unsqueeze(-1) if hasattr(y, "ndim") else y))
    parts = _parts(torch, y)
    other = Pair(torch.stack([parts[..., 0], -parts[..., 1]], -1))
    return Pair(_product(torch, Pair(_parts(torch, x)), other).parts / (parts * parts).sum(-1, keepdim=True))


def _conjugate(torch: Any, z: Pair) -> Pair:
    return Pair(torch.stack([z.parts[..., 0], -z.parts[..., 1]], -1))


def _filled(torch: Any, shape: Any, value: complex) -> Pair:
    return Pair(torch.stack([torch.full(list(shape), float(part)) for part in (value.real, value.imag)], -1))


def _turned(torch: Any, size: Any, angle: Any) -> Pair:
    return Pair(torch.stack([size * torch.cos(angle), size * torch.sin(angle)], -1))


def _moved(method: str, more: int = 0) -> Callable[..., Pair]:
    """An operator whose first argument names axes, as a number or a list: the pairs' axis is none of them."""

    def apply(torch: Any, z: Pair, axes: Any = 0, *args: Any) -> Pair:
        rank = z.rank + more
        front = [axis % rank for axis in axes] if isinstance(axes, (list, tuple)) else axes % rank
        return Pair(getattr(torch.ops.aten, method)(z.parts, front, *args))

    return apply


def _same(method: str) -> Callable[..., Pair]:
    """An operator that does the same to both parts."""
    return lambda torch, *args: Pair(getattr(torch.ops.aten, method)(*(_parts(torch, each) for each in args)))


def _fourier(torch: Any, z: Any, axis: int, forward: bool, scale: float, count: int | None = None) -> Any:
    """Along one axis.

    Args:
        z: a Pair, or the real tensor of a transform that is of real numbers.
        count: elements of a real result; None for a complex one.
    """
    parts = z.parts if isinstance(z, Pair) else z.unsqueeze(-1)
    moved = parts.movedim(axis, -2)
    length = int(moved.shape[-2])
    matrix = (
        fourier.to_complex(NAME, length, forward, int(parts.shape[-1]))
        if count is None
        else fourier.to_real(NAME, count)
    ) * scale
    found = moved.flatten(-2) @ torch.from_numpy(matrix).to(parts.dtype)
    if count is not None:
        return found.movedim(-1, axis)
    return Pair(found.unflatten(-1, (length, 2)).movedim(-2, axis))


def _scale(extents: list[int], way: int) -> float:
    count = math.prod(extents)
    return 1 / math.sqrt(count) if way == BY_ROOT else 1 / count if way == BY_COUNT else 1.0


def _transform(torch: Any, z: Pair, axes: list[int], way: int, forward: bool) -> Pair:
    axes = [axis % z.rank for axis in axes]
    scale = _scale([int(z.parts.shape[axis]) for axis in axes], way)
    for axis in axes:
        z, scale = _fourier(torch, z, axis, forward, scale), 1.0
    return z


def _transform_real(torch: Any, x: Any, axes: list[int], way: int, half: bool) -> Pair:
    axes = [axis % x.ndim for axis in axes]
    last, length = axes[-1], int(x.shape[axes[-1]])
    z = _fourier(torch, x, last, True, _scale([int(x.shape[axis]) for axis in axes], way))
    z = Pair(z.parts.narrow(last, 0, length // 2 + 1)) if half else z
    return _transform(torch, z, axes[:-1], 0, True) if axes[:-1] else z


def _transform_to_real(torch: Any, z: Pair, axes: list[int], way: int, count: int) -> Any:
    axes = [axis % z.rank for axis in axes]
    scale = _scale([*(int(z.parts.shape[axis]) for axis in axes[:-1]), count], way)
    z = _transform(torch, z, axes[:-1], 0, False) if axes[:-1] else z
    kept = Pair(z.parts.narrow(axes[-1], 0, count // 2 + 1))
    return _fourier(torch, kept, axes[-1], False, scale, count)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "view_as_complex": lambda torch, x: Pair(x),
    "view_as_real": lambda torch, z: z.parts,
    "complex": lambda torch, a, b: Pair(torch.stack(torch.broadcast_tensors(a, b), -1)),
    "polar": _turned,
    "real": lambda torch, z: z.parts[..., 0],
    "imag": lambda torch, z: z.parts[..., 1],
    "abs": lambda torch, z: (z.parts * z.parts).sum(-1).sqrt(),
    "angle": lambda torch, z: torch.atan2(z.parts[..., 1], z.parts[..., 0]),
    "exp": lambda torch, z: _turned(torch, z.parts[..., 0].exp(), z.parts[..., 1]),
    "mul": _product,
    "div": _quotient,
    "mm": _matrix_product,
    "bmm": _matrix_product,
    "full": _filled,
    **dict.fromkeys(("_conj", "_conj_physical", "conj_physical"), _conjugate),
    **{name: _same(name) for name in ("add", "sub", "neg", "clone", "alias", "detach")},
    "resolve_conj": lambda torch, z: z,
    "_to_copy": lambda torch, x: Pair(_parts(torch, x)),
    **dict.fromkeys(("view", "_unsafe_view", "reshape"), lambda torch, z, shape: Pair(z.parts.reshape([*shape, 2]))),
    "expand": lambda torch, z, shape: Pair(z.parts.expand([*shape, 2])),
    "permute": lambda torch, z, axes: Pair(z.parts.permute([*(axis % z.rank for axis in axes), z.rank])),
    "transpose": lambda torch, z, a, b: Pair(z.parts.transpose(a % z.rank, b % z.rank)),
    "unsqueeze": _moved("unsqueeze", more=1),
    "squeeze": _moved("squeeze"),
    "select": _moved("select"),
    "slice": _moved("slice"),
    "flip": _moved("flip"),
    "sum": _moved("sum"),
    "mean": _moved("mean"),
    "slice_scatter": lambda torch, z, to, axis=0, *rest: Pair(
        torch.ops.aten.slice_scatter(z.parts, _parts(torch, to), axis % z.rank, *rest)
    ),
    "cat": lambda torch, all, axis=0: Pair(
        torch.cat([_parts(torch, each) for each in all], axis % (_parts(torch, all[0]).ndim - 1))
    ),
    "index": lambda torch, z, indices: Pair(torch.ops.aten.index(z.parts, indices)),
    "where": lambda torch, mask, x, y: Pair(torch.where(mask.unsqueeze(-1), _parts(torch, x), _parts(torch, y))),
    "constant_pad_nd": lambda torch, z, pad, value=0: Pair(torch.nn.functional.pad(z.parts, [0, 0, *pad], value=value)),
    "copy": lambda torch, z, to, *_: Pair(_parts(torch, to)),
    "_fft_c2c": _transform,
    "_fft_r2c": _transform_real,
    "_fft_c2r": _transform_to_real,
}
"""By name: called with torch and the operator's arguments, complex ones as pairs."""
