"""Whether GPUs can be built for and used: ``python -m workers.tvm_backend.build.cuda_check`` tries both.

Prints one line of JSON: ``compiler``, with ``name`` (``nvcc``, ``nvrtc`` or null) and ``message``, which is empty when
a kernel of tensor cores compiled; ``runtime``, see :class:`~workers.tvm_backend.cuda_runtime.Runtime`.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from workers.sandbox.box import installation, probe
from workers.sandbox.box.base import Confinement, Limits
from workers.sandbox.box.entering import enter
from workers.tvm_backend import cuda_runtime
from workers.tvm_backend.build import cuda_compiler
from workers.tvm_backend.cuda_runtime import Runtime

REPORT = "report this: the driver asks for more than the box of candidates allows, and each of them would fail"


def main() -> None:
    """Try the runtime, then a compiler."""
    found = runtime()
    name = cuda_compiler.choose_compiler()
    message = "" if name is None else cuda_compiler.try_compiler(name)
    print(json.dumps({"compiler": {"name": name, "message": message}, "runtime": asdict(found)}))


def runtime() -> Runtime:
    """What a candidate finds: the runtime works in the box of a device's sessions, too."""
    walls = probe.choose(trust=True) if installation.gpus() else ()
    inside = _boxed(walls) if walls else None  # before this process has used the driver: a fork could no longer do that
    found = cuda_runtime.load()
    if not found.ok or inside is None or inside.ok:
        return found
    return replace(found, ok=False, detail=f"{inside.detail}, in the box of candidates alone", remedy=REPORT)


def _boxed(walls: tuple[str, ...]) -> Runtime:
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="tunesmith-cuda-") as folder:
        pid = os.fork()
        if pid == 0:
            os.close(read)
            os.write(write, json.dumps(asdict(_inside(Path(folder).resolve(), walls, write))).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            said = answer.read()
        _, status = os.waitpid(pid, 0)
    return Runtime(**json.loads(said)) if said else Runtime(False, f"the runtime's process ended with {status}")


def _inside(folder: Path, walls: tuple[str, ...], answer: int) -> Runtime:
    try:
        enter(Confinement(folder, Limits(), walls, devices=installation.gpus()), keep=(answer,))
        return cuda_runtime.load()
    except Exception as error:  # whatever it is, there is no GPU in there
        return Runtime(False, f"{type(error).__name__}: {error}"[:1000])


if __name__ == "__main__":
    main()
