"""Whether GPUs can be built for and used: ``python -m workers.tvm_backend.build.cuda_check`` tries both.

Prints one line of JSON: ``compiler``, with ``name`` (``nvcc``, ``nvrtc`` or null) and ``message``, which is empty when
a kernel of tensor cores compiled; ``runtime``, see :class:`~workers.tvm_backend.cuda_runtime.Runtime`.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from workers.tvm_backend import cuda_runtime
from workers.tvm_backend.build import cuda_compiler


def main() -> None:
    """Try a compiler, then the runtime."""
    name = cuda_compiler.choose_compiler()
    message = "" if name is None else cuda_compiler.try_compiler(name)
    print(json.dumps({"compiler": {"name": name, "message": message}, "runtime": asdict(cuda_runtime.load())}))


if __name__ == "__main__":
    main()
