"""Programs that a test runs once: compiled in a fraction of the time that a fast program takes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from effort import quick

from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend.build import linking  # noqa: E402


def linked(built: Any) -> tvm.runtime.Module:
    """What was compiled, as a shared library.

    TVM translates a program that stays in memory with all of LLVM's optimisations, whatever its target says.
    """
    with tempfile.TemporaryDirectory(prefix="tunesmith-once-") as folder:
        path = Path(folder) / "program.so"
        built.export_library(str(path), fcompile=linking.export_for_measurement)
        return tvm.runtime.load_module(str(path))


def compiled(mod: tvm.IRModule, target: Mapping[str, Any] | None = None) -> tvm.runtime.Module:
    """A module of kernels, or of a model; see ``effort.quick`` for ``target``."""
    return linked(tvm.compile(mod, target=tvm.target.Target(quick(target))))


def machine(mod: tvm.IRModule, target: Mapping[str, Any] | None = None) -> Any:
    """What runs a compiled model."""
    return relax.VirtualMachine(compiled(mod, target), tvm.cpu())
