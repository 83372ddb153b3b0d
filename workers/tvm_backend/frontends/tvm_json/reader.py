"""Files that ``tvm.ir.save_json`` wrote into Relax."""

from __future__ import annotations

from pathlib import Path

import tvm

from tunesmith.errors import ModelRejected, TunesmithError, first_line
from tunesmith.model_files import check_tvm
from workers.tvm_backend import tir
from workers.tvm_backend.frontends.tvm_json import nodes, programs


def read(path: Path, shapes: dict[str, tuple[int, ...]]) -> tvm.IRModule:
    """Import a file with a module or a PrimFunc; see ``frontends.import_model.import_model``."""
    check_tvm(path)
    text = nodes.checked(path.read_bytes())
    try:
        return programs.with_inputs(programs.as_module(tir.load_module(text.encode())), shapes)
    except TunesmithError:
        raise
    except Exception as error:
        # TVM raises what it happens to raise where a node lacks a field or has another one's.
        raise ModelRejected(f"TVM cannot read the program: {first_line(error)}", field="file") from error
