"""A user's own pipeline, from ONNX by TVM's importer to a library: every function finds its schedule, or is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from effort import quick
from run_once import machine
from small_nets import Net, by_onnxruntime

import tunesmith
from tunesmith import metaschedule
from tunesmith.errors import InvalidInput, ModelRejected, NotFound
from tunesmith.preparation import for_target
from tunesmith.sdk.known import OfLog
from tunesmith.targets import Target
from tunesmith.tvm import Database
from workers.core.unmeasured_model import records, schedules
from workers.tvm_backend import tir
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.frontends.tvm_json import programs
from workers.tvm_backend.passes import pipeline

import tvm  # isort: skip
from tvm import relax  # isort: skip
from tvm.relax.frontend.onnx import from_onnx  # isort: skip
from tvm_ffi import structural_equal  # isort: skip

pytestmark = pytest.mark.parallel
TARGET = Target(quick({"mcpu": "x86-64-v3", "num-cores": 2}))
SHAPE = (1, 16, 8, 8)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A network of five kinds of functions, and the exported folder of a job that found a schedule for each.

    TVM's importer writes the bounds in its own way, so that the variables after them have other names, after which a
    block of the mean is called.
    """
    folder = tmp_path_factory.mktemp("tuned")
    net = Net(*SHAPE)
    y = net.clip(net.conv("x", 16, 1), 0, 6)
    y = net.op("MaxPool", net.op("Relu", net.op("Sum", net.conv(y, 16, 1), y)), kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Flatten", net.op("GlobalAveragePool", y))
    path = net.save(folder / "net.onnx", net.op("Gemm", y, net.random(16, 8), net.random(8)))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), for_target("llvm", operator=False))
    texts = metaschedule.folder_texts(
        model="net",
        target=TARGET.to_json(),
        inputs=made.inputs,
        records=records(schedules(made.module, TARGET, None), TARGET),
        preparation=made.preparation.key,
        tvm=tvm.__version__,
    )
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "module.json").write_bytes(made.module)
    return path, folder


def piped(mod: tvm.IRModule, database: Database, *first: Any) -> tvm.IRModule:
    """The module after a user's own passes."""
    target = tir.tvm_target(TARGET)
    with target, database:
        made = tvm.transform.Sequential([*first, relax.get_pipeline("zero"), tunesmith.tvm.defaults(target)])(mod)
    return made


def test_every_function_is_found_and_the_model_computes_the_same(tuned: tuple[Path, Path]) -> None:
    path, folder = tuned
    database = Database(folder, complete=True)
    mod = from_onnx(onnx.load(path))
    made = piped(mod, database, tunesmith.tvm.prepare(database=database))
    report = database.report()
    assert (len(report.found), report.kept, report.missing) == (5, [], []), str(report)
    assert str(report) == "5 of 5 functions have a tuned schedule"
    assert len(database) == 5
    assert [str(var.name) for var in made["main"].params] == [str(var.name) for var in mod["main"].params]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    ours = machine(made, {"mcpu": "x86-64-v3", "num-cores": 2})["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(ours, by_onnxruntime(path, x)[0], 1e-3, 1e-4)


def test_what_has_no_record_is_named_and_what_keeps_its_default_is_not_missing(
    tuned: tuple[Path, Path], tmp_path: Path
) -> None:
    path, folder = tuned
    mod, database = from_onnx(onnx.load(path)), Database(folder, complete=True)
    with pytest.raises(NotFound, match=r"functions have no record in .*conv2d.*prepare before all other passes"):
        piped(mod, database)
    assert "have no record: " in str(database.report())
    assert "no record" in database.report()._repr_html_()  # as a notebook shows it

    # A log names the task that keeps its default schedule, an exported folder the functions of its module.
    workloads, lines = (
        (folder / name).read_text().splitlines() for name in (metaschedule.WORKLOAD_FILE, metaschedule.RECORD_FILE)
    )
    (tmp_path / metaschedule.WORKLOAD_FILE).write_text("\n".join(workloads))
    (tmp_path / metaschedule.RECORD_FILE).write_text("\n".join(lines[1:]))
    for name in ("module.json", metaschedule.PREPARATION_FILE):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    database = Database(tmp_path, complete=True)
    prepared = tunesmith.tvm.prepare(database=database)(tunesmith.tvm.load(path))
    assert structural_equal(tunesmith.tvm.prepare()(prepared), prepared)
    piped(prepared, database)
    report = database.report()
    assert (len(report.found), len(report.kept), report.missing) == (4, 1, [])
    assert json.loads(lines[0])[0] == 0


def test_refusals_are_typed_where_they_come_from_a_pass() -> None:
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("other", [x]):
        builder.emit_func_output(x)
    with pytest.raises(ModelRejected, match="the module has the functions other"):
        tunesmith.tvm.prepare()(builder.get())
    with pytest.raises(InvalidInput, match="give a model, or a path"):
        tunesmith.tvm.load("gemm:8x8x8:float32")


def test_known_schedules_come_with_the_program_whose_blocks_they_name(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    path, folder = tuned
    module = programs.with_inputs(programs.as_module(from_onnx(onnx.load(path))), {})
    made = pipeline.prepare(module, for_target("llvm", operator=False))
    found = records(schedules(made.module, TARGET, None, OfLog(folder).find), TARGET)
    metaschedule.write_database(tmp_path, found)
    database = tvm.s_tir.meta_schedule.database.JSONDatabase(work_dir=str(tmp_path))  # replays all of them
    assert len(database) == len(found) == 5
