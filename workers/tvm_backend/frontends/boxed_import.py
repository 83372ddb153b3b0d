"""Imports models, in a box: what reads a user's file, and what reads the module that was made of it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tunesmith.dataset.workloads import parse_operators
from tunesmith.errors import ModelRejected, TunesmithError
from tunesmith.names import OPERATOR, OPERATORS
from tunesmith.operators import parse_operator
from tunesmith.preparation import Preparation
from workers.sandbox.limits import about_memory
from workers.tvm_backend.warm import warm

MODEL, MODULE, PARAMS = "model", "module.json", "params.npz"
"""Files in the box's folder: the user's, and what was made of it."""
PARTS = ("frontends.import_model", "frontends.operator_module", "passes.pipeline", "passes.extract_tasks", "tir")
TORCH_PARTS = (
    "torch",
    "torch.export",
    "workers.tvm_backend.frontends.torch.quantized",
    "tvm.relax.frontend.torch.exported_program_translator",
)
MESSAGE_SIZE = 3000
SHOWN_NAME = 200
"""Characters of a task's name, which grows with the operators that are fused into it, that the database keeps."""


def task_file(index: int, kind: str) -> str:
    """The file of a task's ``module`` or of its ``metaschedule`` form."""
    return f"task-{index}.{kind}"


class Importer:
    """Hosted in boxes. Each method answers ``{"done": …}`` or ``{"problem": …}``, of what lies in the working folder.

    Args:
        torch: load PyTorch as well, where it is installed: boxes are forked from a process that has done so.
    """

    def __init__(self, torch: bool = False) -> None:
        warm()
        for part in PARTS:
            importlib.import_module(f"workers.tvm_backend.{part}")
        if torch and importlib.util.find_spec("torch"):
            for part in TORCH_PARTS:
                importlib.import_module(part)

    def prepare(
        self, source: str, operator: str, shapes: Mapping[str, tuple[int, ...]], preparation: Preparation
    ) -> dict[str, Any]:
        """The model, an operator or a list of them into ``MODULE`` and ``PARAMS``; answers with the note on it."""
        return told(lambda: _prepare(source, operator, shapes, preparation))

    def split(self) -> dict[str, Any]:
        """The module's inputs and tasks; the modules of these become files.

        Call it in a box that has seen no user's file: tasks are shared among users by their hash, which must be that
        of the module and not what somebody says that it is.
        """
        return told(_split)


def told(work: Callable[[], Any]) -> dict[str, Any]:
    """What was made of it; an error that says why the model cannot be had is an answer, too."""
    try:
        return {"done": work()}
    except MemoryError as error:
        return _problem(ModelRejected(f"the import needs more memory than it may have: {error}", field="file"))
    except TunesmithError as error:
        error.detail = about_memory(error.detail)
        return _problem(error)


def _problem(error: TunesmithError) -> dict[str, Any]:
    error.detail = error.detail[:MESSAGE_SIZE]
    return {"problem": error.problem()}


def _prepare(source: str, operator: str, shapes: Mapping[str, tuple[int, ...]], preparation: Preparation) -> str:
    from workers.tvm_backend.frontends import import_model
    from workers.tvm_backend.frontends.operator_module import prepare_operator, prepare_operators
    from workers.tvm_backend.passes import pipeline

    if source == OPERATOR:
        prepared = prepare_operator(parse_operator(operator), preparation)
    elif source == OPERATORS:
        prepared = prepare_operators(parse_operators(Path(MODEL).read_text().splitlines()), preparation)
    else:
        prepared = pipeline.prepare(import_model.import_model(Path(MODEL), source, shapes), preparation)
    Path(MODULE).write_bytes(prepared.module)
    pipeline.save_params(prepared.params, PARAMS)
    return prepared.note


def _split() -> dict[str, Any]:
    from workers.tvm_backend import tir
    from workers.tvm_backend.passes import extract_tasks

    module = Path(MODULE).read_bytes()
    found = []
    for index, task in enumerate(extract_tasks.extract_tasks(module)):
        Path(task_file(index, "module")).write_bytes(task.module)
        Path(task_file(index, "metaschedule")).write_bytes(task.metaschedule)
        work = task.workload
        found.append(
            {
                "hash": work.hash,
                "name": work.name[:SHOWN_NAME],
                "args": [[each.dtype, list(each.shape)] for each in work.args],
                "flops": work.flops,
                "family": work.family,
                "weight": task.weight,
                "alternative_of": task.alternative_of,
                "weights": list(task.weights),
            }
        )
    inputs = extract_tasks.inputs(tir.load_module(module))
    return {
        "inputs": [[each.name, each.dtype, list(each.shape)] for each in inputs],
        "tasks": found,
        "params_size": extract_tasks.parameter_bytes(module),
    }
