"""Linking objects into a shared library, on machines with and without a compiler.

Kernels under measurement are linked by calling the linker itself, which takes a few milliseconds. A user's library
goes through the C++ compiler driver, so that it depends on the C library of the host in the ordinary way.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tunesmith.errors import MeasurementFailed, MissingDependency
from tunesmith.safe_path import python

LINKERS = ("ld", "ld.bfd", "ld.gold", "ld.lld", "lld")
COMPILERS = ("g++", "clang++", "c++", "gcc", "clang", "cc")
REMEDY = (
    "no linker and no C++ compiler on the PATH, and the Python package 'ziglang' is not installed; "
    "install one of them, for example: pip install ziglang"
)


def link(objects: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, for_user: bool = False) -> None:
    """Link objects into the shared library ``out``.

    Args:
        objects: object files (an archive is taken as well).
        out: the library to write.
        for_user: a library to deploy (compiler driver) and not one to measure (bare linker).

    Raises:
        MissingDependency: when this machine has nothing to link with; the detail says what to install.
        MeasurementFailed: when the linker refuses; the detail is its message.
    """
    command = [*(user_command() if for_user else measurement_command())]
    command += ["-shared", "-o", os.fspath(out), *(os.fspath(item) for item in objects)]
    command += ["-lm"] if _is_driver(command) else math_library()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise MeasurementFailed(f"linking failed: {(done.stderr or done.stdout).strip()[-2000:]}")


def export_library(file_name: str, files: Sequence[str], **_: object) -> None:
    """``fcompile`` of TVM's ``export_library`` for libraries that users get."""
    link(files, file_name, for_user=True)


def export_for_measurement(file_name: str, files: Sequence[str], **_: object) -> None:
    """``fcompile`` of TVM's ``export_library`` for libraries to measure."""
    link(files, file_name)


def measurement_command(path: str | None = None) -> tuple[str, ...]:
    """The fastest way to link here, as the head of a command line; see :func:`link` for the errors."""
    found = _first(LINKERS, path) or _zig("ld.lld") or _first(COMPILERS, path)
    if found is None:
        raise MissingDependency(REMEDY)
    return found


def user_command(path: str | None = None) -> tuple[str, ...]:
    """The compiler driver for libraries that users get, as the head of a command line."""
    given = os.environ.get("CXX")
    named = (given,) if given and shutil.which(given, path=path) else None
    found = named or _first(COMPILERS, path) or _zig("cc") or _first(LINKERS, path)
    if found is None:
        raise MissingDependency(REMEDY)
    return found


@functools.lru_cache(maxsize=1)
def math_library() -> list[str]:
    """The C mathematics library that this process has loaded, by path.

    Named so that a library linked without a compiler driver resolves ``expf`` and its kin wherever it is loaded;
    the shared object of the runtime is always there, development files are not.
    """
    try:
        ctypes.CDLL("libm.so.6")
    except OSError:
        return []
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/libm" in line}
    return sorted(path for path in paths if Path(path).name.startswith(("libm.so", "libm-")))[:1]


def _first(names: Sequence[str], path: str | None) -> tuple[str, ...] | None:
    found = next((which for name in names if (which := shutil.which(name, path=path))), None)
    if found is None:
        return None
    return (found, "-flavor", "gnu") if Path(found).name == "lld" else (found,)


def _is_driver(command: Sequence[str]) -> bool:
    name = Path(command[0]).name
    return "c++" in command[:3] or not (name.startswith(("ld", "lld")) or "ld.lld" in command[:3])


def _zig(tool: str) -> tuple[str, ...] | None:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    binary = Path(spec.submodule_search_locations[0]) / "zig"
    if binary.is_file():
        return (str(binary), tool)
    return python("ziglang", tool)
