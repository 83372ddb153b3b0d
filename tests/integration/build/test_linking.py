from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tunesmith.errors import MeasurementFailed, MissingDependency
from workers.tvm_backend.build import linking

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


SCRIPT = """
import sys
sys.modules["torch"] = None  # which TVM would import, for seconds
import numpy as np, tvm
for path in sys.argv[1:]:
    a, b = (tvm.runtime.tensor(np.full(64, 0.5, "float32")) for _ in range(2))
    tvm.runtime.load_module(path)["main"](a, b)
    print(*b.numpy())
"""


def run_elsewhere(*libraries: Path) -> list[np.ndarray]:
    """Load and run libraries in a process that has nothing but TVM's runtime; what each computes of 0.5."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, libraries)], capture_output=True, text=True, timeout=120, check=True
    )
    return [np.array(line.split(), "float64") for line in done.stdout.splitlines()]


def test_libraries_load_and_find_the_mathematics(
    object_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linked for the user and for a measurement, with the system's tools and without any."""
    libraries = [tmp_path / f"{name}.so" for name in ("user", "measurement", "user-bare", "measurement-bare")]
    for library, for_user in zip(libraries[:2], (True, False), strict=True):
        linking.link([object_file], library, for_user=for_user)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert Path(linking.measurement_command()[0]).name == "zig"
    for library, for_user in zip(libraries[2:], (True, False), strict=True):
        linking.link([object_file], library, for_user=for_user)
    expected = pytest.approx(np.full(64, math.erf(math.exp(0.5)) + math.tan(0.5)), rel=1e-5)
    assert run_elsewhere(*libraries) == [expected] * 4


def test_nothing_to_link_with_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(linking, "_zig", lambda tool: None)
    for command in (linking.measurement_command, linking.user_command):
        with pytest.raises(MissingDependency, match="pip install ziglang"):
            command()


def test_linkers_complaint_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MeasurementFailed, match=r"missing\.o"):
        linking.link([tmp_path / "missing.o"], tmp_path / "out.so")
