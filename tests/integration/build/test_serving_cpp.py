"""The C++ program of the guide, built against TVM's wheels by the guide's commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from effort import quick
from pasted import ROOT, activated, pasted

from tunesmith.preparation import PLAIN
from tunesmith.safe_path import python
from tunesmith.targets import Target
from workers.tvm_backend.build.local_model import LocalModel

pytestmark = pytest.mark.parallel
GUIDE = ROOT / "docs" / "how-to" / "serve-from-cpp.md"
SHAPES = {"a": (6, 5), "b": (5, 32)}


def compiler() -> str:
    """The C++ compiler of this machine; where there is none, tests have the one of a Python package."""
    found = next((each for each in ("c++", "g++", "clang++") if shutil.which(each)), None)
    return found or shlex.join(python("ziglang", "c++"))


def test_a_model_is_served_by_the_program_of_the_guide(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)[:2])
    (tmp_path / "serve.cc").write_text(blocks["cpp"])
    target = Target(quick({"mcpu": "x86-64-v3", "num-cores": 1}))
    LocalModel("gemm:6x32x5:float32", {}, tmp_path, PLAIN).compile(tmp_path / "model.so", target, None)
    given = {name: np.random.default_rng(0).standard_normal(shape, np.float32) for name, shape in SHAPES.items()}
    for name, values in given.items():
        values.tofile(tmp_path / name)
    env = activated(os.environ) | {"CXX": os.environ.get("CXX") or compiler(), "TVM_NUM_THREADS": "1"}
    pasted(blocks["sh"], tmp_path, env)
    printed = pasted("./serve model.so c 6x5=a 5x32=b", tmp_path, env)
    assert printed.startswith("output of [6, 32]\n")
    assert printed.endswith(" ms\n")
    made = np.fromfile(tmp_path / "c", np.float32).reshape(6, 32)
    np.testing.assert_allclose(made, given["a"] @ given["b"], 1e-5, 1e-5)
    refused = pasted("./serve model.so c 6x5=a 5x31=b 2>&1 || true", tmp_path, env)
    assert "shape" in refused, refused
    assert "No such file" in pasted("./serve nowhere.so c 2>&1 || true", tmp_path, env)
