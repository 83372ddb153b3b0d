"""Compiled programs that run once, as shared libraries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


def linked(built: Any) -> Any:
    """What TVM compiled, an ``Executable``, as the module of a shared library.

    A program that stays in memory is translated with all optimisations of LLVM's code generator when it is loaded,
    whatever its target says: for a program without other optimisations, that takes longer than all else.
    """
    import tvm

    from workers.tvm_backend.build import linking

    if not any(each.kind == "llvm" for each in (built.mod, *built.mod.imports)):
        return built.jit()  # a model without kernels, such as one that returns its input
    with tempfile.TemporaryDirectory(prefix="tunesmith-once-") as folder:
        path = Path(folder) / "program.so"
        built.export_library(str(path), fcompile=linking.export_for_measurement)
        return tvm.runtime.load_module(str(path))
