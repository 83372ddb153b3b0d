from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numerics
import numpy as np
import onnx
import pytest
import torch
from effort import THOROUGH, quick
from encoders import Encoder, save
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tunesmith import metaschedule
from tunesmith.messages import Payload, Spec, TunedWorkload
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.build import compile_model, database  # noqa: E402
from workers.tvm_backend.design_space import replay, space  # noqa: E402
from workers.tvm_backend.export import script  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel

CPU = Target(quick({"mcpu": "x86-64-v3", "num-cores": 2}))
Array = NDArray[Any]


def run(library: Path, *inputs: Array) -> Array:
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return machine["main"](*[tvm.runtime.tensor(x) for x in inputs]).numpy()


def prepared_in(folder: Path, path: Path, source: str = "onnx", choice: Preparation = PLAIN) -> pipeline.Prepared:
    made = pipeline.prepare(import_model.import_model(path, source), choice)
    pipeline.save_params(made.params, folder / "params.npz")
    return made


def agreement(folder: Path, path: Path) -> float:
    """The error of the untuned library of an ONNX model against onnxruntime."""
    made = prepared_in(folder, path)
    done = compile_model.compile_model(made.module, folder / "params.npz", CPU, None, folder / "model.so")
    assert (done.applied, done.missing) == ([], [])
    x, other = numerics.random_inputs(path, 1), numerics.random_inputs(path, 2)
    ours = run(done.path, *(x[spec.name] for spec in made.inputs))
    return numerics.error(ours, numerics.reference(path, x), numerics.reference(path, other))


@pytest.mark.parametrize("name", ["shufflenet", *(["squeezenet"] if THOROUGH else [])])
def test_light_models_agree_with_onnxruntime(tmp_path: Path, name: str) -> None:
    assert agreement(tmp_path, numerics.randomised(name, tmp_path / "model.onnx")) < numerics.TOLERANCE


def test_tasks_of_squeezenet() -> None:
    made = pipeline.prepare(import_model.import_model(numerics.light_model("squeezenet"), "onnx"))
    found = extract_tasks.extract_tasks(made.module)
    assert len(found) == 29  # Its Dropout is no operator: two concatenations are one task
    assert found[0].workload.name == "fused_conv2d_add_relu"
    assert len({task.workload.hash for task in found}) == 29
    assert sum(task.weight for task in found if task.workload.family == "conv2d") == 26
    assert len(made.module) < 1_000_000
    main = tir.load_module(made.module)["main"]
    assert [str(var.name) for var in main.params[1:]] == list(made.params)
    assert int(main.attrs["num_input"]) == 1


def test_encoder_agrees_with_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder, ids = Encoder(width=32, heads=2, layers=1, tokens=8).eval(), torch.randint(0, 500, (2, 1, 8))
    save(encoder, (ids[0],), tmp_path / "encoder.pt2")
    made = prepared_in(tmp_path, tmp_path / "encoder.pt2", "pt2", Preparation(fast_math=True))
    done = compile_model.compile_model(made.module, tmp_path / "params.npz", CPU, None, tmp_path / "model.so")
    with torch.no_grad():
        theirs = [encoder(x).numpy() for x in ids]
    assert numerics.error(run(done.path, ids[0].numpy()), theirs[0], theirs[1]) < 1e-5


def little_network(path: Path) -> Path:
    """Convolutions with batch normalisations, factors and shifts that can, partly can and must not be absorbed."""
    rng = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int, positive: bool = False) -> str:
        values = rng.uniform(0.5, 1.5, shape) if positive else rng.normal(0, 0.4, shape)
        weights.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def norm(x: str, name: str, channels: int) -> onnx.NodeProto:
        names = [weight(f"{name}{i}", channels, positive=i in (0, 3)) for i in range(4)]
        return helper.make_node("BatchNormalization", [x, *names], [name])

    node = helper.make_node
    nodes = [
        node("Conv", ["x", weight("w1", 8, 3, 3, 3), weight("b1", 8)], ["c1"], pads=[1] * 4),
        norm("c1", "n1", 8),
        node("Mul", ["n1", weight("m1", 1, 8, 1, 1)], ["s1"]),
        node("Add", ["s1", weight("a1", 8, 1, 1)], ["t1"]),
        node("Relu", ["t1"], ["r1"]),
        norm("r1", "n2", 8),  # nothing before it to join
        node("Conv", ["n2", weight("w2", 8, 8, 1, 1)], ["c2"]),
        norm("c2", "n3", 8),
        node("Sum", ["c2", "n3", "r1"], ["u"]),  # c2 is used twice: its weights must stay
        node("Mul", ["u", weight("scalar", 1)], ["v"]),
        node("Add", [weight("a2", 1, 8, 1, 1), "v"], ["w"]),
        node("Mul", ["w", weight("spatial", 1, 1, 6, 6)], ["y0"]),
        node("Concat", ["y0", "r1"], ["y"], axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "little",
        [value("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [value("y", TensorProto.FLOAT, [1, 16, 6, 6])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_folding_keeps_the_result(tmp_path: Path) -> None:
    path = little_network(tmp_path / "model.onnx")
    assert agreement(tmp_path, path) < 1e-5
    script = tir.load_module(pipeline.prepare(import_model.import_model(path, "onnx")).module).script()
    assert "rsqrt" not in script
    assert "sqrt" not in script


def test_a_parameter_never_takes_the_name_of_an_input(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["p0", "w"], ["y"])],
        "g",
        [value("p0", TensorProto.FLOAT, [4, 32])],
        [value("y", TensorProto.FLOAT, [4, 32])],
        [weight],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    assert agreement(tmp_path, path) < 1e-5


def test_half_precision_weights_survive_the_file(tmp_path: Path) -> None:
    import ml_dtypes

    args = [relax.Var("x", relax.TensorType((4, 32), "bfloat16"))]
    weight = np.random.default_rng(0).standard_normal((32, 32)).astype(ml_dtypes.bfloat16)
    builder = relax.BlockBuilder()
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(relax.op.matmul(args[0], relax.const(weight)), args[0]))
        builder.emit_func_output(out)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", '["x"]').with_attr("num_input", 1)
    made = pipeline.prepare(mod)
    pipeline.save_params(made.params, tmp_path / "params.npz")
    read = script().read_params(tmp_path / "params.npz", tir.load_module(made.module))
    assert [str(tensor.dtype) for tensor in read.values()] == ["bfloat16"]
    assert (read["p0"].numpy() == weight).all()


def tuned(made: pipeline.Prepared) -> list[TunedWorkload]:
    """A random candidate of every tunable task but the first."""
    records, rng = [], np.random.default_rng(0)
    for task in extract_tasks.extract_tasks(made.module):
        bodies = space.generate(task.module, CPU)
        if not space.tunable(bodies):
            continue
        traces = space.TraceSpace(task.module, CPU, bodies)
        resolved, valid = traces.resolve(traces.space.sample(rng, 8))
        candidate = traces.space.candidates(resolved.take(valid))[0]
        body = {b.hash: b for b in bodies}[str(candidate.sketch)]
        done = replay.schedule(task.module, CPU, body, candidate.decisions)
        records.append(
            TunedWorkload(
                workload=task.workload.hash,
                workload_json=Payload.pack(task.metaschedule),
                trace=Payload.pack(str(done.trace).encode()),
                run_seconds=[1e-3],
                args=[Spec(dtype=a.dtype, shape=a.shape) for a in task.workload.args],
            )
        )
    return records[1:]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pipeline.Prepared, list[TunedWorkload]]:
    """An exported folder of the little network."""
    folder = tmp_path_factory.mktemp("exported")
    made = prepared_in(folder, little_network(folder / "model.onnx"))
    records = tuned(made)
    database.write(folder, records, CPU.to_json())
    for name, text in metaschedule.folder_texts(
        model="little",
        target=CPU.to_json(),
        inputs=made.inputs,
        records=database.read(folder),
        preparation=made.preparation.key,
        tvm=tvm.__version__,
    ).items():
        (folder / name).write_text(text)
    (folder / "module.json").write_bytes(made.module)
    return folder, made, records


def test_database_opens_in_tvm(exported: tuple[Path, pipeline.Prepared, list[TunedWorkload]]) -> None:
    from tvm.s_tir.meta_schedule.database import JSONDatabase

    folder, made, records = exported
    opened = JSONDatabase(work_dir=str(folder), allow_missing=False)
    assert len(opened) == len(records) > 0
    known = {t.workload.hash: t for t in extract_tasks.extract_tasks(made.module)}
    for record in records:
        assert opened.has_workload(tir.load_module(known[record.workload].module))
    assert {r.hash for r in database.read(folder)} == {r.workload for r in records}


def test_schedules_are_applied_and_what_has_none_is_named(
    exported: tuple[Path, pipeline.Prepared, list[TunedWorkload]], tmp_path: Path
) -> None:
    folder, made, records = exported
    done = compile_model.compile_model(made.module, folder / "params.npz", CPU, folder, tmp_path / "tuned.so")
    assert len(done.applied) == len(records)
    assert len(done.missing) == 1
    plain = compile_model.compile_model(made.module, None, CPU, None, tmp_path / "plain.so", bind=False)
    x = np.random.default_rng(3).standard_normal((1, 3, 6, 6)).astype(np.float32)
    ours, theirs = run(done.path, x), run(plain.path, x, *made.params.values())
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("options", [[], ["--untuned"]], ids=["tuned", "untuned"])
def test_exported_script_compiles_without_us(
    exported: tuple[Path, pipeline.Prepared, list[TunedWorkload]], tmp_path: Path, options: list[str]
) -> None:
    folder, made, _ = exported
    command = [sys.executable, "-I", str(folder / "compile.py"), str(tmp_path / "new" / "model.so"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("no schedule for" in done.stderr) == (not options)
    x = np.random.default_rng(3).standard_normal((1, 3, 6, 6)).astype(np.float32)
    theirs = numerics.reference(folder / "model.onnx", {made.inputs[0].name: x})
    assert np.abs(run(tmp_path / "new" / "model.so", x) - theirs).max() < 1e-5 * np.abs(theirs).max()
