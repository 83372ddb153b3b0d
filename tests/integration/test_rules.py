from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend import importing, prepare, rules, space, tasks, tir  # noqa: E402
from workers.tvm_backend.candidates import Replayer  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.tasks import Extracted  # noqa: E402

FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
NEON = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 4})
small = st.integers(1, 40)


@functools.cache
def here() -> Target:
    return Target(describe().target)


def operator(spec: str) -> Extracted:
    (found,) = tasks.extract_tasks(prepare.prepare(importing.operator_module(parse_operator(spec))).module)
    return found


def own(task: Extracted, target: Target) -> list[space.SketchBody]:
    """The sketches that are not TVM's: those without postprocessors."""
    return [body for body in space.generate(task.module, target) if not body.postprocs]


def dense(rows: tuple[int, ...], columns: int, depth: int, activation: str, residual: bool) -> Extracted:
    """A dense layer with bias, activation and a residual, fused."""
    builder = relax.BlockBuilder()
    tensor = relax.TensorType
    x, w = relax.Var("x", tensor([*rows, depth], "float32")), relax.Var("w", tensor([depth, columns], "float32"))
    bias, more = relax.Var("b", tensor([columns], "float32")), relax.Var("r", tensor([*rows, columns], "float32"))
    with builder.function("main", [x, w, bias, *([more] if residual else [])]):
        with builder.dataflow():
            y = builder.emit(relax.op.add(builder.emit(relax.op.matmul(x, w)), bias))
            y = builder.emit(getattr(relax.op.nn, activation)(y))
            y = builder.emit_output(builder.emit(relax.op.add(y, more)) if residual else y)
        builder.emit_func_output(y)
    mod = builder.get()
    names = ["x", "w", "b", *(["r"] if residual else [])]
    mod["main"] = mod["main"].with_attr("input_names", json.dumps(names))
    (found,) = tasks.extract_tasks(prepare.prepare(mod).module)
    return found


def run(mod: Any, task: Extracted, target: Target) -> np.ndarray[Any, Any]:
    arrays = [tvm.runtime.tensor(random_array(spec, at)) for at, spec in enumerate(task.workload.args)]
    tvm.compile(mod, target=tir.tvm_target(target))["main"](*arrays)
    return arrays[-1].numpy()


def check(task: Extracted, seed: int = 0, each: int = 2) -> int:
    """Every sketch of ours gives right results, whatever is decided; returns how many there are."""
    target, rng = here(), np.random.default_rng(seed)
    bodies = own(task, target)
    expected = run(tir.load_module(task.module), task, target)
    for body in bodies:
        made = space.TraceSpace(task.module, target, [body])
        points = made.space.sample(rng, each)
        resolved, valid = made.resolve(points)
        assert valid.all()
        for candidate in made.space.candidates(resolved):
            sch = Replayer(task.module, target).replay(body, candidate.decisions)
            np.testing.assert_allclose(run(sch.mod, task, target), expected, rtol=1e-4, atol=1e-4)
    return len(bodies)


@FEW
@given(st.lists(small, min_size=1, max_size=2), small, small, st.sampled_from(["relu", "gelu"]), st.booleans())
def test_dense_layers_of_any_shape(
    rows: list[int], columns: int, depth: int, activation: str, residual: bool
) -> None:
    assert check(dense(tuple(rows), columns, depth, activation, residual)) >= 1


@FEW
@given(st.sampled_from(["gemm:{m}x{n}x{k}", "dense:{m}x{n}x{k}", "bmm:{b}x{m}x{n}x{k}"]), small, small, small, small)
def test_products_of_any_shape(form: str, b: int, m: int, n: int, k: int) -> None:
    check(operator(form.format(b=b, m=max(m, 2), n=max(n, 2), k=max(k, 2))))


@FEW
@given(
    st.integers(1, 2), st.sampled_from([3, 8]), st.sampled_from([16, 32, 48]), st.integers(7, 20), st.integers(7, 20),
    st.sampled_from([1, 3, 5]), st.sampled_from([1, 2]), st.integers(0, 2),
)  # fmt: skip
def test_convolutions_of_any_shape(
    n: int, i: int, o: int, h: int, w: int, kernel: int, stride: int, padding: int
) -> None:
    spec = f"conv2d:{n}x{i}x{h}x{w},{o}x{i}x{kernel}x{kernel},s{stride},p{padding}"
    assert check(operator(spec), each=1) >= 1


@pytest.mark.parametrize("spec", ["softmax:4x16x16", "layernorm:16x32", "depthwise:1x16x14x14,k3,s1,p1"])
def test_what_a_rule_does_not_fit_is_left_to_tvm(spec: str) -> None:
    assert own(operator(spec), here()) == []


@pytest.mark.parametrize(("target", "width"), [(AVX512, 16), (AVX2, 8), (NEON, 4)])
def test_panels_are_as_wide_as_the_targets_registers(target: Target, width: int) -> None:
    bodies = own(operator("gemm:64x256x64"), target)
    assert len(bodies) == 3
    assert all(f"[{lanes}]" in body.trace or str(lanes) in body.trace for lanes, body in
               zip((width, 2 * width, 4 * width), bodies, strict=True))  # fmt: skip


def test_rules_are_for_cpus() -> None:
    task = operator("gemm:64x64x64")
    replayer = Replayer(task.module, here())
    assert list(rules.schedules(replayer.fresh, Target({"kind": "cuda"}))) == []
    assert len(list(rules.schedules(replayer.fresh, here()))) == 3
