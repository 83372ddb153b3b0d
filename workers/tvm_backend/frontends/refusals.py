"""What importers ask of an operator before they convert it, and how they say no."""

from __future__ import annotations

import tvm
from tvm import relax

from tunesmith.errors import UnsupportedOperator


def unsupported(name: str, what: str) -> UnsupportedOperator:
    """The refusal of an operator that is known, but not like this."""
    return UnsupportedOperator(
        f"{name} is not supported with {what}; export the model without it", field="file", operators={name: 1}
    )


def fixed_extents(name: str, x: relax.Expr) -> list[int]:
    """The extents of an operand.

    Raises:
        UnsupportedOperator: one of them is fixed later, or computed.
    """
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in x.ty.shape):
        raise unsupported(name, "extents that are fixed later")
    return [int(extent) for extent in x.ty.shape]
