"""What follows each value of a function: how much would have to be converted later, were it blocked or plain."""

from __future__ import annotations

import enum
from collections.abc import Callable

from tvm import relax

from workers.tvm_backend.layout.expressions import Binding, operands, size


class Role(enum.Enum):
    """What an operator takes: blocked values, plain ones, either, or either while its result has the same layout."""

    BLOCKED = enum.auto()
    PLAIN = enum.auto()
    EITHER = enum.auto()
    SAME = enum.auto()


class Outlook:
    """Elements to convert after each variable, seen from the end of the function.

    Operators that work in either layout hand on what follows them, so that a conversion is counted where it would
    happen, behind a pooling say, and never for more than the value itself, which could be converted instead. Of several
    users the one with the largest conversion counts: a value is converted once. This leaves out what two branches need
    together, which a comparison of two layouts can bear.
    """

    def __init__(self, bindings: list[Binding], outputs: relax.Expr, role: Callable[[relax.Expr], Role]) -> None:
        """Go through the bindings from the last to the first.

        Args:
            bindings: of a straight-line function, in order.
            outputs: what the function returns.
            role: of what a variable is bound to.
        """
        self._leaving: dict[relax.Var, int] = {}
        self._entering: dict[relax.Var, int] = {}
        for used in operands(outputs):
            self._note(used, size(used), 0)
        for var, value in reversed(bindings):
            for used in operands(value):
                kind = role(value)
                if kind is Role.SAME:
                    self._note(used, self.leaving(var), self.entering(var))
                else:
                    self._note(used, size(used) * (kind is Role.PLAIN), size(used) * (kind is Role.BLOCKED))

    def leaving(self, var: relax.Var) -> int:
        """Elements that somebody needs plain after ``var``."""
        return self._leaving.get(var, 0)

    def entering(self, var: relax.Var) -> int:
        """Elements that somebody needs blocked after ``var``."""
        return self._entering.get(var, 0)

    def _note(self, var: relax.Var, leaving: int, entering: int) -> None:
        most = size(var) or max(leaving, entering)  # a tuple has no size of its own
        self._leaving[var] = max(min(leaving, most), self.leaving(var))
        self._entering[var] = max(min(entering, most), self.entering(var))
