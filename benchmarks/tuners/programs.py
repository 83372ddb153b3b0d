"""The program that an operator spec stands for, the same for every tuner. Imports TVM: for child processes."""

from __future__ import annotations

from tunesmith.errors import NothingToTune
from tunesmith.operators import parse_operator
from workers.tvm_backend.frontends.import_model import operator_module
from workers.tvm_backend.passes.extract_tasks import Extracted, extract_tasks
from workers.tvm_backend.passes.pipeline import prepare


def program(operator: str) -> Extracted:
    """The operator's one task, prepared by TVM's passes alone, as jobs do it that forbid fast math.

    Raises:
        InvalidOperator: it does not parse.
        NothingToTune: it is not one program.
    """
    tasks = extract_tasks(prepare(operator_module(parse_operator(operator))).module)
    if len(tasks) != 1:
        raise NothingToTune(f"{operator} is {len(tasks)} programs, and the comparison takes one", field="operator")
    return tasks[0]
