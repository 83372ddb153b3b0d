"""Values that are drawn for inputs lie where the programs that take them are defined."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tunesmith.types import TensorSpec, Values
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.passes.value_ranges.functions import Function
from workers.tvm_backend.passes.value_ranges.models import input_values
from workers.tvm_backend.passes.value_ranges.search import argument_specs
from workers.tvm_backend.warm import warm

warm("c")
from tvm import relax, te, tirx  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

from workers.tvm_backend.frontends.import_model import import_model  # noqa: E402
from workers.tvm_backend.passes import pipeline  # noqa: E402
from workers.tvm_backend.passes.fast_math import formulas  # noqa: E402

pytestmark = pytest.mark.parallel

ROWS, SIZE = 10, 4
REAL, WHOLE = "float32", "int64"


def kernel(formula: Callable[..., Any], *dtypes: str, shape: tuple[int, ...] = (SIZE,)) -> Any:
    """A program of one element after the other."""
    given = [te.placeholder(shape, dtype, name=f"x{at}") for at, dtype in enumerate(dtypes)]
    return te.create_prim_func([*given, te.compute(shape, lambda *at: formula(*(x[at] for x in given)))])


def lookup(index: Callable[[Any], Any], dtype: str = WHOLE) -> Any:
    """Rows of a table at what ``index`` makes of numbers."""
    table, at = te.placeholder((ROWS, SIZE), REAL), te.placeholder((SIZE,), dtype)
    return te.create_prim_func([table, at, te.compute((SIZE, SIZE), lambda i, j: table[index(at[i]), j])])


def values(program: Any) -> list[Values | None]:
    """For the arguments of a program but its output."""
    function = Function(program)
    specs = [TensorSpec(spot.dtype, spot.shape) for spot in function.spots]
    return [spec.values for spec in argument_specs(function, specs)][:-1]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (lambda v: v, (0, ROWS - 1)),
        (lambda v: v + 3, (0, ROWS - 4)),
        (lambda v: v + 20, None),
        (lambda v: tirx.Select(v < 0, v + ROWS, v), (0, ROWS - 1)),
        (lambda v: v // 3, (0, 3 * ROWS - 1)),
        (lambda v: v * 2, (0, (ROWS - 1) // 2)),
        (lambda v: 9 - v, (0, ROWS - 1)),
        (lambda v: tirx.min(tirx.max(v, 0), ROWS - 1), None),
        (lambda v: tirx.floormod(v, ROWS), None),
    ],
)
def test_indices_are_inside_of_what_they_index(index: Callable[[Any], Any], expected: tuple[int, int] | None) -> None:
    table, found = values(lookup(index))
    assert found == (None if expected is None else Values(*expected))
    assert table == Values(-1.0, 1.0, special=True)


def test_short_types_hold_what_is_drawn_for_them() -> None:
    table, at = te.placeholder((1000,), REAL), te.placeholder((SIZE,), "int8")
    program = te.create_prim_func([table, at, te.compute((SIZE,), lambda i: table[at[i].astype(WHOLE)])])
    assert values(program)[1] == Values(0, 127)
    table = te.placeholder((1000,), REAL)
    at = te.placeholder((SIZE,), "uint8")
    program = te.create_prim_func([table, at, te.compute((SIZE,), lambda i: table[at[i].astype(WHOLE)])])
    assert values(program)[1] == Values(0, 255)


@pytest.mark.parametrize("divide", [tirx.truncdiv, tirx.truncmod, tirx.floordiv, tirx.floormod])
def test_no_whole_number_is_divided_by_zero(divide: Callable[[Any, Any], Any]) -> None:
    assert values(kernel(divide, WHOLE, WHOLE)) == [None, Values(1, 8)]
    assert values(kernel(lambda a, b: divide(a, b - 2), WHOLE, WHOLE))[1] == Values(0, 1)
    assert values(kernel(lambda a: divide(a, tirx.const(3, WHOLE)), WHOLE)) == [None]


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (tirx.sqrt, 0.0, 1.0),
        (tirx.rsqrt, 0.0, 1.0),
        (tirx.log, 0.0, 1.0),
        (formulas.log, 0.0, 1.0),
        (lambda v: tirx.log(v + 0.25), -0.25, 1.0),
        (tirx.acosh, 1.0, 2.0),
        (lambda v: tirx.acos(v * 2.0), -0.5, 0.5),
        (lambda v: tirx.atanh(v * 2.0), -0.5, 0.5),
        (lambda v: tirx.pow(v, tirx.const(1.5, REAL)), 0.0, 1.0),
        (lambda v: tirx.sqrt(3.0 - v * 4.0), -1.0, 0.75),
    ],
)
def test_reals_are_where_functions_are_defined(function: Callable[[Any], Any], low: float, high: float) -> None:
    (found,) = values(kernel(function, REAL))
    assert found is not None
    assert low <= found.low < found.high <= high
    assert found.high - found.low > 0.8 * (high - low)


@pytest.mark.parametrize(
    "function",
    [
        tirx.exp,
        tirx.acos,
        lambda v: tirx.sqrt(v * v),
        lambda v: tirx.pow(v, tirx.const(3.0, REAL)),
        lambda v: tirx.if_then_else(v > 0, tirx.log(v), v),
    ],
)
def test_what_is_defined_everywhere_is_drawn_as_ever(function: Callable[[Any], Any]) -> None:
    (found,) = values(kernel(function, REAL))
    assert found in (None, Values(-1.0, 1.0, special=True))


def test_a_sum_of_squares_has_a_root() -> None:
    x, k = te.placeholder((SIZE, 8), REAL), te.reduce_axis((0, 8))
    squares = te.compute((SIZE,), lambda i: te.sum(x[i, k] * x[i, k], axis=k))
    program = te.create_prim_func([x, te.compute((SIZE,), lambda i: tirx.sqrt(squares[i]))])
    assert values(program) == [Values(-1.0, 1.0, special=True)]


def test_two_inputs_of_an_index_are_narrowed_one_after_the_other() -> None:
    table, a, b = te.placeholder((ROWS,), REAL), te.placeholder((SIZE,), WHOLE), te.placeholder((SIZE,), WHOLE)
    program = te.create_prim_func([table, a, b, te.compute((SIZE,), lambda i: table[a[i] + b[i]])])
    _, first, second = values(program)
    assert first == Values(0, 2)
    assert second is None or (second.low >= 0 and second.high + 2 < ROWS)


def test_nan_and_infinity_are_for_whom_they_have_one_effect() -> None:
    def special(program: Any) -> list[bool]:
        return [each is not None and each.special for each in values(program)]

    assert special(kernel(lambda a, b: a * b, REAL, REAL)) == [True, False]  # one argument of a kernel is enough
    assert special(kernel(lambda a: a.astype(WHOLE), REAL)) == [False]
    assert special(lookup(lambda v: v.astype(WHOLE), REAL)) == [True, False]
    x, k = te.placeholder((SIZE, 8), REAL), te.reduce_axis((0, 8))
    assert special(te.create_prim_func([x, te.compute((SIZE,), lambda i: te.max(x[i, k], axis=k))])) == [False]
    assert special(te.create_prim_func([x, te.compute((SIZE,), lambda i: te.sum(x[i, k], axis=k))])) == [True]


def test_arguments_that_are_updated_are_known() -> None:
    @T.prim_func
    def cache(new: T.Buffer((4,), "float32"), held: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
        for i in range(4):
            held[i] = held[i] * T.float32(0.5) + new[i]
            out[i] = held[i]

    assert Function(cache).updated == (1,)
    x, k = te.placeholder((SIZE, 8), REAL), te.reduce_axis((0, 8))
    total = te.create_prim_func([x, te.compute((SIZE,), lambda i: te.sum(x[i, k], axis=k))])
    assert Function(total).updated == ()


INTS, FLOATS = TensorProto.INT64, TensorProto.FLOAT


def model(folder: Path, nodes: list[Any], inputs: Mapping[str, tuple[int, list[int]]], **weights: NDArray[Any]) -> Path:
    """A small model whose outputs are those of its last node."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(made), folder / "m.onnx")
    return folder / "m.onnx"


def drawn(path: Path) -> dict[str, Values | None]:
    """For the inputs of a model as jobs for CPUs prepare it."""
    from tunesmith.preparation import for_target

    prepared = pipeline.prepare(import_model(path, "onnx"), for_target("llvm", operator=False))
    from workers.tvm_backend import tir

    return {spec.name: spec.values for spec in input_values(tir.load_module(prepared.module), prepared.inputs)}


def test_a_models_inputs_are_inside_of_all_that_they_index(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words, kinds = (rng.standard_normal((rows, 8)).astype(np.float32) for rows in (50, 2))
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["a"]),
        helper.make_node("Gather", ["kinds", "kind"], ["b"]),
        helper.make_node("Mod", ["ids", "count"], ["left"]),
        helper.make_node("Gather", ["words", "left"], ["c"]),
        helper.make_node("Add", ["a", "b"], ["d"]),
        helper.make_node("Log", ["x"], ["l"]),
        helper.make_node("Add", ["l", "c"], ["e"]),
        helper.make_node("Add", ["d", "e"], ["y"]),
    ]
    inputs = {"ids": (INTS, [6]), "kind": (INTS, [6]), "count": (INTS, [6]), "x": (FLOATS, [6, 8])}
    found = drawn(model(tmp_path, nodes, inputs, words=words, kinds=kinds))
    assert found["ids"] == Values(0, 49)
    assert found["kind"] == Values(0, 1)
    assert found["count"] == Values(1, 8)
    real = found["x"]
    assert real is not None
    assert 0 < real.low < real.high == 1.0
    assert real.special


def test_a_model_that_makes_indices_of_real_numbers_gets_no_nan(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=INTS),
        helper.make_node("Gather", ["table", "i"], ["y"]),
    ]
    found = drawn(model(tmp_path, nodes, {"x": (FLOATS, [6])}, table=np.ones((4, 8), np.float32)))
    assert found["x"] is None or not found["x"].special


def test_values_are_drawn_in_their_range() -> None:
    whole = random_array(TensorSpec(WHOLE, (1000,), values=Values(-3, 5)), 0)
    assert (whole.min(), whole.max()) == (-3, 5)
    real = random_array(TensorSpec(REAL, (1000,), values=Values(0.5, 0.75)), 0)
    assert 0.5 <= real.min() < real.max() <= 0.75
    assert json.dumps(whole.tolist()) == json.dumps(
        random_array(TensorSpec(WHOLE, (1000,), values=Values(-3, 5)), 0).tolist()
    )


def test_a_branch_of_a_model_is_not_looked_into() -> None:
    builder = relax.BlockBuilder()
    x, condition = relax.Var("x", relax.TensorType((4,), REAL)), relax.Var("c", relax.TensorType((), "bool"))
    with builder.function("main", [x, condition], attrs={"input_names": '["x", "c"]', "num_input": 2}):
        out = builder.emit(relax.If(condition, x, x))
        builder.emit_func_output(out)
    specs = [TensorSpec(REAL, (4,), "x"), TensorSpec("bool", (), "c")]
    assert [spec.values for spec in input_values(builder.get(), specs)] == [None, None]
