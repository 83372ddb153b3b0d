"""A process that imports, prepares and compiles an ONNX model: ``MODEL OUT_DIR``; prints what it took as JSON."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path


def main() -> None:
    from workers.tvm_backend.warm import warm

    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    warm("llvm")
    from tunesmith.targets import Target
    from workers.tvm_backend import importing, model, prepare, tasks

    started = peak()
    prepared = prepare.prepare(importing.import_model(path, "onnx"))
    prepare.save_params(prepared.params, out / "params.npz")
    module, found = prepared.module, tasks.extract_tasks(prepared.module)
    del prepared
    imported = peak()
    target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    model.compile_model(module, out / "params.npz", target, None, out / "model.so")
    json.dump({"started": started, "imported": imported, "compiled": peak(), "module": len(module),
               "tasks": [[len(task.module), len(task.metaschedule)] for task in found]}, sys.stdout)


def peak() -> int:
    """Bytes of memory at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
