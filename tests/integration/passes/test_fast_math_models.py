from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from effort import THOROUGH, some
from numpy.typing import NDArray
from run_once import compiled, machine

from tunesmith.preparation import PLAIN, Preparation
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm import relax, s_tir, tirx  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.arguments import random_array  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel

FAST = Preparation(fast_math=True)
CALLS = {f"tirx.{name}" for name in ("exp", "log", "erf", "tanh", "sigmoid", "pow")}
Array = NDArray[Any]


@functools.cache
def here() -> Target:
    return Target(describe().target | {"num-cores": 1})


def called(mod: tvm.IRModule, dtype: str = "float32") -> set[str]:
    """Names of the operators that a module's PrimFuncs call with a result of ``dtype``."""
    found: set[str] = set()

    def note(call: tvm.ir.Call) -> None:
        if str(getattr(call.ty, "dtype", "")) == dtype:
            found.add(str(call.op.name))

    for body in mod.functions.values():
        if isinstance(body, tirx.PrimFunc):
            tvm_ffi.structural_walk(body.body, (tvm.ir.Call, note))
    return found


def network(build: Callable[[Any, Any], Any], shape: tuple[int, ...]) -> tvm.IRModule:
    """A model of two inputs of one shape."""
    builder = relax.BlockBuilder()
    args = [relax.Var(name, relax.TensorType(shape, "float32")) for name in "xy"]
    with builder.function("main", args):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(build(*args)))
        builder.emit_func_output(out)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", json.dumps(["x", "y"])).with_attr("num_input", 2)
    return mod


NETWORKS: Mapping[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda x, y: relax.op.nn.softmax(relax.op.add(x, y), axis=-1),
    "log_softmax": lambda x, y: relax.op.nn.log_softmax(relax.op.add(x, y), axis=-1),
    "gates": lambda x, y: relax.op.multiply(relax.op.sigmoid(x), relax.op.tanh(y)),
    "gelu": lambda x, y: relax.op.nn.gelu(relax.op.add(x, y)),
    "gelu_tanh": lambda x, y: relax.op.nn.gelu_tanh(relax.op.add(x, y)),
    "silu": lambda x, y: relax.op.nn.silu(relax.op.add(x, y)),
    "mish": lambda x, y: relax.op.multiply(x, relax.op.tanh(relax.op.nn.softplus(y))),
    "selu": lambda x, y: relax.op.nn.selu(relax.op.add(x, y)),
    "cube": lambda x, y: relax.op.add(relax.op.power(x, relax.const(3.0, "float32")), y),
}


def execute(made: pipeline.Prepared, *inputs: Array) -> Array:
    main = machine(tir.load_module(made.module), here().to_json())["main"]
    return np.asarray(main(*[tvm.runtime.tensor(x) for x in inputs]).numpy())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_with_the_plain_preparation(name: str) -> None:
    mod = network(NETWORKS[name], (6, 40))
    plain, fast = pipeline.prepare(mod), pipeline.prepare(mod, FAST)
    before, after = called(tir.load_module(plain.module)), called(tir.load_module(fast.module))
    assert CALLS & before
    assert not CALLS & after
    rng = np.random.default_rng(0)
    x, y = (rng.normal(0, 3, (6, 40)).astype(np.float32) for _ in "xy")
    np.testing.assert_allclose(execute(fast, x, y), execute(plain, x, y), rtol=1e-5, atol=1e-6)


def test_masks_of_minus_infinity() -> None:
    mod = network(NETWORKS["softmax"], (4, 16))
    x = np.random.default_rng(0).normal(0, 3, (4, 16)).astype(np.float32)
    mask = np.where(np.tri(4, 16) > 0, 0, -np.inf).astype(np.float32)
    plain, fast = (execute(pipeline.prepare(mod, choice), x, mask) for choice in (PLAIN, FAST))
    np.testing.assert_allclose(fast, plain, rtol=1e-6)
    assert (fast[np.tri(4, 16) == 0] == 0).all()


def test_what_the_choice_changes_in_a_module() -> None:
    for build, same in ((NETWORKS["gelu"], False), (lambda x, y: relax.op.nn.relu(relax.op.add(x, y)), True)):
        mod = network(build, (6, 40))
        plain, fast = (tir.load_module(pipeline.prepare(mod, choice).module) for choice in (PLAIN, FAST))
        assert (tvm_ffi.structural_hash(plain) == tvm_ffi.structural_hash(fast)) is same
        repeated = tir.load_module(pipeline.prepare(network(build, (6, 40)), FAST).module)
        assert tvm_ffi.structural_hash(repeated) == tvm_ffi.structural_hash(fast)
        assert set(map(str, plain.functions)) == set(map(str, fast.functions))


@pytest.mark.parametrize("name", ["softmax", "gelu", "gates"])
def test_a_formula_is_no_work_of_the_model(name: str) -> None:
    """Its additions would make the kernel look faster than the machine can be."""
    mod = network(NETWORKS[name], (6, 40))
    plain, fast = (extract_tasks.extract_tasks(pipeline.prepare(mod, choice).module) for choice in (PLAIN, FAST))
    assert [task.workload.flops for task in fast] == [task.workload.flops for task in plain]
    assert [task.workload.family for task in fast] == [task.workload.family for task in plain]
    assert [task.workload.hash for task in fast] != [task.workload.hash for task in plain]


def test_the_design_space_of_a_softmax_is_the_plain_one() -> None:
    """TVM inlines mere arithmetic; a softmax that inlines its exponentials computes each of them twice."""
    mod = network(NETWORKS["softmax"], (64, 64))
    plain, fast = (extract_tasks.extract_tasks(pipeline.prepare(mod, choice).module)[-1] for choice in (PLAIN, FAST))
    assert [b.trace for b in space.generate(fast.module, here())] == [
        b.trace for b in space.generate(plain.module, here())
    ]


FORMULAS = {"softmax": "rows", "log_softmax": "rows", "gelu": "elements", "silu": "elements"}
"""What each goes over."""


def run(mod: tvm.IRModule, task: Extracted) -> Array:
    arrays = [tvm.runtime.tensor(random_array(spec, at)) for at, spec in enumerate(task.workload.args)]
    compiled(mod, here().to_json())["main"](*arrays)
    return np.asarray(arrays[-1].numpy())


@pytest.mark.parametrize("name", some(FORMULAS, kind=FORMULAS.get))
def test_scheduled_formulas_survive_their_trace_and_json(name: str) -> None:
    mod = network(NETWORKS[name], (32, 32))
    plain, task = (extract_tasks.extract_tasks(pipeline.prepare(mod, choice).module)[-1] for choice in (PLAIN, FAST))
    repeated = tir.load_module(task.module)
    assert tvm_ffi.structural_hash(tir.load_module(tir.dump_module(repeated))) == tvm_ffi.structural_hash(repeated)
    assert tvm_ffi.structural_equal(tvm.script.from_source(repeated.script()), repeated)
    want, replayer = run(tir.load_module(plain.module), plain), Replayer(task.module, here())
    for body in space.generate(task.module, here()):
        found = space.TraceSpace(task.module, here(), [body])
        batch, valid = found.resolve(found.space.sample(np.random.default_rng(0), 2 if THOROUGH else 1))
        for candidate in [c for c, good in zip(found.space.candidates(batch), valid, strict=True) if good]:
            schedule = s_tir.Schedule(repeated)
            s_tir.Trace.apply_json_to_schedule(json.loads(found.trace(candidate)), schedule)
            assert tvm_ffi.structural_equal(schedule.mod, replayer.replay(body, candidate.decisions).mod)
            np.testing.assert_allclose(run(schedule.mod, task), want, rtol=1e-5, atol=1e-6)
