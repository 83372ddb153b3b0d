"""Built libraries that will be wanted again: champions and default schedules, which finalists are compared with."""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

from cachetools import LRUCache

from workers.protocol import Built

BUILD_CACHE_ENTRIES = 128


class _Libraries(LRUCache[Hashable, Built]):
    """Deletes the file of a build that it forgets."""

    def popitem(self) -> tuple[Hashable, Built]:
        """The least recently used one, whose file is gone."""
        key, gone = super().popitem()
        assert gone.path is not None
        gone.path.unlink(missing_ok=True)
        return key, gone


class LibraryCache:
    """Keeps the files of the latest builds that were put on it.

    Args:
        folder: for the files; it belongs to this cache.
    """

    def __init__(self, folder: Path, kept: int = BUILD_CACHE_ENTRIES) -> None:
        self._folder, self._built = folder, _Libraries(kept)
        self._names = itertools.count()
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: Hashable) -> Built | None:
        """What was put under ``key``, if it is still there."""
        return self._built.get(key)

    def put(self, key: Hashable, built: Built) -> Built:
        """Keep a build, whose file is moved here unless it came from here; returns it with the new path.

        Raises:
            ValueError: a failed build.
        """
        if built.path is None:
            raise ValueError("a failed build has no file to keep")
        old = self._built.pop(key, None)
        if old is not None and old.path == built.path:
            self._built[key] = old
            return old
        if old is not None and old.path is not None:
            old.path.unlink(missing_ok=True)
        path = self._folder / f"{next(self._names)}.so"
        os.replace(built.path, path)
        self._built[key] = replace(built, path=path)
        return self._built[key]
