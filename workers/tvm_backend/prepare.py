"""From an imported module to the one that is stored, tuned and compiled: fused, weights lifted to parameters."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunesmith.errors import ModelRejected
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.types import TensorSpec
from workers.tvm_backend import folding, layout, tir
from workers.tvm_backend.fast_math.rewrite import with_fast_math
from workers.tvm_backend.onnx_model import first_line

log = logging.getLogger("tunesmith.prepare")

INLINE_BYTES = 1024
"""Constants up to this size stay in the module; larger ones become parameters."""


@dataclass(frozen=True)
class Prepared:
    """A model ready for tuning.

    Attributes:
        module: JSON of the module; ``main`` takes the model's inputs in order, then the parameters.
        params: the lifted constants by name, in the order in which ``main`` takes them.
        inputs: the model's own inputs.
        preparation: what was chosen.
    """

    module: bytes
    params: dict[str, NDArray[Any]]
    inputs: tuple[TensorSpec, ...]
    preparation: Preparation


def prepare(mod: tvm.IRModule, preparation: Preparation = PLAIN) -> Prepared:
    """Fold constants, legalise, fuse, and lift weights.

    Everything that depends on constants alone is evaluated here, so that the parameters are final and compiling
    never computes a weight again. A model that blocked layouts break is prepared without them, and the log says so.

    Raises:
        ModelRejected: TVM cannot lower the model.
    """
    names = json.loads(str(mod["main"].attrs["input_names"]))
    try:
        mod = _blocked(mod, preparation) if preparation.blocked else _lower(mod, preparation)
    except Exception as error:
        # Legalisation raises whatever the operator's lowering raises.
        raise ModelRejected(f"TVM cannot lower the model: {first_line(error)}", field="file") from error
    mod, params = lift(mod)
    inputs = tuple(
        TensorSpec(str(var.ty.dtype), tuple(int(d) for d in var.ty.shape.values), name)
        for name, var in zip(names, mod["main"].params, strict=False)
    )
    return Prepared(tir.dump_module(mod), params, inputs, preparation)


def _blocked(mod: tvm.IRModule, preparation: Preparation) -> tvm.IRModule:
    try:
        return _lower(mod, preparation)
    except Exception:
        # Nobody should lose a model to what is meant to make it faster.
        log.warning("blocked layouts do not fit the model, it is prepared without them", exc_info=True)
        return _lower(mod, dataclasses.replace(preparation, blocked=False))


def _lower(mod: tvm.IRModule, preparation: Preparation) -> tvm.IRModule:
    blocked = [
        tvm.transform.module_pass(lambda module, _: layout.block(module), opt_level=0, name="tunesmith.block"),
        transform.CanonicalizeBindings(),
        transform.DeadCodeElimination(),
    ]
    views = [transform.RewriteDataflowReshape(), transform.DeadCodeElimination()]  # no kernels, so no tasks
    passes = [
        transform.DeadCodeElimination(),
        tvm.transform.module_pass(lambda module, _: folding.fold(module), opt_level=0, name="tunesmith.fold"),
        transform.CanonicalizeBindings(),
        transform.DeadCodeElimination(),
        transform.DecomposeOpsForInference(),
        transform.CanonicalizeBindings(),
        *(blocked if preparation.blocked else ()),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
        *(views if preparation.blocked else ()),
        tvm.transform.module_pass(lambda module, _: _keep_layouts(module), opt_level=0, name="tunesmith.layouts"),
    ]
    mod = tvm.transform.Sequential(passes)(mod)
    # Last, so that operators are fused as they would be without it, and constants computed exactly.
    return with_fast_math(mod) if preparation.fast_math else mod


def _keep_layouts(mod: tvm.IRModule) -> tvm.IRModule:
    """Take back the leave to pack weights that some operators give: nothing repacks the arguments of a kernel."""
    mark = "layout_free_buffers"
    functions = {var: function.without_attr(mark) if isinstance(function, tvm.tirx.PrimFunc) and function.attrs
                 and mark in function.attrs else function for var, function in mod.functions.items()}
    return tvm.IRModule(functions, attrs=mod.attrs)


@mutator
class _Lift(PyExprMutator):  # type: ignore[misc]
    """Replaces large constants by variables."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.lifted: dict[Any, tuple[relax.Var, NDArray[Any]]] = {}
        self.taken = {str(var.name) for var in mod["main"].params}

    def visit_generic_const_(self, op: relax.Constant) -> relax.Expr:
        array = folding.constant_array(op)
        if array.nbytes <= INLINE_BYTES:
            return op
        if op not in self.lifted:
            name = f"p{len(self.lifted)}"
            while name in self.taken:  # parameters are bound by name
                name += "_"
            self.lifted[op] = (relax.Var(name, op.ty), array)
        return self.lifted[op][0]


def lift(mod: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, NDArray[Any]]]:
    """Turn the constants of ``main`` above ``INLINE_BYTES`` into parameters after its own.

    The arrays share the constants' memory.
    """
    main = mod["main"]
    lifter = _Lift(mod)
    body = lifter.visit_expr(main.body)
    lifted = list(lifter.lifted.values())
    mod = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    mod["main"] = relax.Function([*main.params, *(var for var, _ in lifted)], body, main.ret_ty, main.is_pure,
                                 main.attrs)
    return mod, {str(var.name): array for var, array in lifted}


def save_params(params: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
    """Write the parameters as an uncompressed ``.npz``, one array at a time."""
    with open(path, "wb") as file:
        np.savez(file, **dict(params))  # type: ignore[arg-type]
