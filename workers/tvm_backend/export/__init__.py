"""The exported script ``compile.py``, loaded for our own use: a model is compiled in one way only."""

from __future__ import annotations

import functools
import importlib.util
from types import ModuleType

from tunesmith import metaschedule


@functools.lru_cache(maxsize=1)
def script() -> ModuleType:
    """The template as a module."""
    spec = importlib.util.spec_from_file_location("tunesmith_exported_compile", metaschedule.COMPILE_SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
