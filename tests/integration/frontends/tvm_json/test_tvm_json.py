"""TVM JSON: modules and functions come in as what they compute, and nothing else gets past the check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from one_operator import all_by_tvm
from tvm import relax, te, topi

from tunesmith.errors import DynamicShape, InvalidInput, ModelRejected, TunesmithError, UnsupportedOperator
from tunesmith.model_files import source_by_content
from tunesmith.preparation import for_target
from workers.tvm_backend import tir
from workers.tvm_backend.design_space.rules import contraction
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.frontends.tvm_json import nodes
from workers.tvm_backend.passes import extract_tasks, pipeline
from workers.tvm_backend.passes.layout.expressions import operator

pytestmark = pytest.mark.parallel
WEIGHTS = np.random.default_rng(0).standard_normal((16, 32)).astype("float32")
X = np.random.default_rng(1).standard_normal((4, 16)).astype("float32")


def module(rows: Any = 4, extra: Callable[[Any], Any] = lambda x: x) -> tvm.IRModule:
    """A product, an operator, and a function that ``main`` calls."""
    x = relax.Var("x", relax.TensorType((rows, 16), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit(relax.op.nn.relu(relax.op.matmul(x, relax.const(WEIGHTS), out_dtype="float32")))
            if isinstance(rows, int):
                made = builder.emit_te(topi.tanh, made)
            out = builder.emit_output(extra(made))
        builder.emit_func_output(out)
    return builder.get()


def square(rows: Any = 16, compute: Any = lambda value: value) -> Any:
    """A product of a tensor with itself, so that a rule has to tell its two reads apart."""
    a, k = te.placeholder((rows, 16), name="a"), te.reduce_axis((0, 16), name="k")
    product = te.compute((rows, 16), lambda i, j: te.sum(compute(a[i, k]) * a[k, j], axis=k), name="c")
    return te.create_prim_func([a, product])


def saved(folder: Path, value: Any) -> Path:
    path = folder / "m.json"
    path.write_text(value if isinstance(value, str) else str(tvm.ir.save_json(value)))
    return path


def read(folder: Path, value: Any, shapes: dict[str, tuple[int, ...]] | None = None) -> tvm.IRModule:
    return import_model.import_model(saved(folder, value), "tvm", shapes)


def test_modules_and_functions_compute_what_they_did(tmp_path: Path) -> None:
    expected = np.maximum(X @ WEIGHTS, 0)
    assert '"type":"DataType"' in str(tvm.ir.save_json(module()))
    for value, shapes, wanted in (
        (module(), {}, np.tanh(expected)),
        (relax.get_pipeline("zero")(module()), {}, np.tanh(expected)),
        (module(tvm.tirx.Var("n", "int64")), {"x": (4, 16)}, expected),
    ):
        made = pipeline.prepare(read(tmp_path, value, shapes), for_target("llvm", operator=False))
        assert [(each.name, each.shape) for each in made.inputs] == [("x", (4, 16))]
        assert len(extract_tasks.extract_tasks(made.module)) == 1
        mod = tir.load_module(made.module)
        bound = relax.transform.BindParams("main", {n: tvm.runtime.tensor(a) for n, a in made.params.items()})(mod)
        (found,) = all_by_tvm(bound, X)
        assert np.abs(found - wanted).max() < 1e-3


def test_a_function_is_a_model_of_one_task_whose_last_buffer_is_its_result(tmp_path: Path) -> None:
    mod = read(tmp_path, square())
    assert source_by_content(tmp_path / "m.json") == "tvm"
    (task,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
    assert [each.shape for each in task.workload.args] == [(16, 16), (16, 16)]
    a = np.eye(16, dtype="float32") * 3
    assert np.array_equal(all_by_tvm(mod, a)[0], a @ a)
    # The product reads one buffer twice, which no rule for two operands fits.
    schedule = tvm.s_tir.Schedule(tir.load_module(task.module))
    assert contraction.find(schedule) is None


def test_every_function_of_numbers_is_one_of_tvms() -> None:
    assert set(map(str, tvm.ir.Op.list_op_names())) >= nodes.MATHEMATICS


def test_infinities_come_in_as_they_are(tmp_path: Path) -> None:
    a = te.placeholder((4, 4), name="a")
    masked = te.compute((4, 4), lambda i, j: te.if_then_else(i < j, te.const(float("-inf"), "float32"), a[i, j]), "c")
    x = X[:, :4]
    mod = read(tmp_path, te.create_prim_func([a, masked]))
    assert np.array_equal(all_by_tvm(mod, x)[0], np.where(np.triu(np.ones((4, 4)), 1) > 0, -np.inf, x))


def changed(value: Any, change: Callable[[dict[str, Any]], None]) -> str:
    """The JSON after a change."""
    graph = json.loads(str(tvm.ir.save_json(value)))
    change(graph)
    return json.dumps(graph)


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    """Gives the first node of a type, or of an operator, another one."""

    def change(graph: dict[str, Any]) -> None:
        node = next(node for node in graph["nodes"] if old in (node["type"], node.get("data")))
        node["type" if node["type"] == old else "data"] = new

    return change


def version(graph: dict[str, Any]) -> None:
    graph["metadata"]["tvm_version"] = "0.26.0"


def two_outputs() -> Any:
    a = te.placeholder((4, 4), name="a")
    more = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="o1")
    return te.create_prim_func([a, more, te.compute((4, 4), lambda i, j: a[i, j] + 2, name="o2")])


def parallel() -> Any:
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": square()}))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("c"))[0])
    return schedule.mod["main"]


def two_functions() -> tvm.IRModule:
    return tvm.IRModule({"f": square(), "g": square()})


def print_it(x: Any) -> Any:
    return relax.op.call_pure_packed("os.system", x, ty_args=relax.TensorType((4, 32), "float32"))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: changed(module(), renamed("ir.SourceMap", "ffi.Module")), ModelRejected, "node of type ffi.Module"),
        (lambda: changed(module(), renamed("ir.SourceMap", "tirx.AttrStmt")), ModelRejected, "a pragma"),
        (lambda: changed(module(), renamed("tirx.tanh", "tirx.call_extern")), UnsupportedOperator, "tirx.call_extern"),
        (
            lambda: changed(module(), renamed("relax.nn.relu", "relax.call_py_func")),
            UnsupportedOperator,
            "call_py_func",
        ),
        (lambda: changed(module(), renamed("relax.nn.relu", "relax.nonsense")), UnsupportedOperator, "relax.nonsense"),
        (lambda: module(extra=print_it), ModelRejected, "relax.expr.ExternFunc, a call of a function that is not in"),
        (lambda: changed(module(), version), ModelRejected, "written by TVM 0.26.0"),
        (lambda: changed(module(), lambda graph: graph.pop("nodes")), TunesmithError, "save_json"),
        (lambda: str(tvm.ir.save_json(module()))[:-200], TunesmithError, "ends too early"),
        (lambda: str(tvm.ir.save_json(tvm.ir.Range(0, 4))), TunesmithError, "expected an IRModule or a PrimFunc"),
        (two_functions, ModelRejected, "has the functions f, g"),
        (two_outputs, ModelRejected, "writes o1, o2 of its parameters"),
        (parallel, ModelRejected, "has the loop i, which is not serial|not serial"),
        (lambda: square().with_attr("tirx.is_scheduled", True), ModelRejected, "scheduled already"),
        (lambda: module(tvm.tirx.Var("n", "int64")), DynamicShape, "dynamic dimension 0"),
        (lambda: square(te.var("n", "int64")), DynamicShape, "extent n, which is no number"),
    ],
)
def test_what_is_no_model_is_refused_by_name(
    make: Callable[[], Any], error: type[TunesmithError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        read(tmp_path, make())


def test_shapes_are_of_inputs_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no input 'y', it has 'x'"):
        read(tmp_path, module(), {"y": (4, 16)})
    with pytest.raises(InvalidInput, match="does not fit"):
        read(tmp_path, module(), {"x": (5, 16)})


def test_what_is_checked_is_what_tvm_reads(tmp_path: Path) -> None:
    """Of two equal keys Python's reader keeps the last one, and another may keep the first."""
    text = str(tvm.ir.save_json(module()))
    doubled = text.replace('{"type":"ir.SourceMap"', '{"type":"ffi.Module","type":"ir.SourceMap"', 1)
    assert doubled != text
    assert str(read(tmp_path, doubled)) == str(read(tmp_path, text))


def test_bounds_that_tvms_importer_of_onnx_writes_as_functions_are_operators(tmp_path: Path) -> None:
    x, low = relax.Var("x", relax.TensorType((4, 16), "float32")), relax.const(-1.0, "float32")
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit_te(topi.minimum, builder.emit_te(topi.maximum, x, float("-inf")), 0.5)
            mine = builder.emit_te(lambda a: te.compute(a.shape, lambda *i: te.max(a(*i), -0.5), "mine"), made)
            rows = builder.emit_te(topi.maximum, mine, relax.const(WEIGHTS[:, 0]))
            out = builder.emit_output(builder.emit_te(topi.maximum, rows, low))
        builder.emit_func_output(out)
    mod = read(tmp_path, builder.get())
    steps = [operator(binding.value) for block in mod["main"].body.blocks for binding in block.bindings]
    assert [step for step in steps if step] == ["relax.minimum", "relax.call_tir", "relax.call_tir", "relax.maximum"]
    assert len(mod.functions) == 3
    (found,) = all_by_tvm(mod, X)
    assert np.array_equal(found, np.maximum(np.clip(X, -0.5, 0.5), np.maximum(WEIGHTS[:, 0], -1)))
