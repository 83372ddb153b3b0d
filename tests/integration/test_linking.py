from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tunesmith.errors import MeasurementFailed, MissingDependency
from workers.tvm_backend import linking

pytestmark = pytest.mark.parallel


@pytest.fixture(scope="module")
def object_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel that needs expf, erff and tanf of the C mathematics library."""
    import tvm
    from tvm import te, tirx

    a = te.placeholder((64,), name="a", dtype="float32")
    b = te.compute((64,), lambda i: tirx.erf(tirx.exp(a[i])) + tirx.tan(a[i]), name="b")
    path = tmp_path_factory.mktemp("object") / "kernel.o"
    tvm.compile(te.create_prim_func([a, b]), target={"kind": "llvm"}).mod.write_to_file(str(path))
    return path


def run_elsewhere(library: Path) -> np.ndarray:
    """Load and run the library in a process that has nothing but TVM's runtime."""
    script = (
        "import sys, numpy as np, tvm\n"
        "module = tvm.runtime.load_module(sys.argv[1])\n"
        "a, b = (tvm.runtime.tensor(np.full(64, 0.5, 'float32')) for _ in range(2))\n"
        "module['main'](a, b)\n"
        "print(*b.numpy())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(library)], capture_output=True, text=True, timeout=120, check=True
    )
    return np.array(done.stdout.split(), "float64")


@pytest.mark.parametrize("with_tools", [True, False], ids=["system", "bare"])
@pytest.mark.parametrize("for_user", [True, False], ids=["user", "measurement"])
def test_library_loads_and_finds_the_mathematics(
    object_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_tools: bool, for_user: bool
) -> None:
    if not with_tools:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        assert Path(linking.measurement_command()[0]).name == "zig"
    library = tmp_path / "kernel.so"
    linking.link([object_file], library, for_user=for_user)
    expected = math.erf(math.exp(0.5)) + math.tan(0.5)
    assert run_elsewhere(library) == pytest.approx(np.full(64, expected), rel=1e-5)


def test_nothing_to_link_with_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(linking, "_zig", lambda tool: None)
    for command in (linking.measurement_command, linking.user_command):
        with pytest.raises(MissingDependency, match="pip install ziglang"):
            command()


def test_linkers_complaint_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MeasurementFailed, match=r"missing\.o"):
        linking.link([tmp_path / "missing.o"], tmp_path / "out.so")
