"""Imports models and files of records, in a box."""

from __future__ import annotations

from typing import Any

from workers.tvm_backend.build import record_file
from workers.tvm_backend.frontends.boxed_import import Importer, told


class RecordImporter(Importer):
    """An importer of models that reads files of records as well; see ``Importer``."""

    def open_records(self) -> dict[str, Any]:
        """A user's file of records: how many groups of rows it has, and its manifest."""

        def opened() -> dict[str, Any]:
            self._records = record_file.RecordFile()
            return self._records.about()

        return told(opened)

    def read_records(self, group: int) -> dict[str, Any]:
        """The rows of a group become a file; their number."""
        return told(lambda: self._records.group(group))

    def describe_workloads(self, names: list[str]) -> dict[str, Any]:
        """What the modules of workloads are. Call it in a box that has seen no user's file but them."""
        return told(lambda: record_file.describe(names))
