"""A prepared model into a library, with a database's schedules or without."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tunesmith.errors import MeasurementFailed, TunesmithError, first_line
from tunesmith.targets import Target
from workers.tvm_backend import tir
from workers.tvm_backend.build import linking
from workers.tvm_backend.export import script
from workers.tvm_backend.warm import warm


@dataclass(frozen=True)
class CompiledModel:
    """A compiled model.

    Attributes:
        path: the shared library.
        applied: functions that took a schedule from the database; empty without a database.
        missing: functions that found none there and have more than one to choose from.
    """

    path: Path
    applied: list[str]
    missing: list[str]


def compile_model(
    module: bytes,
    params_path: str | os.PathLike[str] | None,
    target: Target,
    database_dir: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    bind: bool = True,
) -> CompiledModel:
    """Compile a prepared module.

    Args:
        module: the module's JSON.
        params_path: the ``.npz`` of its parameters; needed to bind them.
        target: what to compile for.
        database_dir: a MetaSchedule database of this target; None compiles untuned.
        out: the library to write.
        bind: put the parameters into the library, so that ``main`` takes the model's inputs alone; otherwise it takes
            the inputs, then the parameters in the order of the module.

    Raises:
        MissingDependency: nothing to link with.
        MeasurementFailed: TVM cannot build the model.
    """
    warm(target.kind)
    steps, out = script(), Path(out).resolve()
    mod, tvm_target = tir.load_module(module), tir.tvm_target(target)
    try:
        database = None if database_dir is None else Path(database_dir)
        mod, applied, missing = steps.apply_schedules(mod, tvm_target, database)
        if bind and params_path is not None:
            mod = steps.bind_params(mod, Path(params_path))
        executable = steps.build(mod, tvm_target)
        del mod
        steps.export(executable, out, linking.export_library)
    except TunesmithError:
        raise
    except Exception as error:
        # Code generation raises whatever the failing pass raises.
        raise MeasurementFailed(f"TVM cannot compile the model: {first_line(error)}") from error
    return CompiledModel(out, applied, missing)
