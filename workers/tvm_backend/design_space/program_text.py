"""A candidate's program in TVMScript, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tunesmith.targets import Target
from tunesmith.types import Decision
from workers.tvm_backend import tir
from workers.tvm_backend.design_space import replay
from workers.tvm_backend.design_space.sketch import SketchBody

MAX_TEXT = 400_000
"""Characters of one text; an unrolled program may have millions."""
CUT = "\n# … cut here: the whole program is longer\n"


@dataclass(frozen=True)
class ProgramText:
    """Two programs.

    Attributes:
        plain: the workload without a schedule.
        scheduled: the candidate.
    """

    plain: str
    scheduled: str


def program_text(
    module: bytes, target: Target, body: SketchBody | None, decisions: tuple[Decision, ...]
) -> ProgramText:
    """Write a candidate's program as text.

    Args:
        module: JSON of the workload.
        body: the candidate's sketch; None for the default schedule.

    Raises:
        InvalidCandidate: the decisions do not apply.
    """
    made = replay.schedule(module, target, body, decisions)
    return ProgramText(_text(tir.load_module(module)), _text(made.mod))


def _text(mod: Any) -> str:
    text = str(mod.script())
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + CUT
