"""The tasks of a prepared model: each distinct fused function, how often the model runs it, what it computes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprVisitor, visitor
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.types import TensorSpec, Workload
from workers.tvm_backend import tir
from workers.tvm_backend.passes import alternatives

ANCHORS = (
    "conv2d_transpose",
    "conv1d_transpose",
    "conv3d",
    "conv2d",
    "conv1d",
    "matmul",
    "dense",
    "attention",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "instance_norm",
    "batch_norm",
    "log_softmax",
    "softmax",
    "adaptive_avg_pool2d",
    "max_pool2d",
    "avg_pool2d",
    "max_pool3d",
    "avg_pool3d",
    "max_pool1d",
    "avg_pool1d",
    "resize2d",
    "argmax",
    "argmin",
    "topk",
    "sort",
    "cumsum",
    "scatter",
    "gather",
    "take",
    "mean",
    "variance",
    "sum",
    "prod",
)
"""Operator names that give a fused function its character, the most telling first."""
BLOCKED = (
    *((name, name) for name in ("depthwise_conv2d_pairs", "depthwise_conv2d_quads")),
    *((name, name) for name in ("group_conv2d_quads", "conv2d_quads", "group_matmul_quads", "matmul_quads")),
    *((name, name) for name in ("group_conv2d_pairs", "conv2d_pairs", "group_matmul_pairs", "matmul_pairs")),
    ("depthwise_conv2d", "depthwise_conv2d"),
    ("group_conv2d", "group_conv2d"),
    ("conv2d_blocked", "conv2d"),
    ("conv2d_winograd_pairs", "conv2d_pairs"),
    ("conv2d_winograd", "conv2d"),
    ("matmul_packed", "matmul"),
)
"""The families of the functions that blocked layouts, pairs and quads bring, by parts of their names. Narrow products
have families of their own: no schedule of a float32 product fits one, and their gains are others."""
FAMILY_NAME = 100
"""Characters of a family's name that the database keeps."""


@dataclass(frozen=True)
class Extracted:
    """One task.

    Attributes:
        workload: what it computes; ``tunable`` is settled by the design space, see ``space.tunable``.
        weight: how often the model runs it.
        module: JSON of its IRModule, one PrimFunc ``main``.
        metaschedule: JSON of MetaSchedule's ``Workload.as_json()``.
        alternative_of: hash of the workload that the model runs at the same places, unless this one is faster.
        weights: which arguments are parameters of the model wherever it runs the workload; small ones do not count.
    """

    workload: Workload
    weight: int
    module: bytes
    metaschedule: bytes
    alternative_of: str | None = None
    weights: tuple[int, ...] = ()


def extract_tasks(module: bytes, cpu: CpuModel = CpuModel()) -> list[Extracted]:
    """The tasks of a prepared module in the order in which the model first runs them, each before its alternative.

    Functions of dynamic shape are left out: nothing here can tune them.
    """
    mod = tir.load_module(module)
    direct = _of_function(mod, "main", cpu)
    found = [(order, False, task) for order, task in direct.values()]
    if alternatives.has_alternatives(mod):
        others = _of_function(mod, alternatives.FUNCTION, cpu)
        for name, alternative in alternatives.pairs(mod).items():
            if name in direct and alternative in others:
                order, task = direct[name]
                found.append((order, True, replace(others[alternative][1], alternative_of=task.workload.hash)))
    return [task for _, _, task in sorted(found, key=lambda item: item[:2])]


def inputs(mod: tvm.IRModule) -> tuple[TensorSpec, ...]:
    """The model's own inputs, which ``main`` takes before the parameters."""
    main = mod["main"]
    names = json.loads(str(main.attrs["input_names"]))
    return tuple(
        TensorSpec(str(var.ty.dtype), tuple(int(dim) for dim in var.ty.shape.values), name)
        for name, var in zip(names, main.params, strict=False)
    )


def parameter_bytes(module: bytes) -> int:
    """Bytes of the parameters that a run of a prepared module's ``main`` reads; those of alternatives are not."""
    main = tir.load_module(module)["main"]
    return sum(_bytes(var.ty) for var in set(_parameters(main)) & set(relax.analysis.free_vars(main.body)))


def _of_function(mod: tvm.IRModule, name: str, cpu: CpuModel) -> dict[str, tuple[int, Extracted]]:
    """The tasks of one of the module's functions by name, each with its place in the order of first calls."""
    other = {"main", alternatives.FUNCTION} - {name}
    alone = {var: function for var, function in mod.functions.items() if str(var.name_hint) not in other}
    mod = tvm.IRModule(alone, attrs=mod.attrs)
    found = ms.relax_integration.extract_tasks(mod, tvm.target.Target("llvm"), module_equality="structural")
    calls = _calls(mod[name], cpu.small_bytes)
    tasks: dict[str, tuple[int, Extracted]] = {}
    for task in found:
        body = task.dispatched[0]
        args = arguments(body)
        if args is not None:
            made = describe(body, str(task.task_name), args, int(task.weight))
            weights = tuple(sorted(calls.weights.get(made.workload.name, ())))
            order = calls.order.get(made.workload.name, len(calls.order))
            tasks[made.workload.name] = order, replace(made, weights=weights)
    return tasks


def describe(mod: tvm.IRModule, name: str, args: tuple[TensorSpec, ...], weight: int = 1) -> Extracted:
    """The task of one PrimFunc."""
    saved = ms.database.Workload(mod).as_json()
    workload = Workload(str(saved[0]), name, args, float(estimate_tir_flops(mod)), family(name, args))
    text = tir.canonical_json([str(saved[0]), str(saved[1])])
    return Extracted(workload, weight, tir.dump_module(mod), text.encode())


def arguments(mod: tvm.IRModule) -> tuple[TensorSpec, ...] | None:
    """The buffers of ``main`` in order, output last; None when a shape is dynamic."""
    args = []
    for buffer in mod["main"].params:
        info = buffer.ty
        dims: list[Any] = [getattr(dim, "value", None) for dim in info.shape]
        if None in dims:
            return None
        args.append(TensorSpec(str(info.dtype), tuple(int(dim) for dim in dims)))
    return tuple(args)


def family(name: str, args: tuple[TensorSpec, ...]) -> str:
    """The anchor operator of a fused function, from its name: ``fused_conv2d3_add_relu`` is a ``conv2d``.

    Depthwise and grouped convolutions and batched products, which behave differently, have families of their own.
    """
    plain = re.sub(r"(?<=[a-z])\d+(?=_|$)", "", re.sub(r"(?<=\dd)\d+(?=_|$)", "", name.removeprefix("fused_")))
    blocked = next((kind for word, kind in BLOCKED if word in plain), None)
    if blocked is not None:
        return blocked
    anchor = next((word for word in ANCHORS if re.search(rf"(^|_){word}(_|$)", plain)), None)
    if anchor is None:
        return (plain.split("_add")[0].split("_relu")[0] or plain)[:FAMILY_NAME]
    if anchor == "conv2d":
        return _convolution([spec.shape for spec in args[:-1] if len(spec.shape) == 4])
    if anchor == "matmul" and sum(len(spec.shape) > 2 for spec in args[:-1]) > 1:
        return "batch_matmul"
    return anchor


def _convolution(shapes: list[tuple[int, ...]]) -> str:
    if len(shapes) < 2 or shapes[1][1] == shapes[0][1]:
        return "conv2d"
    return "depthwise_conv2d" if shapes[1][1] == 1 else "group_conv2d"


@visitor
class _Calls(PyExprVisitor):  # type: ignore[misc]
    """The calls of a function: the order of the first ones, and which arguments are parameters in all of them.

    Args:
        parameters: the model's, without small ones.
    """

    def __init__(self, parameters: Sequence[relax.Var]) -> None:
        super().__init__()
        self._parameters = parameters
        self.order: dict[str, int] = {}
        self.weights: dict[str, set[int]] = {}

    def visit_call_(self, op: relax.Call) -> None:
        if getattr(op.op, "name", "") == "relax.call_tir":
            name = str(op.args[0].name_hint)
            self.order.setdefault(name, len(self.order))
            given = op.args[1].fields if isinstance(op.args[1], relax.Tuple) else ()
            found = {index for index, each in enumerate(given) if any(map(each.same_as, self._parameters))}
            self.weights[name] = self.weights.get(name, found) & found


def _calls(function: relax.Function, small: int) -> _Calls:
    calls = _Calls([var for var in _parameters(function) if _bytes(var.ty) >= small])
    calls.visit_expr(function)
    return calls


def _parameters(function: relax.Function) -> list[relax.Var]:
    inputs = json.loads(str((function.attrs or {}).get("input_names", "[]")))
    return list(function.params[len(inputs) :]) if inputs else []


def _bytes(kind: Any) -> int:
    """Bytes of a tensor of static shape; 0 for anything else."""
    dims: list[Any] = [getattr(dim, "value", None) for dim in getattr(kind, "shape", None) or ()]
    return 0 if None in dims else math.prod(map(int, dims)) * int(tvm.DataType(str(kind.dtype)).itemsize)
