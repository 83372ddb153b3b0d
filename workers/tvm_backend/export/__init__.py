"""The exported scripts, loaded for our own use: a model is compiled in one way only."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

from tunesmith import metaschedule


def script() -> ModuleType:
    """``compile.py`` as a module."""
    return _loaded(metaschedule.COMPILE_SCRIPT)


def prefetch() -> ModuleType:
    """``prefetch.py`` as a module."""
    return _loaded(metaschedule.PREFETCH_SCRIPT)


@functools.lru_cache(maxsize=2)
def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tunesmith_exported_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
