"""ONNX's own cases of its operators, with every input kept an input."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase

from tools.sweep.base import REFUSED, Case, CaseOutcome
from workers.tvm_backend.frontends.onnx.packed import KEPT

ABSOLUTE = 1e-5
HALVES = ("float16", "bfloat16")


def cases(parts: Sequence[str] = (), modules: Sequence[str] = ()) -> Iterator[Case | CaseOutcome]:
    """Cases whose names contain one of the ``parts``; all of them without ``parts``.

    Args:
        parts: parts of names.
        modules: ONNX modules that make the cases; all of them, which take ten seconds, by default.
    """
    for case in _made(modules):
        if case.model is None or not case.data_sets or (parts and not any(part in case.name for part in parts)):
            continue
        group = next((each.op_type for each in case.model.graph.node), case.name)
        if any(each is None for each in case.data_sets[0][0]):
            yield CaseOutcome(
                case.name, group, REFUSED, "an optional input has no value; a program is given all inputs"
            )
            continue
        given = case.data_sets[0][0]
        inputs, outputs = (list(_flat(each)) for each in case.data_sets[0])
        rounding = 4 * max((_step(each) for each in outputs), default=0.0)
        yield Case(
            case.name,
            group,
            "onnx",
            case.model.SerializeToString(),
            tuple(inputs),
            tuple(outputs),
            tuple(_shapes(case.model.graph.input, given)),
            max(case.rtol, 1e-3, rounding),
            max(case.atol, ABSOLUTE, rounding / 2),
        )


def _array(value: Any) -> Any:
    """A value of types that NumPy lacks comes as a message; one of fewer than eight bits is kept in a wider type."""
    array = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    kind = str(getattr(array, "dtype", ""))
    return array.astype(KEPT[kind]) if kind in KEPT else array


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """Inputs or outputs as a program has them: the tensors of a sequence one after another."""
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield _array(value)


def _step(array: Any) -> float:
    """How far apart numbers next to 1 are, for types in which each sum is rounded that the reference rounds once."""
    return float(ml_dtypes.finfo(array.dtype).eps) if str(getattr(array, "dtype", "")) in HALVES else 0.0


def with_constants(case: Case, names: Collection[str]) -> Case:
    """The case with some of its inputs as constants in the model."""
    model = onnx.ModelProto.FromString(case.model)
    values, kept = list(model.graph.input), []
    del model.graph.input[:]
    for value, array in zip(values, case.inputs, strict=False):
        if value.name in names:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), value.name))
        else:
            model.graph.input.append(value)
            kept.append(array)
    shapes = tuple(each for each in case.shapes if each[0] not in names)
    return replace(case, model=model.SerializeToString(), inputs=tuple(kept), shapes=shapes)


def _shapes(values: Sequence[Any], inputs: Sequence[Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shapes of the inputs whose declared ones are not fixed, and of the tensors of sequences."""
    for value, given in zip(values, inputs, strict=False):
        kind = value.type.tensor_type
        fixed = kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)
        if isinstance(given, list):
            yield from ((f"{value.name}.{at}", np.shape(_array(each))) for at, each in enumerate(given))
        elif not fixed and isinstance(array := _array(given), np.ndarray):
            yield value.name, array.shape


def _made(modules: Sequence[str]) -> list[TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not modules:
            return list(node.collect_testcases(None))
        for name in modules:
            importlib.import_module(f"{node.__name__}.{name}")
    return list(node._NodeTestCases)
