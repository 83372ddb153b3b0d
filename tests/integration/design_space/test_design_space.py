from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import replay_probe

from tunesmith.errors import InvalidCandidate
from tunesmith.names import DEFAULT_SPACE, TVM_SPACE
from tunesmith.operators import parse_operator
from tunesmith.space.knobs import ComputeLocation
from tunesmith.targets import Target, parse_target
from tunesmith.types import Candidate
from workers.core import subjects
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm.s_tir import TensorIntrin  # noqa: E402
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.design_space import features, replay, space, vector_limit  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel

ROOT = Path(__file__).resolve().parents[3]
CPU = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
H100 = parse_target("nvidia/nvidia-h100").target
assert H100 is not None
CONV = "conv2d:1x16x14x14,32x16x3x3,s1,p1"


def task(spec: str) -> Extracted:
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(import_model.operator_module(parse_operator(spec))).module)
    return found


Opened = tuple[Extracted, space.TraceSpace, list[space.SketchBody]]


def opened(spec: str, target: Target = CPU) -> Opened:
    found = task(spec)
    bodies = space.generate(found.module, target)
    return found, space.TraceSpace(found.module, target, bodies), bodies


def test_tvms_space_is_what_its_generator_makes_and_a_part_of_the_whole() -> None:
    found = task("gemm:64x64x64")
    theirs = [body.hash for body in space.generate(found.module, CPU, "tvm")]
    replayer = replay.Replayer(found.module, CPU)
    made = [str(sch.trace) for sch in replayer.context.generate_design_space()]
    assert len(theirs) == len(set(made)) > 0
    everything = [body.hash for body in space.generate(found.module, CPU)]
    assert everything[: len(theirs)] == theirs
    assert len(everything) > len(theirs)


@pytest.mark.parametrize(("spec", "steps"), [("gemm:32x16x64", 16), ("gemm:32x48x64", 48), ("gemm:32x20x64", 64)])
def test_vectors_of_tvms_sketches_take_in_no_axis_beside_one_that_fills_registers(spec: str, steps: int) -> None:
    module = task(spec).module
    for name, expected in ((TVM_SPACE, 64), (DEFAULT_SPACE, steps)):
        bodies = [body for body in space.generate(module, CPU, name) if body.postprocs]
        assert {widest for body in bodies for widest in vectors_of(body)} == {expected}
    found, bodies = space.TraceSpace(module, CPU, bodies), {body.hash: body for body in bodies}
    replayer, points = replay.Replayer(module, CPU), found.space.sample(np.random.default_rng(0), 8)
    for candidate in found.space.candidates(found.resolve(points)[0]):
        done = replayer.replay(bodies[str(candidate.sketch)], candidate.decisions)
        lanes = [int(text) for text in re.findall(r"T\.vectorized\((?:T\.int64\()?(\d+)", done.mod.script())]
        assert max(lanes, default=1) <= steps


def vectors_of(body: space.SketchBody) -> list[int]:
    """The most steps that a sketch's notes would have fused."""
    notes = [each for each in json.loads(body.trace) if each[:1] == ["Annotate"]]
    return [inputs[1] for _, inputs, attributes, _ in notes if attributes == [vector_limit.VECTORIZE]]


def test_modules_are_read_as_tvm_reads_them_and_those_of_another_version_too() -> None:
    found = task(CONV).module
    ours, theirs = tir.load_module(found), tvm.ir.load_json(found.decode())
    assert found.endswith(tir.OWN.encode()), "written by this version, and recognised"
    assert tvm_ffi.structural_equal(ours, theirs, map_free_vars=False)
    older = json.loads(found)
    older["metadata"]["tvm_version"] = "0.26.0"
    for node in older["nodes"]:
        if node["type"] == "ir.Var":
            node["type"] = "tirx.Var"
    assert tvm_ffi.structural_equal(tir.load_module(json.dumps(older).encode()), theirs)


def test_spaces_generated_two_at_a_time_are_those_of_one_after_the_other() -> None:
    some = [task(spec).module for spec in ("layernorm:8x32", "gemm:64x64x64", "softmax:4x16", "gemm:48x64x32")]
    at_once = replay.together(lambda module: space.generate(module, CPU), some)
    assert at_once == [space.generate(module, CPU) for module in some]


def test_generation_is_deterministic_and_survives_json() -> None:
    found = task(CONV)
    bodies = space.generate(found.module, CPU)
    assert [b.hash for b in bodies] == [b.hash for b in space.generate(found.module, CPU)]
    assert space.tunable(bodies)
    for body in bodies:
        repeated = space.SketchBody.from_json(body.to_json())
        assert repeated == body
        assert repeated.hash == body.hash
        assert space.SketchBody.from_json(json.loads(body.to_json())) == body


def test_other_formats_of_a_sketch_are_refused() -> None:
    body = json.loads(opened("gemm:8x8x8")[2][0].to_json())
    with pytest.raises(ValueError, match="format 7"):
        space.SketchBody.from_json({**body, "format": 7})


def test_a_workload_without_decisions_is_not_tunable() -> None:
    from tvm import relax

    args = [relax.Var(name, relax.TensorType((), "float32")) for name in "ab"]
    builder = relax.BlockBuilder()
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(*args))
        builder.emit_func_output(out)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", '["a", "b"]').with_attr("num_input", 2)
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
    bodies = space.generate(found.module, CPU)
    assert not space.tunable(bodies)
    assert space.TraceSpace(found.module, CPU, bodies).space.size == 1


@pytest.mark.parametrize("spec", [CONV, "softmax:4x16", "layernorm:8x32"])
def test_canonical_form_is_stable_and_valid(spec: str) -> None:
    _, traces, bodies = opened(spec)
    assert any(isinstance(knob, ComputeLocation) for body in bodies for knob in body.knobs)
    batch = traces.space.sample(np.random.default_rng(0), 48)
    resolved, valid = traces.resolve(batch)
    assert valid.all()
    assert (resolved.choice != batch.choice).any(), "compute locations are clamped"
    repeated, still = traces.resolve(resolved)
    assert still.all()
    assert (repeated.choice == resolved.choice).all()
    assert (repeated.sketch == batch.sketch).all()


def test_features_agree_with_a_fresh_space_and_with_threads() -> None:
    found, traces, bodies = opened(CONV)
    batch = traces.space.sample(np.random.default_rng(1), 12)
    traces.resolve(batch)
    resolved, rows, valid = traces.features(batch)
    assert rows is not None
    assert rows.rows.dtype == np.float32
    assert rows.rows.shape[1] == features.WIDTH
    assert len(rows) == valid.sum() == 12
    other = space.TraceSpace(found.module, CPU, bodies, threads=2).features(resolved)
    assert other[1] is not None
    assert (other[1].rows == rows.rows).all()
    assert (other[1].offsets == rows.offsets).all()


def test_points_of_a_gpu_are_replayed_on_several_threads_with_the_same_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subjects, "visible_cores", lambda: 3)
    assert (subjects.threads_for(H100), subjects.threads_for(CPU)) == (3, 1)
    found, traces, bodies = opened("gemm:256x256x256", H100)
    batch = traces.space.sample(np.random.default_rng(3), 48)
    resolved, valid = traces.resolve(batch)
    assert 0 < valid.sum() < len(valid)
    other, also = space.TraceSpace(found.module, H100, bodies, subjects.threads_for(H100)).resolve(batch)
    assert (also == valid).all()
    assert (other.choice == resolved.choice).all()


def test_an_exact_replay_of_the_trace() -> None:
    from tvm.s_tir import Schedule, Trace

    found, traces, bodies = opened(CONV)
    resolved, _ = traces.resolve(traces.space.sample(np.random.default_rng(2), 1))
    (candidate,) = traces.space.candidates(resolved)
    body = {b.hash: b for b in bodies}[str(candidate.sketch)]
    done = replay.schedule(found.module, CPU, body, candidate.decisions)
    assert done.trace == traces.trace(candidate)
    sch = Schedule(tir.load_module(found.module))
    Trace.apply_json_to_schedule(json.loads(str(done.trace)), sch)
    assert tvm_ffi.structural_equal(sch.mod, done.mod)


def test_candidates_that_do_not_fit() -> None:
    found, _, bodies = opened(CONV)
    with pytest.raises(InvalidCandidate, match="decisions"):
        replay.schedule(found.module, CPU, bodies[0], (1, 2))
    with pytest.raises(InvalidCandidate, match="does not apply"):
        replay.schedule(task("gemm:8x8x8").module, CPU, bodies[0], ())


def test_a_rebuilt_candidate_of_a_gpu_is_the_same() -> None:
    """In this process: one of its own would read CUDA's intrinsics for seconds."""
    module, body, candidate, trace, digest = chosen("gemm:256x256x256", H100, 0)
    item = [module, body, candidate.to_json()[1]]
    assert replay_probe.rebuilt(H100, [item]) == [[trace, digest]]


def test_default_schedules() -> None:
    found = task("gemm:64x64x64")
    plain = replay.schedule(found.module, CPU, None, ())
    assert plain.trace is None
    assert tvm_ffi.structural_equal(plain.mod, tir.load_module(found.module))
    assert 'thread="threadIdx.x"' in replay.schedule(found.module, H100, None, ()).mod.script()


def test_intrinsics_are_imported_once_and_registered() -> None:
    warm("cuda")
    module = sys.modules["tvm.s_tir.tensor_intrin.cuda"]
    assert importlib.import_module(module.__name__) is module
    assert TensorIntrin.get(module.LDMATRIX_f16_A_INTRIN) is not None


def chosen(spec: str, target: Target, seed: int) -> tuple[str, str, Candidate, str, str]:
    """A valid random candidate: module, sketch, candidate, trace and hash of the scheduled module."""
    found, traces, bodies = opened(spec, target)
    resolved, valid = traces.resolve(traces.space.sample(np.random.default_rng(seed), 16))
    assert valid.any()
    candidate = traces.space.candidates(resolved.take(valid))[0]
    body = {b.hash: b for b in bodies}[str(candidate.sketch)]
    done = replay.schedule(found.module, target, body, candidate.decisions)
    return (
        found.module.decode(),
        body.to_json().decode(),
        candidate,
        str(done.trace),
        str(tvm_ffi.structural_hash(done.mod)),
    )


def test_a_fresh_process_rebuilds_the_candidate() -> None:
    found = [chosen(spec, CPU, seed) for seed, spec in enumerate([CONV, "softmax:4x16"])]
    items = [[module, body, candidate.to_json()[1]] for module, body, candidate, _, _ in found]
    done = subprocess.run(
        [sys.executable, replay_probe.__file__],
        input=json.dumps({"target": CPU.to_json(), "items": items}),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[trace, digest] for *_, trace, digest in found]


def test_a_candidate_takes_the_arguments_of_its_workload() -> None:
    found, opened_space, bodies = opened("dense:64x32x48:float32")
    body = next(b for b in bodies if b.knobs)
    points = opened_space.space.sample(np.random.default_rng(0), 16)
    points, valid = opened_space.resolve(points)
    chosen = [c for c in opened_space.space.candidates(points.take(valid)) if c.sketch == body.hash]
    assert chosen
    for candidate in chosen[:4]:
        done = replay.schedule(found.module, CPU, body, candidate.decisions)
        as_built = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(done.mod)
        assert extract_tasks.arguments(as_built) == found.workload.args
