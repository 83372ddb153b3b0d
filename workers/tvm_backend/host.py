"""What this host is, as TVM sees it: ``python -m workers.tvm_backend.host`` prints it as JSON."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import platform
import socket
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tunesmith.child_process import run_to_end
from tunesmith.errors import StackFailed
from tunesmith.host import cpu_features, cpu_lines
from tunesmith.safe_path import python
from workers.tvm_backend.warm import import_tvm, visible_cores, without_pytorch

DESCRIBE_SECONDS = 60.0


@dataclass(frozen=True)
class Host:
    """A host that can measure on its own CPU.

    Attributes:
        name: the host name.
        cpu: the processor's name for people.
        mcpu: LLVM's name of the processor.
        cores: cores that this process may run on.
        tvm: TVM's version.
        features: LLVM's names of what kernels ask for, and this processor has although ``mcpu`` does not say so: a
            virtual machine shows a model of its own choice.
    """

    name: str
    cpu: str
    mcpu: str
    cores: int
    tvm: str
    python: str
    os: str
    features: tuple[str, ...] = ()

    @property
    def target(self) -> dict[str, Any]:
        """Target JSON of all cores of this CPU."""
        more = {"mattr": [f"+{feature}" for feature in self.features]} if self.features else {}
        return {"kind": "llvm", "mcpu": self.mcpu, "num-cores": self.cores} | more


def describe() -> Host:
    """Ask TVM; for processes that import it anyway."""
    import_tvm()
    import tvm

    return _host(str(tvm.__version__))


def _host(tvm: str) -> Host:
    """This host, as TVM's loaded libraries see it."""
    import tvm_ffi

    ask = tvm_ffi.get_global_func
    mcpu = str(ask("target.llvm_get_system_cpu")())
    named, has = ask("target.Target")(json.dumps({"kind": "llvm", "mcpu": mcpu})), ask("target.target_has_feature")
    return Host(
        name=socket.gethostname(),
        cpu=_processor_name(),
        mcpu=mcpu,
        cores=visible_cores(),
        tvm=tvm,
        python=platform.python_version(),
        os=platform.platform(),
        features=tuple(feature for feature in cpu_features() if not has(feature, named)),
    )


def _describe_by_libraries() -> Host:
    """:func:`describe` of TVM's wheel without its Python modules, whose import takes four times as long."""
    with without_pytorch():
        importlib.import_module("tvm_ffi")
    spec = importlib.util.find_spec("tvm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "lib"
    ctypes.CDLL(str(folder / "libtvm_runtime.so"), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(folder / "libtvm_compiler.so"), ctypes.RTLD_LOCAL)
    return _host(metadata.version("apache-tvm"))


def describe_from_outside() -> Host:
    """:func:`describe` in a process of its own, for those that stay light.

    Raises:
        StackFailed: when TVM cannot be loaded.
    """
    done = run_to_end(python("workers.tvm_backend.host"), DESCRIBE_SECONDS)
    if done.returncode != 0:
        raise StackFailed(f"TVM does not load here: {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Host(**found | {"features": tuple(found["features"])})


def _processor_name() -> str:
    return cpu_lines().get("model name") or platform.processor()


def main() -> None:
    """Print the host; a TVM that was built elsewhere lies in other places, and is imported."""
    try:
        host = _describe_by_libraries()
    except (OSError, ValueError, metadata.PackageNotFoundError):
        host = describe()
    print(json.dumps(asdict(host)))


if __name__ == "__main__":
    main()
