"""The tasks of a prepared model: each distinct fused function, how often the model runs it, what it computes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprVisitor, visitor
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops

from tunesmith.types import TensorSpec, Workload
from workers.tvm_backend import tir

ANCHORS = (
    "conv2d_transpose", "conv1d_transpose", "conv3d", "conv2d", "conv1d", "matmul", "dense", "attention",
    "layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "log_softmax", "softmax",
    "adaptive_avg_pool2d", "max_pool2d", "avg_pool2d", "max_pool3d", "avg_pool3d", "max_pool1d", "avg_pool1d",
    "resize2d", "argmax", "argmin", "topk", "sort", "cumsum", "scatter", "gather", "take",
    "mean", "variance", "sum", "prod",
)
"""Operator names that give a fused function its character, the most telling first."""
BLOCKED = (
    ("depthwise_conv2d", "depthwise_conv2d"), ("conv2d_blocked", "conv2d"), ("matmul_packed", "matmul"),
)  # fmt: skip
"""The families of the functions that blocked layouts bring, by what stands in their names."""


@dataclass(frozen=True)
class Extracted:
    """One task.

    Attributes:
        workload: what it computes; ``tunable`` is settled by the design space, see ``space.tunable``.
        weight: how often the model runs it.
        module: JSON of its IRModule, one PrimFunc ``main``.
        metaschedule: JSON of MetaSchedule's ``Workload.as_json()``.
    """

    workload: Workload
    weight: int
    module: bytes
    metaschedule: bytes


def extract_tasks(module: bytes) -> list[Extracted]:
    """The tasks of a prepared module in the order in which the model first runs them.

    Functions of dynamic shape are left out: nothing here can tune them.
    """
    mod = tir.load_module(module)
    found = ms.relax_integration.extract_tasks(mod, tvm.target.Target("llvm"), module_equality="structural")
    order = _first_calls(mod)
    tasks = []
    for task in sorted(found, key=lambda t: order.get(str(t.task_name), len(order))):
        body = task.dispatched[0]
        args = arguments(body)
        if args is not None:
            tasks.append(describe(body, str(task.task_name), args, int(task.weight)))
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
        return plain.split("_add")[0].split("_relu")[0] or plain
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
    def __init__(self) -> None:
        super().__init__()
        self.order: dict[str, int] = {}

    def visit_call_(self, op: relax.Call) -> None:
        if getattr(op.op, "name", "") == "relax.call_tir":
            self.order.setdefault(str(op.args[0].name_hint), len(self.order))


def _first_calls(mod: tvm.IRModule) -> dict[str, int]:
    calls = _Calls()
    calls.visit_expr(mod["main"])
    return calls.order
