"""Imports through the boxes: real models come out whole, and what goes wrong inside is told apart."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import core_flow
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from process_probe import CHILD_ENV

from db.blobs import BlobStore
from db.models import Model
from tunesmith.errors import MissingDependency, ModelRejected, NotAModel, TunesmithError, UnsupportedOperator
from tunesmith.messages import IngestModel
from tunesmith.preparation import Preparation, for_target
from tunesmith.states import ModelState
from workers.core import claims, importing, ingest
from workers.core.context import Context
from workers.core.importing import Importing, ImportLost, Upload
from workers.sandbox.box import probe
from workers.settings import Settings
from workers.tvm_backend.frontends import import_model as in_process
from workers.tvm_backend.passes import extract_tasks, pipeline

pytestmark = pytest.mark.parallel
CPU = for_target("llvm", operator=False)


def small_onnx(path: Path) -> Path:
    """A product with weights, with constants to fold."""
    weights = np.arange(64 * 32, dtype="float32").reshape(64, 32)
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["w", "w"], ["v"]),
            helper.make_node("MatMul", ["x", "v"], ["p"]),
            helper.make_node("Tanh", ["p"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 32])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def small_pt2(path: Path) -> Path:
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
    torch.export.save(torch.export.export(net, (torch.zeros(2, 16),)), path)
    return path


@pytest.mark.parametrize("source", ["onnx", "pt2"])
def test_a_model_comes_out_of_its_box_as_it_would_without_one(source: str, tmp_path: Path) -> None:
    path = (small_onnx if source == "onnx" else small_pt2)(tmp_path / f"m.{source}")
    blobs = BlobStore(tmp_path / "blobs")
    made = core_flow.importing().run(Upload(source, path, "", {}, CPU), blobs)
    expected = pipeline.prepare(in_process.import_model(path, source), CPU)
    assert made.inputs == expected.inputs
    assert blobs.get_bytes(made.module_blob) == expected.module
    found = {task.workload.hash: task for task in made.tasks}
    for task in extract_tasks.extract_tasks(expected.module):
        assert found[task.workload.hash].workload == task.workload
        assert blobs.get_bytes(found[task.workload.hash].module_blob) == task.module
        assert blobs.get_bytes(found[task.workload.hash].metaschedule_blob) == task.metaschedule
    assert made.params_size == extract_tasks.parameter_bytes(expected.module)
    with np.load(blobs.path(made.params_blob), allow_pickle=False) as file:
        assert {name: file[name].tobytes() for name in file.files} == {
            name: array.tobytes() for name, array in expected.params.items()
        }


def test_names_of_long_fused_tasks_are_cut(tmp_path: Path) -> None:
    """A chain of unary operators is one task, whose name tells all of them."""
    kinds = ("Neg", "Abs", "Ceil", "Floor")
    nodes = [helper.make_node(kinds[i % 4], [f"v{i}"], [f"v{i + 1}"]) for i in range(240)]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [8, 8]) for name in ("v0", "v240")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    made = core_flow.importing().run(Upload("onnx", tmp_path / "m.onnx", "", {}, CPU), BlobStore(tmp_path / "blobs"))
    assert made.tasks
    assert max(len(task.workload.name) for task in made.tasks) == 200
    assert max(len(task.workload.family) for task in made.tasks) <= 100


def test_refusals_keep_their_type_across_the_wall(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    (tmp_path / "bad").write_bytes(b"no model at all")
    with pytest.raises(NotAModel):
        core_flow.importing().run(Upload("onnx", tmp_path / "bad", "", {}, CPU), blobs)


@pytest.fixture
def seconds() -> int:
    """Of wall time that an import has."""
    return 20


@pytest.fixture
def hostile_importing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: int) -> Iterator[Importing]:
    """Importers whose boxes do what the operator's text says, instead of importing."""
    monkeypatch.setenv("PYTHONPATH", CHILD_ENV["PYTHONPATH"])
    monkeypatch.setattr(importing, "IMPORTER", "hostile:FakeImporter")
    limits = {"import_seconds": seconds, "import_cpu_seconds": 2, "import_memory_share": 0.02}
    made = Importing(Settings(data_dir=tmp_path / "data", **limits))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("deed", "kind", "text"),
    [
        ("spin", ModelRejected, "IMPORT_CPU_SECONDS"),
        ("fill memory", ModelRejected, "IMPORT_MEMORY_SHARE"),
        ("crash", ModelRejected, "SIGSEGV"),
        ("killed", ImportLost, "SIGKILL"),
        ("lie", ModelRejected, "proper form"),
        ("other error", ModelRejected, "not one of the model's"),
        ("huge", ModelRejected, "proper form"),
        ("no files", ModelRejected, "module.json"),
        ("link", ModelRejected, "module.json"),
        ("memory error", ModelRejected, "more memory"),
    ],
)
def test_what_goes_wrong_in_a_box_is_told_apart(
    hostile_importing: Importing, tmp_path: Path, deed: str, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        hostile_importing.run(Upload("operator", None, deed, {}, Preparation()), BlobStore(tmp_path / "blobs"))
    if isinstance(caught.value, TunesmithError):
        assert caught.value.status == 422


@pytest.mark.parametrize("seconds", [2])
def test_an_import_that_waits_ends_with_its_wall_time(hostile_importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(ModelRejected, match=r" 2 s \(TUNESMITH_IMPORT_SECONDS"):
        hostile_importing.run(Upload("operator", None, "sleep", {}, Preparation()), BlobStore(tmp_path / "blobs"))


def test_a_lost_box_uses_up_an_attempt_and_the_model_is_due_at_once(
    hostile_importing: Importing, tmp_path: Path, sqlite_url: str
) -> None:
    context = dataclasses.replace(core_flow.core_context(tmp_path, sqlite_url), importing=hostile_importing)
    core_flow.add_operator(context, operator="killed")
    for attempt in (1, 2, 3):
        assert ingest.import_model(context, IngestModel(model_id="m1", attempt=attempt))
        model = the_model(context)
        assert model.attempt == min(attempt + 1, 3)
    assert model.state is ModelState.REJECTED
    context.sessions.kw["bind"].dispose()


def test_a_limit_ends_the_model_at_the_first_attempt(
    hostile_importing: Importing, tmp_path: Path, sqlite_url: str
) -> None:
    context = dataclasses.replace(core_flow.core_context(tmp_path, sqlite_url), importing=hostile_importing)
    core_flow.add_operator(context, operator="spin")
    assert ingest.import_model(context, IngestModel(model_id="m1", attempt=1))
    model = the_model(context)
    assert (model.state, model.attempt, model.error["code"]) == (ModelState.REJECTED, 1, "model_rejected")
    context.sessions.kw["bind"].dispose()


def the_model(context: Context) -> Model:
    with context.readers() as session:
        return session.get_one(Model, "m1")


def test_without_any_wall_models_are_refused_and_the_refusal_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probe, "probe", lambda: {"namespaces": "not permitted", "landlock": "not there"})
    upload, blobs = Upload("operator", None, "gemm:8x8x8:float32", {}, CPU), BlobStore(tmp_path / "blobs")
    with pytest.raises(MissingDependency, match="TUNESMITH_TRUST_MODELS=1"):
        Importing(Settings(data_dir=tmp_path)).run(upload, blobs)


GOOD = {
    "hash": "1",
    "name": "n",
    "args": [["float32", [2, 3]]],
    "flops": 6,
    "family": "f",
    "weight": 1,
    "alternative_of": None,
    "weights": [],
}


@pytest.mark.parametrize(
    "changed",
    [
        {"hash": "x"},
        {"hash": "1" * 30},
        {"flops": float("inf")},
        {"flops": -1},
        {"flops": float("nan")},
        {"weight": 0},
        {"weight": 2**40},
        {"name": "n" * 5000},
        {"args": [["float32; drop", [1]]]},
        {"args": [["float32", [-1]]]},
        {"args": []},
        {"more": 1},
        {"alternative_of": "'"},
        {"args": 7},
    ],
)
def test_claims_of_another_form_are_refused(changed: dict[str, object]) -> None:
    whole = {"inputs": [["x", "float32", [2]]], "tasks": [GOOD], "params_size": 0}
    assert claims.split({"done": whole}).tasks[0].workload().flops == 6
    with pytest.raises(ModelRejected, match="proper form"):
        claims.split({"done": {**whole, "tasks": [{**GOOD, **changed}]}})


def test_a_box_cannot_claim_another_ones_fault() -> None:
    problem = UnsupportedOperator("none", field="file", operators={"Foo": 2}).problem()
    with pytest.raises(UnsupportedOperator) as caught:
        claims.done({"problem": problem})
    assert caught.value.extra["operators"] == {"Foo": 2}
    for code in ("internal_error", "unauthorized", "device_lost", "nonsense"):
        with pytest.raises(ModelRejected):
            claims.done({"problem": {**problem, "code": code}})
    assert os.environ.get("TUNESMITH_TRUST_MODELS") is None


def test_a_share_of_the_operations_is_that_of_some_families() -> None:
    quads = {**GOOD, "hash": "2", "family": "matmul_quads", "weight": 3}
    whole = {"inputs": [], "tasks": [GOOD, quads], "params_size": 0}
    assert claims.split({"done": whole}).share("_quads") == 0.75
    assert claims.split({"done": {**whole, "tasks": []}}).share("_quads") == 0
