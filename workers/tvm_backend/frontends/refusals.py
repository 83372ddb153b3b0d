"""What importers ask of an operator before they convert it, and how they say no."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import tvm
from tvm import relax

from tunesmith.errors import UnsupportedOperator

WITHOUT = "export the model without it"
"""The remedy for most refusals."""
_place: ContextVar[str] = ContextVar("place", default="")


@contextlib.contextmanager
def at(place: str) -> Iterator[None]:
    """Name refusals inside after an operator and its place in the model."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def place_or(name: str) -> str:
    """The operator that is converted, with its place; ``name`` where none is known."""
    return _place.get() or name


def unsupported(name: str, what: str, remedy: str = WITHOUT) -> UnsupportedOperator:
    """The refusal of an operator that is known, but not like this."""
    return UnsupportedOperator(
        f"{place_or(name)} is not supported with {what}; {remedy}", field="file", operators={name: 1}
    )


def fixed_extents(name: str, x: relax.Expr) -> list[int]:
    """The extents of an operand.

    Raises:
        UnsupportedOperator: one of them is fixed later, or computed.
    """
    if not isinstance(x.ty.shape, relax.ShapeExpr) or not all(isinstance(each, tvm.tirx.IntImm) for each in x.ty.shape):
        raise unsupported(name, "extents that are fixed later")
    return [int(extent) for extent in x.ty.shape]
