"""Models with Winograd convolutions as alternatives: what is prepared, and what the compiled model runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from effort import THOROUGH, quick, some
from small_nets import Array, Net, by_onnxruntime, calls, run_network

from tunesmith import metaschedule
from tunesmith.messages import Payload, Spec, TunedWorkload
from tunesmith.preparation import Preparation
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax, s_tir  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.build import compile_model, database  # noqa: E402
from workers.tvm_backend.build.builder import Builder  # noqa: E402
from workers.tvm_backend.export import script  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import alternatives, extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel

CPU = Target(quick({"mcpu": "x86-64-v3", "num-cores": 1}))
BLOCKED = Preparation(blocked=True)
WINOGRAD = Preparation(blocked=True, winograd=True)
SHAPE = (1, 32, 16, 16)
BF16 = Preparation(blocked=True, bf16=True)
WINOGRAD_BF16 = Preparation(blocked=True, winograd=True, bf16=True)
TRANSFORMED = 32 * 32 * 36 * 4
"""Bytes of the weights of one of the convolutions, transformed for tiles of 4 × 4 outputs."""


def network(folder: Path, kernel: int = 3) -> Path:
    """Of four convolutions the first reads a plain map; the last has a residual."""
    net = Net(*SHAPE)
    a = net.op("Relu", net.conv("x", 32, kernel))
    b = net.op("Relu", net.conv(a, 32, kernel))
    c = net.op("Relu", net.conv(b, 32, kernel))
    return net.save(folder / "model.onnx", net.op("Relu", net.op("Add", net.conv(c, 32, kernel), b)))


def prepared(path: Path, preparation: Preparation) -> pipeline.Prepared:
    return pipeline.prepare(import_model.import_model(path, "onnx"), preparation)


def functions(module: bytes) -> set[str]:
    return {str(var.name_hint) for var in tir.load_module(module).functions}


def barely_scheduled(module: bytes) -> bytes:
    """The trace of a schedule that changes nothing; TVM passes over empty ones."""
    schedule = s_tir.Schedule(tir.load_module(module))
    schedule.annotate(schedule.get_sblock("root"), "tunesmith.test", 1)
    return tir.trace_json(schedule.trace).encode()


class Case:
    """The network prepared, with what a test compares its results to."""

    def __init__(
        self, folder: Path, choices: tuple[Preparation, Preparation] = (BLOCKED, WINOGRAD), within: float = 1e-4
    ) -> None:
        self.path, self.within = network(folder), within
        self.direct, self.made = (prepared(self.path, choice) for choice in choices)
        self.tasks = extract_tasks.extract_tasks(self.made.module)
        self.params = folder / "params.npz"
        pipeline.save_params(self.made.params, self.params)
        self.x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
        (self.y,) = by_onnxruntime(self.path, self.x)

    def tuned(self, seconds: Mapping[str, float]) -> list[TunedWorkload]:
        """Records for tasks: what their functions take, by name; the schedules change nothing."""
        return [
            TunedWorkload(
                workload=task.workload.hash,
                workload_json=Payload.pack(task.metaschedule),
                trace=Payload.pack(barely_scheduled(task.module)),
                run_seconds=[seconds[task.workload.name]],
                args=[Spec(dtype=a.dtype, shape=a.shape) for a in task.workload.args],
            )
            for task in self.tasks
            if task.workload.name in seconds
        ]

    def database(self, folder: Path, seconds: Mapping[str, float]) -> Path:
        """The same in a folder."""
        database.write(folder, self.tuned(seconds), CPU.to_json())
        return folder

    def names(self, alternative: bool) -> list[str]:
        """Of both programs of each pair, in the order of the model."""
        paired = {task.alternative_of for task in self.tasks}
        return [
            task.workload.name
            for task in self.tasks
            if (task.alternative_of is not None if alternative else task.workload.hash in paired)
        ]

    def check(self, y: Array) -> None:
        assert np.abs(y - self.y).max() < self.within * np.abs(self.y).max()


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("winograd"))


def executed(library: Path, *inputs: Array) -> Array:
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    out: Array = machine["main"](*[tvm.runtime.tensor(x) for x in inputs]).numpy()
    return out


def test_the_second_function_shares_what_is_equal(case: Case) -> None:
    mod = tir.load_module(case.made.module)
    main, other = mod["main"], mod[alternatives.FUNCTION]
    assert [str(v.name) for v in main.params] == [str(v.name) for v in other.params] == ["x", *case.made.params]
    assert calls(case.made.module) == calls(case.direct.module), "main is the direct model"
    new = functions(case.made.module) - functions(case.direct.module)
    assert new == {alternatives.FUNCTION, *case.names(alternative=True)}
    before = [array.nbytes for array in case.direct.params.values()]
    assert sorted(array.nbytes for array in case.made.params.values()) == sorted([*before, *[TRANSFORMED] * 4])


def test_tasks_come_in_pairs(case: Case) -> None:
    direct = [task for task in case.tasks if task.alternative_of is None]
    assert [t.workload for t in direct] == [t.workload for t in extract_tasks.extract_tasks(case.direct.module)]
    found = [(task.workload.family, task.weight, case.tasks.index(task)) for task in case.tasks if task.alternative_of]
    assert [(family, weight) for family, weight, _ in found] == [("conv2d", 1), ("conv2d", 2), ("conv2d", 1)]
    for _, weight, index in found:
        before, task = case.tasks[index - 1 : index + 1]
        assert (task.alternative_of, before.weight) == (before.workload.hash, weight)
        assert task.workload.args[-1] == before.workload.args[-1]
        assert "winograd" in task.workload.name


def test_main_alone_is_right(case: Case) -> None:
    case.check(run_network(case.made, case.x)[0])


KNOWN = [
    ((), (1.0, 1.0, 1.0), 4),
    ((), (1.0, 1.0), 3),
    ((2.0, 2.0, 2.0), (3.0, 1.0, 3.0), 2),
    ((1.0, 1.0), (), 0),
    ((), (), 0),
]
"""Seconds of direct programs and of alternatives, and how many convolutions the latter do."""


@pytest.mark.parametrize(
    ("bind", "direct", "other", "used"),
    some([(bind, *known) for bind in (True, False) for known in KNOWN], kind=lambda case: case[1:]),
    ids=str,
)
def test_the_database_says_what_is_run(
    case: Case, tmp_path: Path, bind: bool, direct: tuple[float, ...], other: tuple[float, ...], used: int
) -> None:
    known = dict(zip(case.names(alternative=True), other, strict=False))
    known |= dict(zip(case.names(alternative=False), direct, strict=False))
    folder = case.database(tmp_path / "database", known)
    mod, _, _ = script().apply_schedules(tir.load_module(case.made.module), tir.tvm_target(CPU), folder)
    applied = tir.dump_module(mod)
    called = calls(applied)
    assert sum(count for name, count in called.items() if "conv2d_winograd" in name) == used
    assert sum(count for name, count in called.items() if "conv2d" in name) == 4
    done = compile_model.compile_model(case.made.module, case.params, CPU, folder, tmp_path / "model.so", bind)
    assert sum("winograd" in name for name in done.applied) == sum("winograd" in name for name in functions(applied))
    case.check(executed(done.path, case.x, *(() if bind else case.made.params.values())))


def test_a_worker_knows_how_many_alternatives_a_model_runs(case: Case, tmp_path: Path) -> None:
    both = dict.fromkeys(case.names(alternative=False), 2.0) | {case.names(alternative=True)[0]: 1.0}
    done = Builder(str(tmp_path / "lease"), "llvm").compile_model(
        case.made.module, None, CPU.to_json(), case.tuned(both), tmp_path / "model.so"
    )
    assert (done.applied, done.alternatives) == (3, 1)


@pytest.mark.parametrize("used", [True, False])
def test_weights_that_nothing_uses_are_not_bound(case: Case, tmp_path: Path, used: bool) -> None:
    folder = case.database(tmp_path, dict.fromkeys(case.names(alternative=True), 1.0)) if used else None
    steps = script()
    mod, _, _ = steps.apply_schedules(tir.load_module(case.made.module), tir.tvm_target(CPU), folder)
    assert sorted(
        str(var.name_hint) for var in mod.functions if not str(var.name_hint).startswith(("fused", "to_"))
    ) == ["main"]
    bound = steps.bind_params(mod, case.params)["main"]
    assert [str(var.name) for var in bound.params] == ["x"]
    sizes: list[int] = []
    relax.analysis.post_order_visit(
        bound, lambda e: sizes.append(e.value.numpy().nbytes) if isinstance(e, tvm.ir.GenericConst) else None
    )
    large = sorted(size for size in sizes if size > pipeline.INLINE_BYTES)
    assert large == sorted([32 * 32 * 9 * 4] * (0 if used else 4) + [TRANSFORMED] * (4 if used else 0))


def test_pairs_of_bfloat16_have_alternatives_as_well(tmp_path: Path) -> None:
    case = Case(tmp_path, (BF16, WINOGRAD_BF16), within=1e-2)
    assert calls(case.made.module) == calls(case.direct.module), "main is the direct model"
    tasks = [task for task in case.tasks if task.alternative_of is not None]
    assert [(each.workload.family, each.weight) for each in tasks] == [("conv2d_pairs", 3), ("conv2d_pairs", 1)]
    case.check(run_network(case.made, case.x)[0])
    folder = case.database(tmp_path / "database", dict.fromkeys(case.names(alternative=True), 1.0))
    done = compile_model.compile_model(case.made.module, case.params, CPU, folder, tmp_path / "model.so", True)
    assert len(done.applied) == len(tasks) == sum("winograd" in name for name in done.applied)
    found = executed(done.path, case.x)
    case.check(found)
    assert np.abs(found - case.y).max() > 1e-4 * np.abs(case.y).max(), "what is rounded is another value"


def test_the_exported_script_chooses_by_itself(case: Case, tmp_path: Path) -> None:
    case.database(tmp_path, dict.fromkeys(case.names(alternative=True), 1.0))
    texts = metaschedule.folder_texts(
        model="net",
        target=CPU.to_json(),
        inputs=case.made.inputs,
        records=database.read(tmp_path),
        preparation=case.made.preparation.key,
        tvm=tvm.__version__,
    )
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "module.json").write_bytes(case.made.module)
    (tmp_path / "params.npz").write_bytes(case.params.read_bytes())
    sizes = {}
    for name, options in (("tuned", []), ("untuned", ["--untuned"]))[: 2 if THOROUGH else 1]:
        library = tmp_path / f"{name}.so"
        command = [sys.executable, "-I", str(tmp_path / "compile.py"), str(library), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "winograd" not in done.stderr
        case.check(executed(library, case.x))
        sizes[name] = library.stat().st_size
    direct = 32 * 32 * 9 * 4  # bytes of a convolution's weights
    assert sizes["tuned"] - sizes.get("untuned", 4 * direct) > 4 * (TRANSFORMED - direct) / 2


def test_a_single_convolution_has_an_alternative(tmp_path: Path) -> None:
    net = Net(*SHAPE)
    made = prepared(net.save(tmp_path / "model.onnx", net.conv("x", 32)), WINOGRAD)
    ((direct, other),) = alternatives.pairs(tir.load_module(made.module)).items()
    assert ("conv2d_blocked" in direct, "conv2d_winograd" in other) == (True, True)
    assert [task.alternative_of is not None for task in extract_tasks.extract_tasks(made.module)].count(True) == 1


def test_a_model_in_which_nothing_fits_has_no_second_function(tmp_path: Path) -> None:
    path = network(tmp_path, kernel=1)
    assert prepared(path, WINOGRAD).module == prepared(path, BLOCKED).module


def test_programs_that_do_not_match_are_not_joined(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lower, made = pipeline.lower_model, []

    def lower_again(mod: tvm.IRModule, preparation: Preparation, *_: int) -> tvm.IRModule:
        made.append(lower(mod, preparation))
        if len(made) == 1:
            return made[0]
        net = Net(*SHAPE)
        other = import_model.import_model(net.save(tmp_path / "other.onnx", net.conv("x", 32)), "onnx")
        return lower(pipeline.simplified(other), preparation)

    monkeypatch.setattr(pipeline, "lower_model", lower_again)
    assert prepared(case.path, WINOGRAD).module == case.direct.module
    assert "without Winograd convolutions" in caplog.text
    assert "bindings" in caplog.text


def test_without_blocks_there_is_no_winograd(case: Case) -> None:
    assert prepared(case.path, Preparation(winograd=True)).module == prepared(case.path, Preparation()).module
