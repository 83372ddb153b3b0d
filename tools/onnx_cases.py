"""ONNX's own cases of its operators through the importer: ``python -m tools.onnx_cases [PART OF A NAME ...]``.

Each case has inputs and what ONNX's reference makes of them. The first input of floating-point numbers stays one, the
others become constants, as they are in models. Prints what disagrees or is refused, and the counts.
"""

from __future__ import annotations

import collections
import importlib
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from numpy.typing import NDArray
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase
from tvm import relax

from tunesmith.errors import TunesmithError
from workers.tvm_backend.frontends import import_model

TYPES = frozenset({"float32", "float64", "int64", "int32", "int8", "uint8", "bool"})
RELATIVE, ABSOLUTE = 1e-3, 1e-5
AGREES = "agrees"
TARGET = {"kind": "llvm", "opt-level": 0}


@dataclass(frozen=True)
class Case:
    """One of ONNX's.

    Attributes:
        x: the input.
        expected: the outputs.
    """

    name: str
    model: onnx.ModelProto
    x: NDArray[Any]
    expected: tuple[NDArray[Any], ...]


def cases(parts: Sequence[str] = (), modules: Sequence[str] = ()) -> Iterator[Case]:
    """Cases for tensors of ``TYPES`` whose names have one of the ``parts``; all of them without ``parts``.

    Args:
        parts: parts of names.
        modules: ONNX modules that make the cases; all of them, which take ten seconds, by default.
    """
    for case in _made(modules):
        inputs, outputs = case.data_sets[0] if case.data_sets else ((), ())
        arrays = [*inputs, *outputs]
        typed = all(isinstance(each, np.ndarray) and str(each.dtype) in TYPES for each in arrays)
        if not inputs or not typed or (parts and not any(part in case.name for part in parts)):
            continue
        kept = next((at for at, each in enumerate(inputs) if each.dtype == np.float32), 0)
        yield Case(case.name, _with_constants(case.model, inputs, kept), inputs[kept], tuple(outputs))


def _made(modules: Sequence[str]) -> list[TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not modules:
            return list(node.collect_testcases(None))
        for name in modules:
            importlib.import_module(f"{node.__name__}.{name}")
    return list(node._NodeTestCases)


def _with_constants(model: onnx.ModelProto, inputs: Sequence[NDArray[Any]], kept: int) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    values = list(made.graph.input)
    del made.graph.input[:]
    for at, (value, array) in enumerate(zip(values, inputs, strict=False)):
        if at == kept:
            made.graph.input.append(value)
        else:
            made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), value.name))
    return made


def outcome(case: Case, folder: Path) -> str:
    """``AGREES``, the refusal's code and text, or what is different. LLVM optimises nothing: each runs once."""
    path = folder / "case.onnx"
    onnx.save(case.model, path)
    try:
        module = import_model.import_model(path, "onnx", {case.model.graph.input[0].name: case.x.shape})
    except TunesmithError as refusal:
        return f"{refusal.code}: {refusal}"
    machine: Any = relax.VirtualMachine(relax.build(module, tvm.target.Target(TARGET)), tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(np.ascontiguousarray(case.x)))
    found = [result] if hasattr(result, "numpy") else list(result)
    if len(found) != len(case.expected):
        return f"{len(found)} outputs of {len(case.expected)}"
    for ours, theirs in zip((each.numpy() for each in found), case.expected, strict=True):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"{ours.dtype}{list(ours.shape)} for {theirs.dtype}{list(theirs.shape)}"
        if not np.allclose(ours, theirs, RELATIVE, ABSOLUTE, equal_nan=True):
            return "other numbers"
    return AGREES


def main(parts: Sequence[str]) -> None:
    """Run the cases, and print what does not agree."""
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="tunesmith-cases-") as folder:
        for case in cases(parts):
            try:
                said = outcome(case, Path(folder))
            except Exception as error:
                said = f"not compiled: {type(error).__name__}"
            counts[said.partition(":")[0]] += 1
            if said != AGREES:
                print(f"{case.name}: {said}")
    print(dict(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
