"""Python processes that import nothing from the working folder, whatever the files there are called."""

from __future__ import annotations

import sys

_RUN = (
    "import sys; sys.path[:] = [path for path in sys.path if path]; del sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
"""Python 3.10 has no option for it: this drops the working folder, which is the empty path, before any import."""


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module as ``python -m`` does, but never finds a library in the working folder."""
    if sys.version_info >= (3, 11):
        return (sys.executable, "-P", "-m", module, *arguments)
    return (sys.executable, "-c", _RUN, module, *arguments)


def leave_working_folder(program: str) -> None:
    """For a main program that somebody started with ``python -m``: forget the folder that this put first.

    Args:
        program: the program's file. If its package is found in the working folder only, that folder moves to the end of
            the path.
    """
    if sys.version_info >= (3, 11) and sys.flags.safe_path:
        return
    first = sys.path.pop(0)
    if program.startswith(f"{first}/") and first not in sys.path:
        sys.path.append(first)
