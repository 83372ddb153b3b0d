"""``torch.export`` archives (``.pt2``) into Relax."""

from __future__ import annotations

import collections
import importlib
import json
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import tvm

from tunesmith.errors import (
    InvalidInput,
    MissingDependency,
    ModelRejected,
    TunesmithError,
    UnsupportedOperator,
    first_line,
)
from tunesmith.model_files import check_archive
from workers.tvm_backend.frontends import refusals
from workers.tvm_backend.frontends.onnx.reader import check_shape
from workers.tvm_backend.frontends.torch import (
    archive,
    complex,
    constants,
    edges,
    graph,
    operators,
    precision,
    quantized,
    refuse,
    resize,
    state,
)


def read(path: Path, shapes: dict[str, tuple[int, ...]]) -> tvm.IRModule:
    """Import a ``.pt2`` file; see :func:`workers.tvm_backend.frontends.import_model.import_model`."""
    check_archive(path)
    program = _load(path)
    try:
        return _imported(program, shapes)
    except TunesmithError:
        raise
    except Exception as error:
        # As with ONNX: a converter raises whatever it happens to raise, and so does torch where a program lacks a part.
        raise ModelRejected(f"TVM cannot import the model: {first_line(error)}", field="file") from error


def _imported(program: Any, shapes: dict[str, tuple[int, ...]]) -> tvm.IRModule:
    names = _check_inputs(program, shapes)
    program = _decomposed(_with_extents(program, names, shapes))
    state.without_checks(program)
    names += state.expose(program)
    refuse.check(program)
    translator = importlib.import_module("tvm.relax.frontend.torch.exported_program_translator")
    own = {name: _placed(convert) for name, convert in operators.converters().items()}
    constants.check_sizes(program)
    quantized.check_scales(program)
    constants.fold(program)
    quantized.check_scales(program)  # those that it computed
    if complex.is_complex(program):
        program = complex.made_real(program)
        constants.fold(program)
    edges.filled(program)
    edges.with_elements(program)
    edges.with_dimensions(program)
    precision.widened(program)
    graph.made_explicit(program)
    _check_operators(program, {*translator.ExportedProgramImporter().convert_map, *own})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mod = translator.from_exported_program(
            program, unwrap_unit_return_tuple=True, run_ep_decomposition=False, custom_convert_map=dict(own)
        )
    main = mod["main"].with_attr("num_input", len(names)).with_attr("input_names", json.dumps(names))
    mod["main"] = main
    return mod


def _placed(convert: resize.Convert) -> resize.Convert:
    """A converter whose refusals name the operator and its place."""

    def converted(node: Any, importer: Any) -> Any:
        with refusals.at(f"{node.target}, which makes {node.name!r},"):
            return convert(node, importer)

    return converted


def _load(path: Path) -> Any:
    try:
        for name in ("torch", "torch.export"):
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "importing a .pt2 model needs torch: install the extra 'torch', "
            "for example with: pip install 'tunesmith[torch]'",
            field="file",
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates its own calls
            importlib.import_module(quantized.OPERATORS)
            return archive.load(path)
    except TunesmithError:
        raise
    except Exception as error:
        # torch raises its own, zip's and schema errors here.
        raise ModelRejected(f"torch cannot load the exported program: {first_line(error)}", field="file") from error


def _check_inputs(program: Any, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    names = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT" and not hasattr(spec.arg, "value")
    ]
    for name in shapes:
        if name not in names:
            raise InvalidInput(
                f"the model has no input {name!r}, it has {', '.join(map(repr, names)) or 'none'}",
                field="inputs",
                value=name,
            )
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name in names:
        value: Any = values.get(name)
        if not hasattr(value, "shape"):
            raise ModelRejected(f"input {name!r} is not a tensor", field="file", value=name)
        dims: list[int | str] = [int(d) if str(d).isdecimal() else str(d) for d in value.shape]
        check_shape(name, dims, shapes.get(name))
    return names


def _check_operators(program: Any, known: Collection[str]) -> None:
    missing: collections.Counter[str] = collections.Counter()
    places: dict[str, str] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target.__name__ not in known:
            missing[str(node.target)] += 1
            places.setdefault(str(node.target), node.name)
    if missing:
        listed = ", ".join(f"{name} ({count}×, at {places[name]!r})" for name, count in sorted(missing.items()))
        raise UnsupportedOperator(
            f"TVM's importer lacks operators of this model: {listed}; export it without them",
            field="file",
            operators=dict(sorted(missing.items())),
        )


def _with_extents(program: Any, names: list[str], shapes: dict[str, tuple[int, ...]]) -> Any:
    """The program for inputs of the given shapes alone, traced anew where one had a dimension without a number.

    Extents that a program computes are numbers then, and what depends on them alone is a constant.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    bound: dict[str, int] = {}
    for name in names:
        for dim, given in zip(values[name].shape, shapes.get(name, ()), strict=False):
            if not str(dim).isdecimal() and bound.setdefault(str(dim), given) != given:
                raise InvalidInput(
                    f"input {name!r}: the dimension {dim} is {bound[str(dim)]} elsewhere and {given} here",
                    field="inputs",
                    value=list(shapes[name]),
                )
    if not bound and len(names) == program.call_spec.in_spec.num_leaves:
        return program
    extents = {name: [int(extent) for extent in shapes.get(name, values[name].shape)] for name in names}
    try:
        return _traced(program, {name: values[name].new_zeros(extents[name]) for name in names})
    except Exception as error:
        # Tracing runs the model's operators on shapes, which raise what they happen to raise.
        raise InvalidInput(
            f"torch cannot run the program on inputs of these shapes: {first_line(error)}",
            field="inputs",
            value=extents,
        ) from error


def _traced(program: Any, inputs: Mapping[str, Any]) -> Any:
    """The program traced anew, as one that takes only tensors."""
    torch = importlib.import_module("torch")
    given = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    module, tree = program.module(check_guards=False), torch.utils._pytree
    base: Any = torch.nn.Module

    class Alone(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: Any) -> Any:
            known = dict(zip(inputs, tensors, strict=True))
            leaves = [known.get(each.name, getattr(each, "value", None)) for each in given]
            args, kwargs = tree.tree_unflatten(leaves, program.call_spec.in_spec)
            return self.module(*args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(Alone(), tuple(inputs.values()))


def _decompositions() -> Any:
    """They import PyTorch, which processes without PyTorch programs leave alone."""
    return importlib.import_module("workers.tvm_backend.frontends.torch.decompositions")


def _decomposed(program: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions(_decompositions().table())
    except Exception as error:
        # Decompositions raise what they happen to raise.
        reason = first_line(error)
        places = [f" at {node.name!r}" for node in program.graph.nodes if str(node.target) in reason]
        raise ModelRejected(
            f"torch cannot decompose the exported program: {reason}{''.join(places[:1])}; "
            "export it without this operator",
            field="file",
        ) from error
