"""TVM's start: quick, and with all that a plain import brings; whoever needs PyTorch imports it afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.parallel

SCRIPT = """
import sys
from pathlib import Path

from workers.tvm_backend.warm import import_tvm, warm

import_tvm()
FUNCTIONS
warm()
assert "tvm.relax" in sys.modules
assert "torch" not in sys.modules

import torch
import tvm
from tvm import relax
from workers.tvm_backend.frontends.import_model import import_model

x = torch.arange(6.0).reshape(2, 3)
assert (tvm.runtime.from_dlpack(x).numpy() == x.numpy()).all()
machine = relax.VirtualMachine(relax.build(import_model(Path(sys.argv[1]), "pt2"), "llvm"), tvm.cpu())
found, expected = machine["main"](tvm.runtime.tensor(x.numpy())), torch.export.load(sys.argv[1]).module()(x)
torch.testing.assert_close(torch.from_dlpack(found), expected)
"""
FUNCTIONS = """
import sys
modules = {name: module for name, module in sys.modules.items() if name.startswith("tvm.") and "_ffi" in name}
print({name: sorted(set(vars(module)) - {"__cached__", "__builtins__"}) for name, module in sorted(modules.items())})
"""


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


def python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pytorch_is_left_out_and_works_when_it_comes_later(tmp_path: Path) -> None:
    """Until then each module has the functions that a plain import gives it."""
    path = tmp_path / "layer.pt2"
    torch.manual_seed(0)
    torch.export.save(torch.export.export(Layer(), (torch.ones(2, 3),)), path)
    quick = python(SCRIPT.replace("FUNCTIONS", FUNCTIONS), str(path))
    plain = python(f"import sys\nsys.modules['torch'] = None\nimport tvm\n{FUNCTIONS}")
    assert quick.count("_ffi_api") > 20
    assert quick == plain


def test_pytorch_that_is_there_already_stays() -> None:
    python(
        "import sys, torch\nfrom workers.tvm_backend.warm import import_tvm\n"
        "import_tvm()\nassert sys.modules['torch'] is torch"
    )
