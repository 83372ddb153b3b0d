"""What can be refused before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tunesmith.allocate.registry import ALLOCATORS
from tunesmith.errors import (
    InvalidInput,
    NotAModel,
    TargetUnavailable,
    UnknownAllocator,
    UnknownCostModel,
    UnknownSearcher,
)
from tunesmith.names import COST_MODELS
from tunesmith.operators import looks_like_operator, parse_operator
from tunesmith.search.registry import SEARCHERS
from tunesmith.targets import parse_target

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
    if looks_like_operator(model):
        parse_operator(model)
    elif not Path(model).is_file():
        raise NotAModel(f"there is no file {model}, and it is not an operator spec either", field="model", value=model)


def check_names(options: dict[str, Any]) -> None:
    """Refuse names that no registry knows.

    Raises:
        UnknownSearcher, UnknownCostModel, UnknownAllocator: naming what there is.
    """
    for field, known, error in (
        ("search", SEARCHERS, UnknownSearcher),
        ("cost_model", COST_MODELS, UnknownCostModel),
        ("allocator", ALLOCATORS, UnknownAllocator),
    ):
        name = options.get(field)
        if name is not None and name not in known:
            raise error(
                f"there is no {field.replace('_', ' ')} {name!r}; there are {', '.join(sorted(known))}",
                field=field,
                value=name,
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


def _unavailable(problem: str, target: str) -> TargetUnavailable:
    return TargetUnavailable(f"{problem}; {ELSEWHERE}", field="target", value=target)
