"""What TVM made of the JSON: a module whose ``main`` has fixed shapes, and functions that a schedule can change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.runtime import Object
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, For, PrimFunc

from tunesmith.errors import DynamicShape, InvalidInput, ModelRejected
from workers.tvm_backend.frontends.onnx.reader import check_shape
from workers.tvm_backend.frontends.tvm_json import bounds, sums

MAIN = "main"
KEPT = ("tirx.noalias", "s_tir")
"""Attributes of a PrimFunc that stay: others say how somebody wants it lowered or scheduled."""
HARMLESS = frozenset({"axis", "layout_free_placeholders"})
"""Annotations that change nothing here: TVM's own operators write them."""
RULE = "schedule_rule"
RULES = frozenset(
    {"None", *(f"meta_schedule.{kind}pool_{how}" for kind in ("", "adaptive_") for how in ("avg", "max"))}
)
"""An annotation that names a function for a schedule to call, and what TVM's own operators write there."""


def as_module(found: tvm.IRModule | PrimFunc) -> tvm.IRModule:
    """A module with a Relax function ``main``, without attributes of others; a lone PrimFunc gets one that calls it.

    Raises:
        ModelRejected: there is no ``main``, or a function that cannot be tuned, and why.
        DynamicShape: a PrimFunc has an extent without a number.
    """
    functions = {_symbol(found): found} if isinstance(found, PrimFunc) else _by_name(found)
    plain = {name: _plain(name, each) for name, each in functions.items() if isinstance(each, PrimFunc)}
    others = [name for name in functions if name not in plain]
    if not others and len(plain) == 1:
        ((name, function),) = plain.items()
        return _calling(name, function)
    if others != [MAIN] or not isinstance(functions[MAIN], relax.Function):
        raise ModelRejected(
            f"the module has the functions {_listed(functions)}, and a model is one Relax function main that calls "
            "PrimFuncs, or a single PrimFunc: inline other Relax functions (relax.transform.InlinePrivateFunctions), "
            "or give one PrimFunc",
            field="file",
            value=sorted(functions)[:20],
        )
    main = functions[MAIN]
    mod = tvm.IRModule({found.get_global_var(name): plain[name] for name in plain})
    mod[found.get_global_var(MAIN)] = relax.Function(main.params, main.body, main.ret_ty, main.is_pure).with_attr(
        "global_symbol", MAIN
    )
    relax.analysis.well_formed(mod)  # raises what is wrong with it
    return bounds.as_operators(sums.as_additions(mod))


def with_inputs(mod: tvm.IRModule, shapes: Mapping[str, tuple[int, ...]]) -> tvm.IRModule:
    """The module for inputs of fixed shapes, whose names it then has as an attribute.

    Raises:
        DynamicShape: an input has an extent without a number, and no shape is given for it.
        InvalidInput: a shape does not fit, or is of no input.
        ModelRejected: an input is no tensor.
    """
    main = mod[MAIN]
    names = _unique(str(var.name) for var in main.params)
    for name in shapes:
        if name not in names:
            raise InvalidInput(
                f"the model has no input {name!r}, it has {', '.join(map(repr, names)) or 'none'}",
                field="inputs",
                value=name,
            )
    bound: dict[Any, int] = {}
    for name, var in zip(names, main.params, strict=True):
        extents = _extents(name, var.ty)
        given = shapes.get(name)
        check_shape(name, [int(each) if isinstance(each, tvm.tirx.IntImm) else str(each) for each in extents], given)
        for extent, value in zip(extents, given or (), strict=False):
            if not isinstance(extent, tvm.tirx.IntImm) and bound.setdefault(extent, value) != value:
                raise InvalidInput(
                    f"input {name!r}: the dimension {extent} is {bound[extent]} elsewhere and {value} here",
                    field="inputs",
                    value=list(given or ()),
                )
    if bound:
        main = main.bind_symbolic_vars(bound)
    mod = tvm.IRModule(dict(mod.functions.items()))
    mod[MAIN] = main.with_attr("num_input", len(names)).with_attr("input_names", json.dumps(names))
    return mod


def _extents(name: str, kind: Any) -> list[Any]:
    """The extents of an input; those without a number are variables."""
    if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
        raise ModelRejected(
            f"input {name!r} of main is no tensor of a shape with names or numbers: give every input as a tensor, such "
            'as R.Tensor(("n", 16), "float32")',
            field="file",
            value=name,
        )
    strange = next((each for each in kind.shape.values if not isinstance(each, tvm.tirx.IntImm | tvm.tirx.Var)), None)
    if strange is not None:
        raise ModelRejected(
            f"input {name!r} has the computed extent {strange}: give inputs whose extents are names or numbers",
            field="file",
            value=name,
        )
    return list(kind.shape.values)


def _symbol(function: PrimFunc) -> str:
    return str((function.attrs or {}).get("global_symbol", MAIN))


def _by_name(mod: tvm.IRModule) -> dict[str, Any]:
    return {str(var.name_hint): function for var, function in mod.functions.items()}


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found


def _listed(functions: Mapping[str, Any]) -> str:
    names = sorted(functions)
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "") if names else "none"


def _plain(name: str, function: PrimFunc) -> PrimFunc:
    """The function with attributes of its own kind alone, once it can be scheduled."""
    attrs = {str(key): value for key, value in (function.attrs or {}).items()}
    if attrs.get("tirx.is_scheduled"):
        raise _refused(name, "is scheduled already (tirx.is_scheduled): give it as it was before")
    blocks: list[Any] = []
    loops: list[Any] = []
    tvm_ffi.structural_walk(function.body, (SBlock, blocks.append))
    tvm_ffi.structural_walk(function.body, (For, loops.append))
    if not any(block.iter_vars for block in blocks):
        raise _refused(name, "has no block with axes, so no schedule can change it: write it with T.sblock or TE")
    for loop in loops:
        if int(loop.kind) != 0 or loop.thread_binding is not None:
            raise _refused(name, f"has the loop {loop.loop_var.name}, which is not serial: give it before scheduling")
    marks = [(str(key), value) for each in (*blocks, *loops) for key, value in (each.annotations or {}).items()]
    for key, value in marks:
        if key not in HARMLESS and (key != RULE or str(value) not in RULES):
            said = f"{key} = {value}"[:100]
            raise _refused(name, f"has the annotation {said!r}, which a schedule would heed: give it without")
    for each in function.params:
        _check_parameter(name, each)
    made = PrimFunc(function.params, function.body, function.ret_type)
    for key in KEPT:
        made = made.with_attr(key, attrs[key]) if key in attrs else made
    return made


def _check_parameter(name: str, each: Any) -> None:
    shape = getattr(each.ty, "shape", None)
    if shape is None:
        raise _refused(name, f"has the parameter {each.name}, which is no buffer: make it a constant, or a buffer")
    dynamic = [str(extent) for extent in shape if not isinstance(extent, tvm.tirx.IntImm)]
    if dynamic:
        raise DynamicShape(
            f"buffer {each.name} of the function {name} has the extent {dynamic[0]}, which is no number: give a "
            "function of fixed shapes",
            field="inputs",
            value=str(each.name),
            dimensions=dynamic,
        )


def _calling(name: str, function: PrimFunc) -> tvm.IRModule:
    """A module whose ``main`` calls a function, the last buffer of which is its output."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, (BufferStore, stores.append))
    written = {_key(store.buffer) for store in stores}
    outputs = [at for at, each in enumerate(function.params) if _key(each) in written]
    if outputs != [len(function.params) - 1] or len(function.params) < 2:
        made = ", ".join(str(function.params[at].name) for at in outputs) or "none"
        raise _refused(name, f"writes {made} of its parameters, and has to write the last one only, from others")
    *taken, result = [relax.TensorType([int(n) for n in each.ty.shape], str(each.ty.dtype)) for each in function.params]
    builder = relax.BlockBuilder()
    called = builder.add_func(function, "program" if name == MAIN else name)
    params = [relax.Var(str(each.name), kind) for each, kind in zip(function.params, taken, strict=False)]
    with builder.function(MAIN, params):
        with builder.dataflow():
            out = builder.emit_output(relax.call_tir(called, params, result))
        builder.emit_func_output(out)
    return builder.get()


def _refused(name: str, problem: str) -> ModelRejected:
    return ModelRejected(f"the function {name} {problem}", field="file", value=name)


def _key(node: Any) -> int:
    return int(Object.__hash__(node))
