"""Programs that a test runs once: compiled in a fraction of the time that a fast program takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from effort import quick

from tools.linked import linked
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402


def compiled(mod: tvm.IRModule, target: Mapping[str, Any] | None = None) -> tvm.runtime.Module:
    """A module of kernels, or of a model; see ``effort.quick`` for ``target``."""
    return linked(tvm.compile(mod, target=tvm.target.Target(quick(target))))


def machine(mod: tvm.IRModule, target: Mapping[str, Any] | None = None) -> Any:
    """What runs a compiled model."""
    return relax.VirtualMachine(compiled(mod, target), tvm.cpu())
