"""A compiled model in this process. The only module of the package that imports TVM, when a model is loaded."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tunesmith.answers.models import TensorBody
from tunesmith.errors import InvalidInput, MissingDependency, TargetUnavailable
from tunesmith.host import cpu_features
from tunesmith.targets import Target

THREADS = "TVM_NUM_THREADS"
ALIGNMENT = 64
"""Bytes at a multiple of which kernels expect tensors."""


class Library:
    """A library that was compiled for this host's CPU, ready to be called.

    TVM is told to use as many threads as the schedules were tuned for, unless ``TVM_NUM_THREADS`` says how many: that
    holds for all kernels of the process whose first one runs later.

    Args:
        path: the library; it may be removed afterwards.
        target: JSON of the target that it was compiled for.
        inputs: what it takes, in order.

    Raises:
        MissingDependency: TVM is not installed.
        TargetUnavailable: it is for another processor.
    """

    def __init__(self, path: Path, target: Mapping[str, Any], inputs: Sequence[TensorBody]) -> None:
        try:
            import tvm
            from tvm import relax
        except ModuleNotFoundError as error:
            raise MissingDependency(
                "a tuned model is run by TVM, which is not installed here: install apache-tvm of the version that its "
                "README.md names",
                extra="worker",
            ) from error
        _check_cpu(tvm, target)
        os.environ.setdefault(THREADS, str(min(int(target.get("num-cores", 1)), len(os.sched_getaffinity(0)))))
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
        self._main, self._tensor = machine["main"], tvm.runtime.tensor
        self._inputs, self._lock = tuple(map(_Input, inputs)), threading.Lock()

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """The outputs for inputs in order: PyTorch's tensors if any input is one, else NumPy's arrays.

        TVM takes and returns PyTorch's tensors itself: after a kernel that filled the caches with its data, a step in
        Python costs several times what it seems to.

        Raises:
            InvalidInput: one has another shape or type than the model takes.
        """
        kind, lent, given = getattr(sys.modules.get("torch"), "Tensor", None), False, []
        for own, value in zip(self._inputs, tensors, strict=True):
            if kind is not None and isinstance(value, kind):
                given.append(own.lent(value))
                lent = True
            else:
                given.append(self._tensor(own.array(value)))
        with self._lock:
            made = self._main(*given)
        outputs = [made] if hasattr(made, "numpy") else list(made)
        return outputs if lent else [each.numpy() for each in outputs]


class _Input:
    """What a model takes in one place."""

    def __init__(self, spec: TensorBody) -> None:
        self._spec, self._shape = spec, tuple(spec.shape)
        self._dtype: Any = None  # PyTorch's, known once a tensor of it came

    def array(self, value: Any) -> Any:
        """An array as TVM may copy it."""
        array = np.asarray(value)
        _check(self._spec, array.dtype.name, array.shape)
        return np.ascontiguousarray(array).reshape(array.shape)

    def lent(self, value: Any) -> Any:
        """One of PyTorch's tensors as TVM may read it: a copy if it does not lie as kernels expect."""
        if value.dtype is not self._dtype or value.shape != self._shape:
            _check(self._spec, str(value.dtype).removeprefix("torch."), tuple(value.shape))
            self._dtype = value.dtype
        if not value.is_cpu:
            raise InvalidInput(
                f"input {self._spec.name!r} is on {value.device}, and the model runs on the CPU: call .cpu() on it",
                field="inputs",
                value=self._spec.name,
            )
        if value.requires_grad:
            value = value.detach()
        if not value.is_contiguous() or value.is_neg():
            value = value.contiguous().resolve_neg()
        return value if value.data_ptr() % ALIGNMENT == 0 else value.clone()


def _check(spec: TensorBody, kind: str, shape: tuple[int, ...]) -> None:
    if (kind, shape) != (spec.dtype, tuple(spec.shape)):
        raise InvalidInput(
            f"input {spec.name!r} is {kind} {list(shape)}, and the model was tuned for {spec.dtype} {spec.shape}: "
            "convert it, or tune the model for it",
            field="inputs",
            value=spec.name,
        )


def _check_cpu(tvm: Any, target: Mapping[str, Any]) -> None:
    """An instruction that this CPU lacks would end the process."""
    if target.get("kind") != "llvm":
        raise TargetUnavailable(
            f"the model was tuned for a target of kind {target.get('kind')}, and is called on CPUs only: save it, and "
            "run it as the README.md in the folder says",
            field="target",
            value=target.get("kind"),
        )
    host = tvm.target.codegen.llvm_get_system_cpu()
    if target.get("mcpu") in (None, host) and not target.get("mattr"):
        return
    features = tvm.target.codegen.llvm_get_cpu_features
    wanted = set(features(tvm.target.Target({"kind": "llvm", "mcpu": target.get("mcpu", host)})))
    wanted |= set(Target(target).features)
    has = set(features(tvm.target.Target({"kind": "llvm", "mcpu": host}))) | set(cpu_features())
    lacking = sorted(map(str, wanted - has))
    if lacking:
        raise TargetUnavailable(
            f"the model was tuned for {target['mcpu']}, and this CPU, {host}, lacks {', '.join(lacking[:5])}: save it, "
            "and run it on such a CPU",
            field="target",
            value=target["mcpu"],
        )
