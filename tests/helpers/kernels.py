"""Libraries to run on a device: one that works and some that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tunesmith.messages import MeasureLimits
from tunesmith.types import TensorSpec
from workers.protocol import RunRequest
from workers.tvm_backend.build import linking
from workers.tvm_backend.run.device_session import INPUT_SEED
from workers.tvm_backend.run.references import initial

SIZE = 64
ARGS = (TensorSpec("float32", (SIZE, SIZE)), TensorSpec("float32", (SIZE, SIZE)))
LIMITS = MeasureLimits(
    run_timeout=2.0, repeats=4, variation=0.0, min_repeat_seconds=0.002, max_measure_seconds=0.1, confirm_repeats=6
)


def build(folder: Path, kind: str) -> Path:
    """``good`` and ``parallel`` double a matrix; ``crash`` calls abort, ``hang`` loops for ever, ``slow`` sleeps,
    ``late`` sleeps and calls abort when it runs for the seventh time, and ``elsewhere`` doubles what is not timed."""
    import tvm
    from tvm import s_tir, te

    calls = {"crash": ("abort",), "hang": ("pause",), "slow": ("usleep", 30_000)}

    def body(i: object, j: object) -> object:
        return a[i, j] * 2.0

    a = te.placeholder((SIZE, SIZE), name="a", dtype="float32")
    if kind in calls:
        name, *arguments = calls[kind]
        b = te.extern(
            (SIZE, SIZE),
            [a],
            lambda ins, outs: tvm.tirx.call_extern("int32", name, *arguments),
            name="b",
            dtype="float32",
        )
    else:
        b = te.compute((SIZE, SIZE), body, name="b")
    own = {"late": _late, "elsewhere": _elsewhere}
    schedule = s_tir.Schedule(own[kind]() if kind in own else te.create_prim_func([a, b]))
    if kind == "parallel":
        schedule.parallel(schedule.get_loops(schedule.get_sblock("b"))[0])
    path = folder / kind
    tvm.compile(schedule.mod, target={"kind": "llvm"}).mod.write_to_file(f"{path}.o")
    linking.link([f"{path}.o"], f"{path}.so")
    return Path(f"{path}.so")


def _late() -> Any:
    """Counts its runs in its argument, whose elements are small at first."""
    from tvm.script import tirx as T

    @T.prim_func
    def main(a: T.Buffer((SIZE, SIZE), "float32"), b: T.Buffer((SIZE, SIZE), "float32")):
        T.evaluate(T.call_extern("int32", "usleep", 3000))
        a[0, 0] = a[0, 0] + T.float32(1000)
        b[0, 0] = a[0, 0]
        if a[0, 0] > T.float32(6500):
            T.evaluate(T.call_extern("int32", "abort"))

    return main


def _elsewhere() -> Any:
    """Calls abort on the inputs that candidates are timed with."""
    from tvm.script import tirx as T

    timed = float(initial(ARGS, 0, INPUT_SEED)[0, 0])

    @T.prim_func
    def main(a: T.Buffer((SIZE, SIZE), "float32"), b: T.Buffer((SIZE, SIZE), "float32")):
        if a[0, 0] == T.float32(timed):
            T.evaluate(T.call_extern("int32", "abort"))
        for i, j in T.grid(SIZE, SIZE):
            b[i, j] = a[i, j] * T.float32(2)

    return main


def request(path: Path, **changes: object) -> RunRequest:
    return RunRequest(path, "main", ARGS, LIMITS.model_copy(update=changes), code_hash=path.stem)
