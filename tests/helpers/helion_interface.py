"""Helion's interface of a remote cache (``helion.autotuner.remote_cache``, 1.5), for where Helion is not installed."""

from __future__ import annotations

import abc
import importlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tunesmith.extras import here


class RemoteCacheBackend(abc.ABC):
    """What a backend has."""

    @abc.abstractmethod
    def get(self, key: str) -> str | None: ...

    @abc.abstractmethod
    def put(self, key: str, data: str) -> None: ...

    def list(self, max_results: int | None = None) -> Iterable[str]:
        return ()


def load_remote_backend() -> RemoteCacheBackend:
    """The object of the class that the environment names, as Helion makes it."""
    module, name = os.environ["HELION_REMOTE_CACHE_BACKEND"].rsplit(".", 1)
    cls = getattr(importlib.import_module(module), name)
    assert issubclass(cls, RemoteCacheBackend)
    made: RemoteCacheBackend = cls()
    return made


def remote_cache(monkeypatch: Any) -> Any:
    """Helion's module, the real one if it is installed."""
    if not here("helion"):
        for name in ("helion", "helion.autotuner", "helion.autotuner.remote_cache"):
            module: Any = ModuleType(name)
            module.__spec__, module.__path__ = ModuleSpec(name, None), []
            monkeypatch.setitem(sys.modules, name, module)
        module.RemoteCacheBackend, module._load_remote_backend = RemoteCacheBackend, load_remote_backend
    for name in ("tunesmith.helion", "tunesmith.helion.backend"):  # made anew, and forgotten after the test
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("helion.autotuner.remote_cache")
