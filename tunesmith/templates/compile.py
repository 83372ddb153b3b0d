"""Compile the model of this folder into a library: ``python compile.py OUT.so [--untuned]``.

Needs TVM (of the minor version named in README.md) and NumPy, nothing else. The library's Relax function ``main``
takes the original model's inputs in their order; the weights are inside. ``--untuned`` ignores the database.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
ALTERNATIVE = "winograd"
"""A second function of the module: it computes what ``main`` does, call for call, by other programs here and there."""
INTRINSICS = "tvm.s_tir.tensor_intrin"
APART = "tirx.disable_storage_rewrite"
PIPELINE = "apart"
PREFETCH = runpy.run_path(str(Path(__file__).with_name("prefetch.py")))
SHARE = 1 << 14
"""Values that a core computes at least of what runs in parallel: to start threads takes some microseconds."""
SHARES = 8
"""Parts for each core at most into which a single row is cut."""


def import_tvm() -> Any:
    """TVM, imported without PyTorch, which can be imported afterwards: its FFI imports that wherever it is
    installed, for most of the time that it takes."""
    if not {"tvm_ffi", "torch"} & set(sys.modules):
        sys.modules["torch"] = None  # type: ignore[assignment]  # an import of it fails, as if it were not there
        try:
            importlib.import_module("tvm")
        finally:
            del sys.modules["torch"]
    return importlib.import_module("tvm")


def skip_intrinsics() -> None:
    """Keep TVM from parsing every back end's tensor intrinsics (ten seconds) when only this target's are needed."""
    if INTRINSICS not in sys.modules:
        s_tir = importlib.import_module("tvm.s_tir")
        stub = types.ModuleType(INTRINSICS)
        stub.__path__ = [os.path.join(os.path.dirname(str(s_tir.__file__)), "tensor_intrin")]
        sys.modules[INTRINSICS] = stub
        s_tir.__dict__["tensor_intrin"] = stub


def load_intrinsics(kind: str) -> None:
    """The tensor intrinsics of one target kind."""
    skip_intrinsics()
    part = {"cuda": "cuda"}.get(kind) or {"x86_64": "x86", "aarch64": "arm_cpu"}.get(platform.machine())
    if part is not None:
        importlib.import_module(f"{INTRINSICS}.{part}")


def register_intrinsics(texts: dict[str, list[str]]) -> None:
    """Make tensor intrinsics known (what each computes, and how), which traces name: to open a database replays all."""
    import tvm
    from tvm.s_tir import TensorIntrin

    for name, parts in texts.items():
        if TensorIntrin.get(name, allow_missing=True) is None:
            try:
                TensorIntrin.register(name, *map(tvm.ir.load_json, parts))
            except Exception as error:
                remedy = "see README.md for its version"
                raise SystemExit(f"TVM {tvm.__version__} cannot read intrinsics.json: {remedy}") from error


def read_params(path: Path, mod: Any) -> dict[str, Any]:
    """The weights that ``main`` takes as TVM tensors, by the name of its parameter."""
    import tvm

    types_by_name = {str(var.name): str(var.ty.dtype) for var in mod["main"].params}
    params: dict[str, Any] = {}
    with np.load(path) as archive:
        for name in (each for each in archive.files if each in types_by_name):
            array = archive[name]
            if array.dtype.kind == "V":  # bfloat16 and the like: NumPy's file format keeps their bytes only
                array = array.view(np.dtype(types_by_name[name]))
            params[name] = tvm.runtime.tensor(array)
    return params


def apply_schedules(mod: Any, target: Any, database_dir: Path | None) -> tuple[Any, list[str], list[str]]:
    """Replace every function that the database knows by its tuned form, and keep what ``main`` needs of the module.

    A function for which TVM's design space leaves nothing to decide gets the one schedule there is. Without a
    database, and where that has none, a function gets its default schedule: see :func:`cpu_default`; on a GPU, where
    every function needs a schedule to run, it is TVM's.
    Of the two programs that the module may have for a place of the model, see ``ALTERNATIVE``, the other one is taken
    where the database has a schedule for it, and no faster one for that of ``main``.

    Returns:
        The module, the names of the functions that the database had a schedule for, and of those that found none.
    """
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms

    tuned: list[str] = []
    missing: list[str] = []
    if database_dir is None:
        mod = choose_programs(mod, lambda direct, other: False)
    else:
        load_intrinsics(target.kind.name)
        named = database_dir / "intrinsics.json"
        register_intrinsics(json.loads(named.read_text()) if named.exists() else {})
        database = ms.database.JSONDatabase(work_dir=str(database_dir), allow_missing=False)
        with target, database:
            scheduled = relax.transform.MetaScheduleApplyDatabase()(mod)
        mod = choose_programs(
            scheduled,
            lambda direct, other: (
                is_scheduled(scheduled[other])
                and (
                    not is_scheduled(scheduled[direct])
                    or _seconds(database, mod[other], target) < _seconds(database, mod[direct], target)
                )
            ),
        )
        tuned = sorted(str(var.name_hint) for var, function in mod.functions.items() if is_scheduled(function))
        mod, missing = apply_forced(mod, target)
    return apply_default(mod, target), tuned, missing


def choose_programs(mod: Any, better: Callable[[Any, Any], bool]) -> Any:
    """The module without its second function, whose calls take the places of those of ``main`` that ``better`` says.

    Args:
        better: told which function ``main`` calls at a place and which one the second function does.
    """
    from tvm import relax

    if not any(str(var.name_hint) == ALTERNATIVE for var in mod.functions):
        return mod
    main, other = mod["main"], mod[ALTERNATIVE]
    same = dict(zip(other.params, main.params, strict=True))
    there = iter([binding for block in other.body.blocks for binding in block.bindings])
    blocks = []
    for block in main.body.blocks:
        bindings = []
        for here in block.bindings:
            twin = next(there)
            same[twin.var] = here.var
            bindings.append(relax.VarBinding(here.var, _chosen(here.value, twin.value, same, better)))
        blocks.append(type(block)(bindings))
    mod = _with_main(mod, main.params, relax.SeqExpr(blocks, main.body.body))
    return relax.transform.DeadCodeElimination(["main"])(relax.transform.Normalize()(mod))


def _chosen(here: Any, there: Any, same: dict[Any, Any], better: Callable[[Any, Any], bool]) -> Any:
    """One of two values; ``same`` has the variables of ``main`` by those of the other function."""
    from tvm import relax

    if getattr(getattr(there, "op", None), "name", "") != "relax.call_tir":
        return here
    direct, other = here.args[0], there.args[0]
    if str(direct.name_hint) == str(other.name_hint) or not better(direct, other):
        return here
    arguments = relax.Tuple([same.get(each, each) for each in there.args[1].fields])
    return relax.Call(there.op, [other, arguments, *there.args[2:]], there.attrs, there.ty_args)


def _with_main(mod: Any, params: Sequence[Any], body: Any) -> Any:
    """The module with other parameters and another body of ``main``, and without the second function."""
    import tvm
    from tvm import relax

    main = mod["main"]
    functions = {var: function for var, function in mod.functions.items() if str(var.name_hint) != ALTERNATIVE}
    functions[mod.get_global_var("main")] = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    return tvm.IRModule(functions, attrs=mod.attrs)


def _seconds(database: Any, function: Any, target: Any) -> float:
    """What the database's best record says that a function takes."""
    import tvm

    normalise = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")
    seconds = database.query_tuning_record(normalise(function), target, "main").run_secs
    return sum(float(value) for value in seconds) / len(seconds)


def is_scheduled(function: Any) -> bool:
    """True when the function carries TVM's mark of a finished schedule."""
    return bool(function.attrs and function.attrs.get("tirx.is_scheduled", False))


def apply_forced(mod: Any, target: Any) -> tuple[Any, list[str]]:
    """Schedule functions that can be scheduled in one way only; returns the names of those left without a schedule."""
    import tvm

    functions, missing = dict(mod.functions.items()), []
    for var, function in mod.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and not is_scheduled(function):
            forced = _forced_schedule(function, target)
            if forced is None:
                missing.append(str(var.name_hint))
            else:
                functions[var] = forced
    return tvm.IRModule(functions, attrs=mod.attrs), sorted(missing)


def _forced_schedule(function: Any, target: Any) -> Any:
    """The function in the only form of its design space; None when there are several, or none that applies."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    body = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    rules = ms.space_generator.PostOrderApply()
    context = ms.TuneContext(body, target=target, space_generator=rules, num_threads=1, rand_state=1)
    try:
        schedule, *others = context.generate_design_space()
    except tvm.s_tir.ScheduleError:  # TVM's rules do not fit every program
        return None
    if others or any(str(i.kind.name).startswith("Sample") for i in schedule.trace.insts):
        return None
    schedule.enter_postproc()
    if not all(postproc.apply(schedule) for postproc in context.space_generator.postprocs):
        return None
    return schedule.mod["main"].without_attr("global_symbol").with_attr("tirx.is_scheduled", True)


def apply_default(mod: Any, target: Any) -> Any:
    """The module with default schedules where functions have none."""
    return _apply_gpu_default(mod, target) if "gpu" in target.keys else cpu_default(mod, target)


def cpu_default(mod: Any, target: Any) -> Any:
    """Large copies and elementwise functions in parallel, without a search; those with sums stay as TVM makes them."""
    import tvm

    cores = int(target.attrs.get("num-cores", 1))
    if cores == 1:
        return mod
    functions = {
        var: _parallel(function, cores) if isinstance(function, tvm.tirx.PrimFunc) else function
        for var, function in mod.functions.items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _parallel(function: Any, cores: int) -> Any:
    """The function with its rows in parallel, where each of its blocks computes every value by itself."""
    import tvm
    from tvm.s_tir import Schedule, ScheduleError

    if is_scheduled(function):
        return function
    try:
        schedule = Schedule(tvm.IRModule({"main": function}), error_render_level="none")
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        if not all(_by_itself(schedule, block) for block in blocks):
            return function
        for block in blocks:
            _divide(schedule, schedule.get_loops(block), cores)
    except ScheduleError:  # not of that form after all
        return function
    return schedule.mod["main"]


def _divide(schedule: Any, loops: Sequence[Any], cores: int) -> None:
    """Put all loops except the last in parallel, or parts of that one where they are too few."""
    *rows, last = [int(schedule.get(loop).extent) for loop in loops]
    if math.prod(rows) * last < cores * SHARE:
        return
    parts = next(n for n in range(cores * SHARES, 0, -1) if last % n == 0)
    if math.prod(rows) < cores <= math.prod(rows) * parts:
        loops = [*loops[:-1], *schedule.split(loops[-1], [parts, None])]
    elif math.prod(rows) < cores:
        return
    schedule.parallel(schedule.fuse(*loops[:-1]) if len(loops) > 2 else loops[0])


def _by_itself(schedule: Any, block: Any) -> bool:
    """True for a block whose loops are of fixed extents, one for each axis, and which sums nothing up."""
    import tvm

    axes, loops = schedule.get(block).iter_vars, schedule.get_loops(block)
    fixed = all(isinstance(schedule.get(loop).extent, tvm.tirx.IntImm) for loop in loops)
    return fixed and len(loops) == len(axes) > 0 and all(axis.iter_type == tvm.tirx.IterVar.DataPar for axis in axes)


def _apply_gpu_default(mod: Any, target: Any) -> Any:
    from tvm.s_tir import dlight

    rules = dlight.gpu
    with target:
        return dlight.ApplyDefaultSchedule(
            rules.Matmul(), rules.GEMV(), rules.Reduction(), rules.GeneralReduction(), rules.Fallback()
        )(mod)


def bind_params(mod: Any, path: Path) -> Any:
    """The module with the weights that ``main`` uses as constants of it; the others are no longer parameters."""
    from tvm import relax

    main, names = mod["main"], set(np.load(path).files)
    used = set(relax.analysis.free_vars(main.body))
    mod = _with_main(mod, [var for var in main.params if var in used or str(var.name) not in names], main.body)
    params = read_params(path, mod)
    return relax.transform.BindParams("main", params)(mod) if params else mod


def build(mod: Any, target: Any) -> Any:
    """A Relax VM executable."""
    from tvm import relax

    steps = relax.get_pipeline("default_build")
    if "gpu" not in target.keys:
        return relax.build(PREFETCH["with_prefetches"](mod, target), target=target, relax_pipeline=steps)
    with target:  # where there is a driver, TVM compiles the kernels now, and asks here for the architecture
        return relax.build(mod, target=target, relax_pipeline=steps, tir_pipeline=_register_pipeline())


def needs_room(function: Any) -> bool:
    """True for a kernel of tensor cores with values of several types in shared memory, such as float32 sums of float16.

    TVM lets those of one type take the place of those of another, and then refuses to address them.
    """
    import tvm_ffi
    from tvm.s_tir import SBlock

    buffers: list[Any] = []
    tvm_ffi.structural_walk(function.body, (SBlock, lambda block: buffers.extend(block.alloc_buffers)))
    shared = {str(buffer.dtype) for buffer in buffers if str(buffer.scope()).startswith("shared")}
    return len(shared) > 1 and any(str(buffer.scope()).startswith("wmma") for buffer in buffers)


def _register_pipeline() -> str:
    """TVM's lowering of kernels, which leaves the memory of those that need it alone; returns its name."""
    import tvm
    from tvm.tirx import compilation_pipeline as pipelines

    lower, *finalize = pipelines.get_tir_pipeline("default")

    def lower_each(mod: Any, context: Any) -> Any:
        apart = {var: function for var, function in mod.functions.items() if needs_room(function)}
        others = {var: function for var, function in mod.functions.items() if var not in apart}
        lowered = lower(tvm.IRModule(others, attrs=mod.attrs))
        with tvm.transform.PassContext(context.opt_level, config={**context.config, APART: True}):
            lowered.update(lower(tvm.IRModule(apart, attrs=mod.attrs)))
        return lowered

    pipelines.register_tir_pipeline(PIPELINE, lambda: (tvm.transform.module_pass(lower_each, 0), *finalize))
    return PIPELINE


def export(executable: Any, out: Path, link: Callable[..., None]) -> None:
    """Write the executable, its kernels and its constants as one shared library."""
    with tempfile.TemporaryDirectory(prefix="compile-", dir=out.parent) as folder:
        executable.mod.export_library(str(out), fcompile=link, workspace_dir=folder)


def link(out: str, objects: Sequence[str], **_: Any) -> None:
    """Link with the machine's C++ compiler, else with the one inside the Python package ``ziglang``."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    zig = [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-m", "ziglang", "cc"]
    command = [compiler] if compiler else zig
    done = subprocess.run([*command, "-shared", "-fPIC", "-o", out, *objects, "-lm"], capture_output=True, text=True)
    if done.returncode != 0:
        hint = "" if compiler else "\nThere is no C++ compiler here: install one, or run: pip install ziglang"
        raise SystemExit(f"linking failed:\n{done.stderr[-4000:]}{hint}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Compile the model of this folder with its tuned schedules.")
    parser.add_argument("out", type=Path, metavar="OUT.so", help="the library to write")
    parser.add_argument("--untuned", action="store_true", help="ignore the database: default schedules")
    args = parser.parse_args()
    tvm = import_tvm()
    folder = Path(__file__).resolve().parent
    target = tvm.target.Target(json.loads((folder / "target.json").read_text()))
    mod = tvm.ir.load_json((folder / "module.json").read_text())
    args.out.parent.mkdir(parents=True, exist_ok=True)
    mod, _, missing = apply_schedules(mod, target, None if args.untuned else folder)
    for name in missing:
        print(f"no schedule for {name}: it runs with its default schedule", file=sys.stderr)
    export(build(bind_params(mod, folder / "params.npz"), target), args.out.resolve(), link)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
