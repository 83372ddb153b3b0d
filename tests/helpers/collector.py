"""Python's garbage collector, kept from looking through what stays: a tenth of the time of the tests."""

from __future__ import annotations

import gc
import sys

import pytest

COLLECT_AFTER = 50_000
"""New objects that begin a collection; Python's own 700 are nothing beside what one import or one model makes."""
MANY_MODULES = 50


class Collector:
    """A plugin of pytest that sets aside what is imported, and what a file's tests have left behind for good.

    Preparing a model, of which tests do thousands, ends with a collection: a third of a second with all modules.
    """

    def __init__(self) -> None:
        gc.set_threshold(COLLECT_AFTER)
        self.modules = 0

    def pytest_collection_finish(self) -> None:
        """Set aside what test files import."""
        self._freeze()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Set aside what a test has imported, and what is there at the end of a file."""
        if nextitem is not None and (nextitem.path != item.path or len(sys.modules) > self.modules + MANY_MODULES):
            self._freeze()

    def _freeze(self) -> None:
        gc.collect()
        gc.freeze()
        self.modules = len(sys.modules)
