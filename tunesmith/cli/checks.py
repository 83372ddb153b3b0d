"""What can be refused before anything is started."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tunesmith.budget import check_budget
from tunesmith.errors import (
    InvalidBudget,
    InvalidInput,
    MissingDependency,
    ModelRejected,
    NotAModel,
    TargetUnavailable,
)
from tunesmith.extras import choice_unavailable, lacking, unavailable
from tunesmith.model_files import KINDS, check_file, source_of
from tunesmith.operators import FORMS, looks_like_operator, parse_operator
from tunesmith.options import JobOptions
from tunesmith.targets import parse_target

LEAST_SECONDS = 1.0
"""Less than that is over before anything is measured."""
ELSEWHERE = (
    "submit it to a server that such a device can register with: 'tunesmith up', then 'tunesmith tune --server URL'"
)


def parse_inputs(values: list[str]) -> dict[str, tuple[int, ...]]:
    """``name=1,3,224,224`` items as a mapping.

    Raises:
        InvalidInput: naming the item.
    """
    shapes = {}
    for value in values:
        name, _, dims = value.rpartition("=")
        try:
            shape = tuple(int(part) for part in dims.split(","))
        except ValueError:
            shape = ()
        if not name or not shape or min(shape) < 1:
            raise InvalidInput(f"--input must look like name=1,3,224,224, not {value!r}", field="input", value=value)
        shapes[name] = shape
    return shapes


def check_model(model: str) -> None:
    """Refuse what is neither a file nor an operator.

    Raises:
        NotAModel, InvalidOperator: as their names say.
    """
    path = Path(model)
    if looks_like_operator(model):
        parse_operator(model)
    elif path.is_dir():
        raise NotAModel(f"{model} is a directory; expected {KINDS}", field="model", value=model)
    elif not path.is_file():
        raise NotAModel(
            f"there is no file {model}, and it is not an operator spec such as {FORMS['gemm']} either",
            field="model",
            value=model,
        )


def check_content(model: str) -> None:
    """Refuse a file that no importer could read, before anything is started for it.

    Raises:
        NotAModel, TruncatedModel: as their names say, or the file cannot be read.
    """
    try:
        check_file(Path(model), source_of(model))
    except OSError as error:
        raise NotAModel(f"cannot read {model}: {error.strerror}", field="model", value=model) from error
    except ModelRejected as error:
        raise type(error)(f"{model}: {error.detail}", field="model", value=model) from error


def check_limits(trials: int | None, seconds: float | None, seed: int | None) -> None:
    """Refuse budgets and seeds out of bounds.

    Raises:
        InvalidBudget, InvalidInput: naming option, value and bounds.
    """
    if seconds is not None and seconds < LEAST_SECONDS:
        raise InvalidBudget(
            f"the time must be at least {LEAST_SECONDS:g} second, not {seconds:g}",
            field="budget.seconds",
            value=seconds,
        )
    check_budget(trials, seconds)
    if seed is not None and not 0 <= seed < 2**31:
        raise InvalidInput(f"the seed must be 0 to {2**31 - 1}, not {seed}", field="seed", value=seed)


def check_out(out: Path, option: str = "--out", field: str = "out") -> None:
    """Refuse a folder that results could not be written to; ``option`` and ``field`` name it in the error.

    Raises:
        InvalidInput: with the reason. Nothing is created.
    """
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        raise InvalidInput(
            f"{option} {out} cannot be written: {there}: {error.strerror}; choose a folder that you can write to",
            field=field,
            value=str(out),
        ) from error


def check_output_file(path: Path) -> None:
    """Refuse a name for ``-o`` that no file could be written to.

    Raises:
        InvalidInput: with the reason. Nothing is created.
    """
    if path.is_dir():
        raise InvalidInput(f"-o {path} is a folder; give the name of a file", field="output", value=str(path))
    check_out(path.parent, "-o", "output")


def check_extras(model: str, options: JobOptions) -> None:
    """Refuse what an embedded stack cannot run, because an extra is not installed here.

    Raises:
        MissingDependency: naming the extra.
    """
    for field in options.model_fields_set & {"search", "cost_model"}:
        name = getattr(options, field)
        if name in unavailable():
            raise choice_unavailable(field, name)
    if not looks_like_operator(model) and source_of(model) == "pt2" and lacking(["torch"]):
        raise MissingDependency(
            f"{model} is read with PyTorch, which is not installed here: install the extra 'torch', for example with "
            "pip install torch",
            field="model",
            value=model,
            extra="torch",
        )


def check_target_is_here(target: str) -> None:
    """Refuse a target that an embedded stack on this host could never measure.

    Raises:
        TargetUnavailable: with the way to tune for it all the same.
    """
    spec = parse_target(target)
    cores = len(os.sched_getaffinity(0))
    if spec.is_local and spec.kind == "cuda" and not Path("/proc/driver/nvidia/gpus").exists():
        raise _unavailable(f"this host has no NVIDIA GPU, so it cannot tune for {target}", target)
    if spec.is_local and spec.cores is not None and spec.cores > cores:
        raise _unavailable(f"this host has {cores} cores, so it cannot tune for {target}", target)
    if spec.target is not None and spec.target.kind != "llvm":
        raise _unavailable(f"this host has no device of class {spec.target.device_class}", target)


def check_class_is_here(target: str, classes: Iterable[str]) -> None:
    """Refuse a target that none of this host's device classes is: an embedded stack gets no other device.

    Raises:
        TargetUnavailable: with the way to tune for it all the same.
    """
    spec, known = parse_target(target), sorted(classes)
    if spec.target is not None and spec.target.device_class not in known:
        has = ", ".join(known) or "none"
        raise _unavailable(f"this host has no device of class {spec.target.device_class} (it has {has})", target)


def _unavailable(problem: str, target: str) -> TargetUnavailable:
    return TargetUnavailable(f"{problem}; {ELSEWHERE}", field="target", value=target)
