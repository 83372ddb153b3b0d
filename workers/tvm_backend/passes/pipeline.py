"""From an imported module to the one that is stored, tuned and compiled: fused, weights lifted to parameters."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.errors import ModelRejected, PrecisionUnavailable, first_line
from tunesmith.names import FLOAT32
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.types import TensorSpec
from workers.tvm_backend import tir
from workers.tvm_backend.passes import (
    alternatives,
    extract_tasks,
    fold_constants,
    half,
    layout,
    legalize,
    narrow,
    quantization,
    transposes,
)
from workers.tvm_backend.passes.fast_math.rewrite import with_fast_math
from workers.tvm_backend.passes.layout.expressions import operator
from workers.tvm_backend.passes.layout.winograd import conv2d_winograd

log = logging.getLogger("tunesmith.prepare")

Rewrite = Callable[[tvm.IRModule], tvm.IRModule]

PAIRS, QUADS = "_pairs", "quads"
"""Parts of the names of functions that multiply bfloat16, and of those that multiply bytes."""
NOT_QUANTISED = (
    "precision int8 is for quantised models, and no convolution or matrix product of this one has a quantised input "
    "and weights that are int8: quantise it with 'tunesmith quantize' (ONNX) or torchao's PT2E quantisation "
    "(PyTorch) and submit what that writes, or use precision bf16 or float32"
)
NO_PAIRS = (
    "nothing of the model is multiplied in bf16: it has no convolution or product with float32 weights that is large "
    "enough"
)
INLINE_BYTES = 1024
"""Constants up to this size stay in the module; larger ones become parameters."""


@dataclass(frozen=True)
class Prepared:
    """A model ready for tuning.

    Attributes:
        module: JSON of the module; ``main``, and its alternative where there is one, take the model's inputs in order,
            then the parameters.
        params: the lifted constants by name, in the order in which ``main`` takes them.
        inputs: the model's own inputs.
        preparation: what was chosen.
        note: what was chosen and could not be had, for the user; empty where there is no such thing.
    """

    module: bytes
    params: dict[str, NDArray[Any]]
    inputs: tuple[TensorSpec, ...]
    preparation: Preparation
    note: str = ""


def prepare(mod: tvm.IRModule, preparation: Preparation = PLAIN, cpu: CpuModel = CpuModel()) -> Prepared:
    """Fold constants, legalise, fuse, and lift weights.

    Everything that depends on constants alone is evaluated here, so that the parameters are final and compiling
    never computes a weight again. A model that blocked layouts break is prepared without them, and a note says so.
    With Winograd convolutions the module has a second function, see ``workers.tvm_backend.passes.alternatives``.

    Args:
        cpu: CPU that layouts and algorithms are for. A stored module serves every CPU, so services keep the default.

    Raises:
        ModelRejected: TVM cannot lower the model.
        PrecisionUnavailable: int8 is asked for, and the model is not quantised.
    """
    mod, note = tuned_form(mod, preparation, cpu)
    mod, params = lift(mod)
    gc.collect()  # TVM's visitors refer to themselves, so the weights of all that was made on the way would stay
    return Prepared(tir.dump_module(mod), params, extract_tasks.inputs(mod), preparation, note)


def tuned_form(
    mod: tvm.IRModule, preparation: Preparation = PLAIN, cpu: CpuModel = CpuModel()
) -> tuple[tvm.IRModule, str]:
    """The module with the functions that are tuned, weights inside, and the user's note on it; see :func:`prepare`."""
    mod = with_named_inputs(mod, [f"x{index or ''}" for index in range(len(mod["main"].params))])
    try:
        if preparation.blocked:
            return _blocked(mod, preparation, cpu)
        return lower_model(simplified(mod), preparation), ""
    except PrecisionUnavailable:
        raise
    except Exception as error:
        # Legalisation raises whatever the operator's lowering raises.
        raise ModelRejected(f"TVM cannot lower the model: {first_line(error)}", field="file") from error


def with_named_inputs(mod: tvm.IRModule, names: Sequence[str]) -> tvm.IRModule:
    """The variables of ``main`` with other names.

    While a model is prepared they are ``x``, ``x1`` and so on: users share fused functions, which take over the names.
    """
    main = mod["main"]
    params = [relax.Var(name, var.ty) for name, var in zip(names, main.params, strict=True)]
    body = main.bind_params(dict(zip(main.params, params, strict=True))).body
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    made["main"] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return made


def _blocked(mod: tvm.IRModule, preparation: Preparation, cpu: CpuModel) -> tuple[tvm.IRModule, str]:
    """The module with feature maps in blocks, and the user's note on it."""
    packed = layout.Packed()
    try:
        single = (half.in_float32,) if preparation.bf16 else ()
        simple = simplified(
            mod, (*single, quantization.rounded, layout.absorb_pads, layout.widen, layout.slice_maps, layout.phases)
        )
        widest = layout.depth_of_tiles(preparation.bf16) if preparation.tiles else layout.LANES
        algorithms = layout.Algorithms(bf16=preparation.bf16, int8=preparation.int8, widest=widest)
        made = lower_model(_laid_out(simple, algorithms, packed, cpu), preparation, widest)
    except Exception as error:
        # Nobody should lose a model to what is meant to make it faster.
        log.warning("blocked layouts do not fit the model, it is prepared without them", exc_info=True)
        plain = Preparation(fast_math=preparation.fast_math)
        return lower_model(simplified(mod), plain), _not_blocked(preparation, error)
    if preparation.int8 and not has_functions(made, QUADS):
        raise PrecisionUnavailable(NOT_QUANTISED, field="precision")
    if preparation.winograd:
        made = _with_winograd(made, simple, preparation, packed, cpu)
    return made, NO_PAIRS if preparation.bf16 and not has_functions(made, PAIRS) else ""


def _not_blocked(preparation: Preparation, error: Exception) -> str:
    """The note on a model that keeps its layouts."""
    lost = f", and nothing is computed in {preparation.precision}" if preparation.precision != FLOAT32 else ""
    return (
        f"maps in blocks of channels do not fit the model: it keeps its own layouts{lost} ({first_line(error)[:300]})"
    )


def has_functions(mod: tvm.IRModule, part: str) -> bool:
    """Whether any function's name has that part, such as ``PAIRS``."""
    return any(part in str(var.name_hint) for var in mod.functions)


def _with_winograd(
    mod: tvm.IRModule, simple: tvm.IRModule, preparation: Preparation, packed: layout.Packed, cpu: CpuModel
) -> tvm.IRModule:
    """``mod`` with Winograd convolutions as alternatives; as it is where there are none or they fit in nowhere."""
    bindings = (binding for block in simple["main"].body.blocks for binding in block.bindings)
    if not any(operator(binding.value) == "relax.nn.conv2d" for binding in bindings):
        return mod
    try:
        other = _laid_out(simple, layout.Algorithms(winograd=True, bf16=preparation.bf16), packed, cpu)
        if not any(conv2d_winograd.__name__ in str(var.name_hint) for var in other.functions):
            return mod
        return alternatives.join(mod, lower_model(other, preparation))
    except Exception:
        # The same: a model is worth more than a faster convolution.
        log.warning("the model is prepared without Winograd convolutions", exc_info=True)
        return mod


def _laid_out(
    simple: tvm.IRModule, algorithms: layout.Algorithms, packed: layout.Packed, cpu: CpuModel
) -> tvm.IRModule:
    """With feature maps in blocks of channels."""

    def block(module: tvm.IRModule, _: Any) -> tvm.IRModule:
        return layout.block(module, algorithms, packed, cpu)

    def turn(module: tvm.IRModule, _: Any) -> tvm.IRModule:
        return transposes.into_products(module, cpu)

    passes = [
        *((transform.EliminateCommonSubexpr(),) if algorithms.int8 else ()),  # each reader has a rounding of its own
        tvm.transform.module_pass(block, opt_level=0, name="tunesmith.block"),
        transform.CanonicalizeBindings(),
        *(() if algorithms.bf16 or algorithms.int8 else (tvm.transform.module_pass(turn, 0, "tunesmith.turn"),)),
        transform.DeadCodeElimination(),
    ]
    return tvm.transform.Sequential(passes)(simple)


def simplified(mod: tvm.IRModule, rephrasings: Sequence[Rewrite] = ()) -> tvm.IRModule:
    """What all preparations begin with: constants folded, operators of training taken apart.

    Args:
        rephrasings: put operators in terms of others, and leave more to fold.
    """
    passes = [transform.DeadCodeElimination()]
    for rewrite in (fold_constants.fold, *rephrasings, *((fold_constants.fold,) if rephrasings else ())):
        passes += [_pass(rewrite), transform.CanonicalizeBindings(), transform.DeadCodeElimination()]
    passes += [transform.DecomposeOpsForInference(), transform.CanonicalizeBindings()]
    return tvm.transform.Sequential(passes)(mod)


def _pass(rewrite: Rewrite) -> Any:
    return tvm.transform.module_pass(
        lambda module, _: rewrite(module), opt_level=0, name=f"tunesmith.{rewrite.__name__}"
    )


def lower_model(mod: tvm.IRModule, preparation: Preparation, widest: int = layout.LANES) -> tvm.IRModule:
    """Operators as functions, fused.

    Args:
        widest: most channels of a block.
    """

    def store_bits(module: tvm.IRModule) -> tvm.IRModule:
        return narrow.store_bits(module, widest)

    views = [transform.RewriteDataflowReshape(), transform.DeadCodeElimination()]  # no kernels, so no tasks
    passes = [
        transform.LegalizeOps(legalize.OURS | (legalize.FAST if preparation.fast_math else {})),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        *((_pass(store_bits),) if preparation.bf16 else ()),
        *((_pass(narrow.store_codes),) if preparation.int8 else ()),
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
    functions = {
        var: function.without_attr(mark)
        if isinstance(function, tvm.tirx.PrimFunc) and function.attrs and mark in function.attrs
        else function
        for var, function in mod.functions.items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


_Content = tuple[str, tuple[int, ...], bytes]


@dataclass(frozen=True)
class _Lifted:
    """A constant that becomes a parameter."""

    name: str
    type: relax.TensorType
    array: NDArray[Any]


@mutator
class _Lift(PyExprMutator):  # type: ignore[misc]
    """Replaces a function's large constants by variables, one for all of equal content."""

    def __init__(self, mod: tvm.IRModule, lifted: dict[_Content, _Lifted], taken: set[str]) -> None:
        super().__init__(mod)
        self.lifted, self.taken = lifted, taken
        self.vars: dict[str, relax.Var] = {}

    def visit_generic_const_(self, op: relax.Constant) -> relax.Expr:
        array = fold_constants.constant_array(op)
        if not array.size:  # neither TVM's JSON nor its executables can hold a tensor without elements
            shape, kind = relax.ShapeExpr(array.shape), str(op.ty.dtype)
            return self.builder_.emit(relax.op.builtin.alloc_tensor(shape, kind, 0))
        if array.nbytes <= INLINE_BYTES:
            return op
        content = _content(array)
        if content not in self.lifted:
            name = f"p{len(self.lifted)}"
            while name in self.taken:  # parameters are bound by name
                name += "_"
            self.lifted[content] = _Lifted(name, op.ty, array)
        return self.param(self.lifted[content])

    def param(self, lifted: _Lifted) -> relax.Var:
        """The function's own variable of a parameter."""
        return self.vars.setdefault(lifted.name, relax.Var(lifted.name, lifted.type))


def _content(array: NDArray[Any]) -> _Content:
    """What two equal arrays have in common."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return str(array.dtype), array.shape, hashlib.blake2b(data.data, digest_size=20).digest()


def lift(mod: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, NDArray[Any]]]:
    """Turn the constants of ``main`` above ``INLINE_BYTES``, and of its alternatives, into parameters after its own.

    Constants of equal content become one parameter. All functions take all parameters in one order. The arrays share
    the constants' memory.
    """
    names = [name for name in ("main", alternatives.FUNCTION) if name == "main" or alternatives.has_alternatives(mod)]
    taken = {str(var.name) for name in names for var in mod[name].params}
    lifted: dict[_Content, _Lifted] = {}
    lifters = {name: _Lift(mod, lifted, taken) for name in names}
    bodies = {name: lifter.visit_expr(mod[name].body) for name, lifter in lifters.items()}
    made = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    for name, lifter in lifters.items():
        old = mod[name]
        extra = [lifter.param(each) for each in lifted.values()]
        made[name] = relax.Function([*old.params, *extra], bodies[name], old.ret_ty, old.is_pure, old.attrs)
    return made, {each.name: each.array for each in lifted.values()}


def save_params(params: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
    """Write the parameters as an uncompressed ``.npz``, one array at a time."""
    with open(path, "wb") as file:
        np.savez(file, **dict(params))  # type: ignore[arg-type]
