"""TVM's cold start, paid once per process and only as far as the target needs it."""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import inspect
import os
import platform
import sys
import types
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tunesmith.child_process import THREADS
from workers.tvm_backend.cuda_runtime import preload

INTRINSICS = "tvm.s_tir.tensor_intrin"
PARTS: Mapping[str, str] = {"x86_64": "x86", "aarch64": "arm_cpu", "cuda": "cuda"}


def visible_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def warm(target_kind: str = "llvm", triple: str = "") -> None:
    """Import TVM with the tensor intrinsics of ``target_kind`` alone; call it before anything else touches TVM.

    ``tvm.s_tir.tensor_intrin`` parses the TVMScript intrinsics of every back end (ten seconds), and the first tuning
    context imports it. A stub package takes its place and the part that is needed is imported into it: 0.2 s for a
    CPU, two seconds for CUDA. Thread counts that the environment leaves open are fixed, because TVM takes half of
    the visible cores on x86 and reads them only once.

    PyTorch is left out, see :func:`import_tvm`. Calls after the first are free; a process may warm several kinds.
    ``triple`` is LLVM's, of a CPU that is not this host's: TVM's rules for it ask for its intrinsics.
    """
    os.environ.setdefault("TVM_NUM_THREADS", str(visible_cores()))
    for name in THREADS:
        os.environ.setdefault(name, "1")
    import_tvm()
    _install_stub()
    machine = triple.partition("-")[0] or platform.machine()
    part = PARTS.get(machine if target_kind == "llvm" else target_kind)
    if part is not None and f"{INTRINSICS}.{part}" not in sys.modules:
        # TVMScript looks at every frame of the stack for each intrinsic: a new thread has a short one. Under a deep
        # stack CUDA's intrinsics take a minute.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(_run, part).result()


def import_tvm() -> None:
    """Import TVM without PyTorch, and with CUDA where the system has a driver.

    TVM's FFI imports PyTorch first wherever that is installed, and so do all of its processes. That takes two and a
    half of three seconds. Code that needs PyTorch imports it afterwards, as ever.
    """
    if "tvm" not in sys.modules:
        preload()
    if not {"tvm_ffi", "torch"} & set(sys.modules):
        with without_collections(), without_pytorch(), names_listed_seldom():
            importlib.import_module("tvm")


@contextmanager
def without_collections() -> Iterator[None]:
    """Python does not look for cycles in what is imported, all of which stays: a tenth of the whole import."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def names_listed_seldom() -> Iterator[None]:
    """The names of TVM's functions are listed anew only once there are more of them.

    Fifty of its modules ask for all two thousand names as they are imported: a sixth of the whole import.
    """
    registry: Any = importlib.import_module("tvm_ffi.registry")
    listed = registry.list_global_func_names
    known: list[str] = []

    def names() -> list[str]:
        nonlocal known
        if registry.get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1) != len(known):
            known = listed()
        return known

    registry.list_global_func_names = names
    try:
        yield
    finally:
        registry.list_global_func_names = listed


@contextmanager
def without_pytorch() -> Iterator[None]:
    """An import of PyTorch fails here, as if it were not there."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


@contextmanager
def frames_without_source() -> Iterator[None]:
    """``inspect.stack`` gives no source: for each intrinsic TVMScript would look for that of each frame, and read it.

    It looks whether the function stands in a class, which none does here.
    """
    stack = inspect.stack
    inspect.stack = _frames
    try:
        yield
    finally:
        inspect.stack = stack


def _frames(context: int = 0) -> list[inspect.FrameInfo]:
    """What ``inspect.stack`` gives its caller, where no source is found."""
    found = []
    frame = sys._getframe(1)
    while frame:
        code = frame.f_code
        found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _run(part: str) -> None:
    """Import a part of the intrinsics, without the import system's own frames on the stack.

    They have no file, so for each of them, and each intrinsic, TVMScript would look at every module that there is.
    """
    name = f"{INTRINSICS}.{part}"
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert isinstance(spec.loader, importlib.abc.InspectLoader)
    code = spec.loader.get_code(name)
    assert code is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with frames_without_source():
            exec(code, module.__dict__)
    except BaseException:  # a module that is half loaded must not be found
        del sys.modules[name]
        raise
    setattr(sys.modules[INTRINSICS], part, module)


def _install_stub() -> None:
    if INTRINSICS in sys.modules:
        return
    s_tir = importlib.import_module("tvm.s_tir")
    stub = types.ModuleType(INTRINSICS)
    stub.__path__ = [os.path.join(os.path.dirname(str(s_tir.__file__)), "tensor_intrin")]
    sys.modules[INTRINSICS] = stub
    s_tir.__dict__["tensor_intrin"] = stub
