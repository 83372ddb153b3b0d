"""A user's own Relax module, in the user's own process, in the form in which models are tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import transform
from tvm.s_tir import meta_schedule as ms

from tunesmith.preparation import Preparation
from workers.tvm_backend import tir
from workers.tvm_backend.export import script
from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.tvm_json import programs
from workers.tvm_backend.passes import pipeline

Better = Callable[[tvm.tirx.PrimFunc, tvm.tirx.PrimFunc], bool]
"""Whether the second of two functions, which compute the same, is the one to run."""
PATTERN, OPAQUE = "op_pattern", 8
"""TVM's attribute by which functions are fused, and its value for those that never are."""
FORM, NO_PATTERN = "tunesmith.pattern", -1
"""An attribute of functions in the form that is tuned, with the pattern that they had."""


def in_tuned_form(
    mod: tvm.IRModule, preparation: Preparation, shapes: Mapping[str, tuple[int, ...]], better: Better
) -> tuple[tvm.IRModule, str]:
    """The module as it is prepared for a job, and what to tell its user about that.

    Weights stay inside. A module that is in this form already stays as it is. Later passes leave the functions as they
    are: ``zero`` fuses none of them anew.

    Args:
        mod: a module with a Relax function ``main``, as an importer of TVM makes it.
        shapes: static shapes of dynamic inputs, by name.
        better: chooses between a convolution and Winograd's algorithm.

    Raises:
        ModelRejected: or a subclass: it has no form that is tuned, and why.
        InvalidInput: a shape does not fit.
    """
    if any(FORM in (getattr(each, "attrs", None) or {}) for each in mod.functions.values()):
        return mod, ""
    made = programs.with_inputs(programs.as_module(mod), shapes)
    sizes.check_module(made)
    names = [str(var.name) for var in made["main"].params]
    made, note = pipeline.tuned_form(made, preparation)
    made = script().choose_programs(made, lambda here, there: better(made[here], made[there]))
    made = transform.LegalizeOps()(made)  # reshapes, which `zero` would make functions of and fuse
    return _marked(pipeline.with_named_inputs(made, names)), note


def _marked(mod: tvm.IRModule) -> tvm.IRModule:
    functions = {
        var: function.with_attr(FORM, (function.attrs or {}).get(PATTERN, NO_PATTERN)).with_attr(PATTERN, OPAQUE)
        if isinstance(function, tvm.tirx.PrimFunc)
        else function
        for var, function in mod.functions.items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def unmarked(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """The function as it is tuned, without the mark that keeps it as it is."""
    if FORM not in (function.attrs or {}):
        return function
    pattern = function.attrs[FORM]
    function = function.without_attr(FORM)
    return function.without_attr(PATTERN) if int(pattern) == NO_PATTERN else function.with_attr(PATTERN, pattern)


def workload_hash(function: tvm.tirx.PrimFunc) -> str:
    """The hash by which records of a function are found."""
    mod = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")(unmarked(function))
    return str(ms.database.Workload(mod).as_json()[0])


def workload_hashes(module: bytes) -> set[str]:
    """The hashes of all functions of a prepared module."""
    functions = tir.load_module(module).functions.values()
    return {workload_hash(each) for each in functions if isinstance(each, tvm.tirx.PrimFunc)}


def with_names_of(mod: tvm.IRModule, program: str) -> tvm.IRModule:
    """A module with one function, whose blocks are called as in another of the same hash.

    Operators of TVM name blocks after variables of the model. A trace is of the names of the one that was tuned.

    Args:
        program: JSON of the other module.
    """
    function, other = mod["main"], tir.load_module(program.encode())["main"]
    named = tvm.tirx.PrimFunc(other.params, other.body, other.ret_type)
    for key, value in (function.attrs or {}).items():
        named = named.with_attr(key, value)
    return tvm.IRModule({"main": named}) if tvm_ffi.structural_equal(named, function) else mod


def is_view(function: tvm.tirx.PrimFunc) -> bool:
    """Whether it only gives a tensor another shape, which costs nothing."""
    return bool(relax.analysis.has_reshape_pattern(function))


def with_defaults(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The module with the schedule of the exported script for each function that has none."""
    steps = script()
    steps.load_intrinsics(target.kind.name)
    made, _ = steps.apply_forced(mod, target)
    return steps.apply_default(made, target)
