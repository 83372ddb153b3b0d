"""What follows each value of a function: how much somebody would have to turn back later, were it blocked."""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable

from tvm import relax

from workers.tvm_backend.passes.layout.expressions import Binding, operands, size


class Role(enum.Enum):
    """What an operator takes: plain values, either layout, or either while its result has the same."""

    PLAIN = enum.auto()
    EITHER = enum.auto()
    SAME = enum.auto()


class Outlook:
    """Elements to make plain after each variable, seen from the end of the function.

    Operators that work in either layout hand on what follows them, so that a conversion is counted where it would
    happen, behind a pooling say, and never for more than the value itself, which could be converted instead. Of several
    users the one with the largest conversion counts: a value is converted once. This leaves out what two branches need
    together, which a comparison of two layouts can bear.
    """

    def __init__(self, bindings: list[Binding], outputs: relax.Expr, role: Callable[[relax.Expr], Role]) -> None:
        """Go through the bindings from the last to the first.

        Args:
            bindings: bindings of a straight-line function, in order.
            outputs: what the function returns.
            role: gives the role of what a variable is bound to.
        """
        self._leaving: dict[relax.Var, int] = {}
        self._sizes: dict[relax.Var, int] = {}
        self._uses = collections.Counter(
            each for value in (outputs, *dict(bindings).values()) for each in operands(value)
        )
        for used in operands(outputs):
            self._note(used, self._size(used))
        for var, value in reversed(bindings):
            kind = role(value)
            for used in operands(value) if kind is not Role.EITHER else ():
                self._note(used, self.leaving(var) if kind is Role.SAME else self._size(used))

    def leaving(self, var: relax.Var) -> int:
        """Elements that somebody needs plain after ``var``."""
        return self._leaving.get(var, 0)

    def used_once(self, expr: relax.Expr) -> bool:
        """Whether a variable has one user."""
        return self._uses[expr] == 1

    def _note(self, var: relax.Var, elements: int) -> None:
        most = self._size(var) or elements  # a tuple has no size of its own
        self._leaving[var] = max(min(elements, most), self.leaving(var))

    def _size(self, var: relax.Var) -> int:
        """Asked once: TVM takes its time to answer, and models have thousands of uses."""
        if var not in self._sizes:
            self._sizes[var] = size(var)
        return self._sizes[var]
