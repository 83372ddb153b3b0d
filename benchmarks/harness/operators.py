"""An operator as the program that every benchmark tunes, and its design space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunesmith.errors import NothingToTune
from tunesmith.operators import parse_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import of_operator
from tunesmith.space.space import Space
from tunesmith.targets import Target

if TYPE_CHECKING:
    from workers.tvm_backend.design_space.sketch import SketchBody
    from workers.tvm_backend.passes.extract_tasks import Extracted


@dataclass(frozen=True)
class Operator:
    """An operator and its design space.

    Attributes:
        spec: its text.
        task: its one function.
        bodies: the sketches by hash.
    """

    spec: str
    task: Extracted
    bodies: Mapping[str, SketchBody]

    @property
    def space(self) -> Space:
        """The numeric side of the design space."""
        return Space([body.sketch for body in self.bodies.values()])


def program(spec: str, target: Target) -> Extracted:
    """The operator's one function, prepared by TVM's passes alone, as jobs do it that forbid fast math. Imports TVM.

    Raises:
        InvalidOperator: it does not parse.
        NothingToTune: it is not one program.
    """
    from workers.tvm_backend.frontends.operator_module import prepare_operator
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    operator = parse_operator(spec)
    preparation = of_operator("llvm", operator, JobOptions(fast_math=False), target.tiled)
    tasks = extract_tasks(prepare_operator(operator, preparation).module)
    if len(tasks) != 1:
        raise NothingToTune(f"{spec} is {len(tasks)} programs, and a benchmark takes one", field="operator")
    return tasks[0]


def load(spec: str, target: Target) -> Operator:
    """Generate an operator's design space; raises like :func:`program`."""
    from workers.tvm_backend.warm import warm

    warm(target.kind)
    from workers.tvm_backend.design_space.space import generate

    task = program(spec, target)
    return Operator(spec, task, {body.hash: body for body in generate(task.module, target)})
