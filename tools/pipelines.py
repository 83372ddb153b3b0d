"""Ten ONNX models in a TVM pipeline of one's own: ``python -m tools.pipelines [MODEL ...]``.

Each model is tuned on one embedded stack, by default without a measurement, and saved. Then TVM imports its file,
``tunesmith.tvm.prepare`` brings the module into the tuned form, and TVM's pipeline ``zero`` applies what was saved, as
``docs/how-to/your-own-tvm-pipeline.md`` says. The library runs once, and so does one of that pipeline alone. A table
says how many functions found their schedules and how far the outputs are apart. The exit status is 1 if a function is
missing or outputs differ; the last lines say which.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tunesmith
from benchmarks.models import zoo
from tunesmith.client import EmbeddedStack
from tunesmith.tvm import Database, Report, defaults, prepare

import onnx  # isort: skip
import tvm  # isort: skip
from tools.linked import linked  # isort: skip
from tvm import relax  # isort: skip
from tvm.relax.frontend.onnx import from_onnx  # isort: skip

MODELS = (
    *("bvlc_alexnet", "zfnet512", "vgg19", "resnet50", "squeezenet", "mobilenet", "shufflenet", "inception_v1"),
    *("inception_v2", "encoder"),
)
TOLERANCE = 1e-3
"""Largest difference of outputs, as a part of the largest output."""
HEAD = "| model | functions | found | keep the default | missing | error | seconds |\n|---|--:|--:|--:|---|--:|--:|"
Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class Piped:
    """What became of a model: ``error`` as a part of the largest output, ``seconds`` for all of it."""

    report: Report
    error: float
    seconds: float

    def row(self, name: str) -> str:
        """A row of the table."""
        report, named = self.report, ", ".join(self.report.missing) or "none"
        found, kept = len(report.found), len(report.kept)
        cells = (
            name,
            found + kept + len(report.missing),
            found,
            kept,
            named,
            f"{self.error:.0e}",
            f"{self.seconds:.0f}",
        )
        return f"| {' | '.join(map(str, cells))} |"

    def problems(self, name: str) -> list[str]:
        """What is wrong."""
        found = [f"{name}: no record of {', '.join(self.report.missing)}"] if self.report.missing else []
        if not self.error <= TOLERANCE:
            found.append(f"{name}: outputs differ by {self.error:.1e} of the largest, and {TOLERANCE:g} is allowed")
        return found


def outputs(mod: tvm.IRModule, target: Any, inputs: Arrays) -> Arrays:
    """What a module computes once it is compiled."""
    machine = relax.VirtualMachine(linked(relax.build(mod, target)), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, inputs))
    return [each.numpy() for each in (found if isinstance(found, (list, tuple, tvm.ir.Array)) else [found])]


def drawn(mod: tvm.IRModule) -> Arrays:
    """Normal values for each input."""
    rng, kinds = np.random.default_rng(0), [var.ty for var in mod["main"].params]
    return [rng.standard_normal([int(n) for n in kind.shape.values]).astype(str(kind.dtype)) for kind in kinds]


def apart(found: Arrays, expected: Arrays) -> float:
    """The largest difference as a part of the largest output."""
    return max(float(abs(a - b).max() / abs(b).max()) for a, b in zip(found, expected, strict=True))


def piped(path: Path, saved: Path, target: Any) -> tuple[Report, float]:
    """The report on a model, and how far outputs are apart."""
    mod, database = from_onnx(onnx.load(path)), Database(saved)
    inputs = drawn(mod)
    with target, database:
        made = relax.get_pipeline("zero")(prepare(target, database=database)(mod))
    found = outputs(defaults(target)(made), target, inputs)
    del made
    return database.report(), apart(found, outputs(relax.get_pipeline("zero")(mod), target, inputs))


def tuned(name: str, server: str, trials: int) -> Piped:
    """Tune a model, and use the result in the pipeline."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tunesmith-pipelines-") as folder:
        path = zoo.write_model(name, Path(folder) / "model.onnx")
        made = tunesmith.tune(path, trials=trials, server=server, name=name, quiet=True)
        saved = made.save(Path(folder) / "tuned")
        report, error = piped(path, saved, tvm.target.Target(made.job.target_json))
    gc.collect()  # TVM's visitors refer to themselves, and to a model's weights
    return Piped(report, error, time.monotonic() - start)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help=f"of {', '.join(zoo.names())} (default: ten of them)")
    parser.add_argument("--trials", type=int, default=0, help="of each model (default: none)")
    options = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tunesmith-pipelines-") as folder, EmbeddedStack(folder) as stack:
        print(HEAD)
        for name in options.models:
            done = tuned(name, stack.url, options.trials)
            print(done.row(name), flush=True)
            wrong += done.problems(name)
    for problem in wrong:
        print(problem, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
