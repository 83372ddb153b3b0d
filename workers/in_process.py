"""The one door through which `tunesmith.tvm` and `tunesmith.torch` reach the back end, in a user's own process.

What is behind it is loaded when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunesmith.child_process import THREADS
from tunesmith.options import JobOptions
from tunesmith.types import TensorSpec
from tunesmith.unmeasured import Answer, Known

if TYPE_CHECKING:
    from types import ModuleType


@contextmanager
def own_environment() -> Iterator[None]:
    """Thread counts of numeric libraries, which processes of the service fix, stay what they are in the user's."""
    before = {name: os.environ.get(name) for name in THREADS}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def user_module() -> ModuleType:
    """Passes and hashes, see ``workers.tvm_backend.build.user_module``."""
    with own_environment():
        from workers.tvm_backend.warm import warm

        warm()
        from workers.tvm_backend.build import user_module as found
    return found


def imported(path: Path, shapes: dict[str, tuple[int, ...]]) -> Any:
    """The ``tvm.IRModule`` of a file, as the service imports it.

    Raises:
        ModelRejected: or a subclass: it cannot be imported, and why.
    """
    from tunesmith.model_files import source_by_content

    user_module()
    from workers.tvm_backend.frontends.import_model import import_model

    return import_model(path, source_by_content(path), shapes)


def compiled(
    model: Path,
    library: Path,
    target: str,
    options: JobOptions,
    data_dir: Path | None,
    elsewhere: Callable[[str], Known | None],
) -> tuple[dict[str, Any], tuple[TensorSpec, ...], list[Answer]]:
    """Compile a file with what is known; see ``workers.local_compile.by_knowledge``.

    Returns:
        JSON of the target, what the library's ``main`` takes, and where each task's schedule comes from.
    """
    with own_environment():
        from workers.local_compile import by_knowledge

        done = by_knowledge(str(model), {}, library, target, data_dir, options, elsewhere)
    return done.target.to_json(), done.inputs, done.answers
