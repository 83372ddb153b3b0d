"""A user's own pipeline from an ONNX file: TVM's importer, Tunesmith's preparation, TVM's pipeline ``zero``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from tunesmith.tvm import Database, Report, prepare

import tvm  # isort: skip
from tvm import relax  # isort: skip
from tvm.relax.frontend.onnx import from_onnx  # isort: skip


def found(path: Path, source: str, target: Mapping[str, Any]) -> Report:
    """What a database has for the functions of a model."""
    database, meant = Database(source, target), tvm.target.Target(dict(target))
    with meant, database:
        relax.get_pipeline("zero")(prepare(meant, database=database)(from_onnx(onnx.load(path))))
    return database.report()
