"""PyTorch's list of composite operators, which it gathers twice for every program that is imported."""

from __future__ import annotations

import sys
from typing import Any


class Composites:
    """A plugin of pytest that has PyTorch keep that list: half the time that a small program takes.

    It is gathered anew for a library of which more operators are in use.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], Any] = {}
        self.gather: Any = None

    def pytest_runtest_setup(self) -> None:
        """As soon as a test, or the import of its file, has needed this part of PyTorch; nothing imports it here."""
        utils: Any = sys.modules.get("torch._export.utils")
        if utils is not None and self.gather is None:
            self.gather = utils._collect_all_valid_cia_ops_for_namespace
            utils._collect_all_valid_cia_ops_for_namespace = self._once

    def _once(self, namespace: Any) -> Any:
        key = namespace.name, len(list(namespace))
        if key not in self.kept:
            self.kept[key] = self.gather(namespace)
        return self.kept[key]
