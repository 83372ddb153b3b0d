"""What follows a reduction element by element: bias, activation, residual."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule


def fold(sch: Schedule, block: Any) -> str | None:
    """Put everything that follows ``block`` into the last of those blocks; its name, None when nothing follows.

    Raises:
        tvm.s_tir.ScheduleError: something that follows is not element by element.
    """
    outputs = [str(sch.get(each).name_hint) for each in sch.get_output_blocks(sch.get_sblock("root"))]
    found: dict[str, None] = {}
    left = list(sch.get_consumers(block))
    while left:
        name = str(sch.get(left[0]).name_hint)
        if name not in found:
            found[name] = None
            left += sch.get_consumers(left[0])
        del left[0]
    last = None
    for name in found:
        if name in outputs:
            last = name
        else:
            sch.compute_inline(sch.get_sblock(name))
    return last
