"""Share of multiply-adds on narrow instructions: ``python -m tools.narrow [--precision bf16|int8] [MODEL ...]``.

Each model is prepared and compiled as ``tunesmith compile`` does it without a log, and the assembly of each function
is read. A function's multiply-adds are narrow if its code has an instruction for products of narrow operands.
Channels that a layout adds count, too. The exit status is 1 if less than 95 % of a model's are narrow.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.comparison import Comparison
from benchmarks.models import zoo
from tunesmith.metaschedule import write_database
from tunesmith.names import BF16, INT8
from tunesmith.options import JobOptions
from tunesmith.targets import Target
from workers.core.unmeasured_model import records, schedules
from workers.tvm_backend import tir
from workers.tvm_backend.build.local_model import LocalModel, default_preparation, local_target
from workers.tvm_backend.export import script
from workers.tvm_backend.passes.extract_tasks import extract_tasks

MODELS = ("light_resnet50", "light_squeezenet", "light_densenet121", "light_shufflenet", "mobilenet", "encoder")
WANTED = 0.95
CALLED = "__tvm_ffi_"
"""Begins the name of a function that can be called from outside of the library."""
NARROW = re.compile(r"\b(?:tdpbf16ps|vdpbf16ps|tdpbusd|tdpbuud|tdpbssd|vpdpbusds?|vpmaddubsw)\b")
LABEL = re.compile(r"^(\.L__tvm_parallel_lambda[.\d]*|[A-Za-z_]\w*):", re.MULTILINE)
PART = re.compile(r"(?:leaq|callq|jmp)\s+(\.L__tvm_parallel_lambda(?:\.\d+)?|\w+_compute_)\b")
"""What a function refers to that is its own: what its threads run."""


@dataclass(frozen=True)
class Share:
    """One model.

    Attributes:
        products: multiply-adds of one run.
        wide: those of each function without a narrow instruction, by its name.
    """

    products: float
    wide: dict[str, float]

    @property
    def narrow(self) -> float:
        """The share that runs on narrow instructions."""
        return 1 - sum(self.wide.values()) / self.products


def multiply_adds(module: Any) -> float:
    """Products that a function's reductions add up, in one run.

    Args:
        module: an IRModule of one function, as it is before scheduling.
    """
    from tvm.s_tir import SBlock

    total = 0.0
    for function in module.functions.values():
        for block in _nodes(function.body, SBlock):
            if block.init is not None:
                total += math.prod(int(each.dom.extent) for each in block.iter_vars) * _products(block.body)
    return total


def _products(body: Any) -> int:
    """Multiplications of two loaded values in one step."""
    from tvm.ir import TensorLoad
    from tvm.tirx.expr import Mul

    return sum(bool(_nodes(each.a, TensorLoad)) and bool(_nodes(each.b, TensorLoad)) for each in _nodes(body, Mul))


def _nodes(root: Any, kind: type) -> list[Any]:
    """Everything of a kind within a statement or an expression."""
    from tvm_ffi import structural_walk

    found: list[Any] = []
    structural_walk(root, (kind, found.append))
    return found


def share(file: Path, precision: str, target: Target, folder: Path) -> Share:
    """How a model comes out that is compiled in a precision, without a log."""
    preparation = default_preparation(str(file), target, JobOptions(precision=precision))
    local = LocalModel(str(file), {}, folder, preparation)
    write_database(folder / "database", records(schedules(local.module, target, None), target))
    steps, tvm_target = script(), tir.tvm_target(target)
    mod, _, _ = steps.apply_schedules(tir.load_module(local.module), tvm_target, folder / "database")
    code = dict(functions(steps.build(mod, tvm_target).mod.imports[0].inspect_source("asm")))
    tasks = [task for task in extract_tasks(local.module) if task.workload.name in code]
    done = {task.workload.name: task.weight * multiply_adds(tir.load_module(task.module)) for task in tasks}
    wide = {name: products for name, products in done.items() if products and not NARROW.search(code[name])}
    return Share(sum(done.values()), wide)


def functions(assembly: str) -> Iterator[tuple[str, str]]:
    """Names of functions, and the code of each with that of its threads."""
    labels = [(found.start(), found[1]) for found in LABEL.finditer(assembly)]
    ends = [start for start, _ in labels[1:]] + [len(assembly)]
    parts = {name: assembly[start:end] for (start, name), end in zip(labels, ends, strict=True)}
    for name in parts:
        if name.startswith(CALLED):
            own, left = {name}, [name]
            while left:
                more = set(PART.findall(parts[left.pop()])) & parts.keys() - own
                own |= more
                left += more
            yield name.removeprefix(CALLED), "".join(parts[each] for each in own)


def main() -> int:
    """The table, a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=(BF16, INT8), default=BF16)
    parser.add_argument("model", nargs="*", default=MODELS)
    given = parser.parse_args()
    target, worst = local_target("cpu"), 1.0
    print("| model | multiply-adds, 10^6 | on narrow instructions, % | others, % of all |\n|---|---:|---:|---|")
    for name in given.model:
        with tempfile.TemporaryDirectory(prefix="tunesmith-narrow-") as made:
            folder = Path(made)
            file = zoo.model_file(name, folder, 0)
            if given.precision == INT8:
                file = Comparison(file, folder, target, print).file_in(INT8)
            found = share(file, given.precision, target, folder)
        others = ", ".join(f"`{key}` {100 * value / found.products:.2g}" for key, value in _largest(found.wide))
        print(
            f"| {name} {given.precision} | {found.products / 1e6:.0f} | {100 * found.narrow:.1f} | {others} |",
            flush=True,
        )
        worst = min(worst, found.narrow)
    return 0 if worst >= WANTED else 1


def _largest(wide: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(wide.items(), key=lambda each: -each[1])[:3]


if __name__ == "__main__":
    sys.exit(main())
