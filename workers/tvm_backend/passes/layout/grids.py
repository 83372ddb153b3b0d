"""Which values of a function are whole numbers times a scale: what a model's quantisation makes of them.

Importers write a quantised value as float32 that is rounded: ``clip(round(x / s), a, b) * s``. Here its scale and its
range are found again, however they are written, and carried on through operators that only choose among elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import Binding, operator, shape

KEEPING = frozenset(
    {
        "relax.nn.max_pool2d",
        "relax.reshape",
        "relax.permute_dims",
        "relax.squeeze",
        "relax.expand_dims",
        "relax.strided_slice",
    }
)
"""Operators that choose among the elements of their first operand by order or place."""
CODE_STEPS = 255
"""Largest distance of two numbers on a grid, in its scale, whose codes are bytes."""
CLOSE = 1e-4
"""How far from a whole number of steps a bound may be: scales are of single precision."""
LARGEST_SCALE = 2.0**100
"""Scales and their inverses beyond it are left to float32 as it is."""

WEIGHT_CLOSE = 2.0**-13
"""The same of weights: three roundings of a number of 128 steps."""
MULTIPLES = (127, 128, *range(126, 0, -1))
"""What the largest weight of a channel is tried as; most quantisers make it 127."""
SAMPLE = 64
"""Weights of a channel that are tried first."""
Array = NDArray[Any]


@dataclass(frozen=True)
class Grid:
    """``scale`` times the whole numbers from ``low`` to ``high``, which may be infinite.

    Attributes:
        source: what was multiplied by ``inverse`` and then rounded to it; None where it was rounded before.
        shift: what was added after rounding.
    """

    scale: float
    low: float = -math.inf
    high: float = math.inf
    source: relax.Expr | None = None
    inverse: float = 0.0
    shift: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether bytes are its codes, one of them that of zero."""
        return self.high - self.low <= CODE_STEPS and self.low <= 0 <= self.high

    @property
    def rounded_here(self) -> bool:
        """Whether its codes can be made of ``source``."""
        return self.source is not None and self.shift == 0 and self.fits

    @property
    def numbers(self) -> Grid:
        """The grid without where it comes from."""
        return Grid(self.scale, self.low, self.high)

    @property
    def top(self) -> int:
        """The highest code."""
        return int(self.high - self.low)


@dataclass(frozen=True)
class Shifted:
    """``(base - zero) * scale``, ``base`` being on a grid: what a model quantises by scales that it computes.

    Attributes:
        zero, scale: values of one element; None for 0 and for 1.
    """

    base: relax.Var
    zero: relax.Expr | None = None
    scale: relax.Expr | None = None


@dataclass(frozen=True)
class Grids:
    """What is known of a function's values.

    Attributes:
        found: the grids that they are on.
        shifted: those that are a computed scale, and a computed zero, away from one.
    """

    found: Mapping[relax.Var, Grid]
    shifted: Mapping[relax.Var, Shifted]

    def get(self, expr: relax.Expr) -> Grid | None:
        """The grid of a variable; None where there is none."""
        return self.found.get(expr) if isinstance(expr, relax.Var) else None


NO_GRIDS = Grids({}, {})


def find(bindings: list[Binding]) -> Grids:
    """The grids of a straight-line function's values."""
    finder = _Finder()
    for var, value in bindings:
        finder.bind(var, value)
    return Grids(finder.found, finder.shifted)


class _Finder:
    def __init__(self) -> None:
        self.found: dict[relax.Var, Grid] = {}
        self.shifted: dict[relax.Var, Shifted] = {}
        self._bound: dict[relax.Var, relax.Expr] = {}

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        self._bound[var] = value
        grid = self.found.get(value) if isinstance(value, relax.Var) else self._grid(value)
        if grid is not None and 1 / LARGEST_SCALE < grid.scale < LARGEST_SCALE:
            self.found[var] = grid
        elif (shifted := self._shifted(value)) is not None:
            self.shifted[var] = shifted

    def _shifted(self, value: relax.Expr) -> Shifted | None:
        name = operator(value)
        if name == "relax.reshape":
            return self.shifted.get(value.args[0])
        if name not in ("relax.subtract", "relax.multiply") or not _is_single(value.args[1]):
            return None
        data, by = value.args
        if name == "relax.subtract":
            return Shifted(data, by) if data in self.found else None
        before = self.shifted.get(data) or (Shifted(data) if data in self.found else None)
        return None if before is None or before.scale is not None else replace(before, scale=by)

    def _grid(self, value: relax.Expr) -> Grid | None:
        name = operator(value)
        if name == "relax.round":
            return self._rounded(value.args[0])
        if name == "relax.dequantize":
            return _dequantized(value)
        if name == "relax.astype":
            return _of_integers(value)
        if name == "relax.concat":
            return self._joined(value)
        grid = self.found.get(value.args[0]) if name in (*KEEPING, *CHANGES) else None
        if grid is None:
            return None
        if name == "relax.add" and (other := self.found.get(value.args[1])) is not None:
            both = Grid(grid.scale, grid.low + other.low, grid.high + other.high)
            return both if other.scale == grid.scale else None
        return CHANGES[name](grid, value) if name in CHANGES else grid.numbers

    def _rounded(self, source: relax.Expr) -> Grid:
        """Whole numbers, of a multiple of another value where it is one."""
        value = self._bound.get(source, source)
        name = operator(value)
        by = number(value.args[1]) if name in ("relax.multiply", "relax.divide") else None
        inverse = None if by is None or not by > 0 else by if name == "relax.multiply" else 1 / by
        if inverse is None or not 1 / LARGEST_SCALE < inverse < LARGEST_SCALE:
            return Grid(1.0, source=source, inverse=1.0)
        return Grid(1.0, source=value.args[0], inverse=inverse)

    def _joined(self, value: relax.Call) -> Grid | None:
        """What a concatenation of equal grids is on."""
        fields = self._bound.get(value.args[0], value.args[0])
        grids = [self.found.get(field) for field in getattr(fields, "fields", ())]
        first = grids[0] if grids else None
        if first is None or any(each is None or each.numbers != first.numbers for each in grids):
            return None
        return first.numbers


def number(expr: relax.Expr) -> float | None:
    """A constant of equal elements; None for anything else."""
    if not isinstance(expr, tvm.ir.GenericConst):
        return None
    array = np.asarray(fold_constants.constant_array(expr)).reshape(-1)
    return float(array[0]) if array.size and bool((array == array[0]).all()) else None


def of_weights(weight: Array) -> tuple[Array, Array] | None:
    """Weights as int8 and one scale, in float64, for each element of the first axis; None where some are on no grid.

    A scale is found again from the numbers: the largest is some whole multiple of it. A row of zeros has the finest
    scale of the others, 1 at most: what is added to its sums is in whole steps, too.
    """
    rows = weight.reshape(len(weight), -1).astype(np.float64)
    largest = np.abs(rows).max(axis=1, initial=0.0)
    if not np.isfinite(largest).all():
        return None
    scales = np.where(largest > 0, 0.0, 1.0)
    for steps in MULTIPLES:
        left = np.flatnonzero(scales == 0)
        tried = largest[left] / steps
        few = rows[left][:, :SAMPLE]
        left, tried = (each[_close(few, tried).all(axis=1)] for each in (left, tried))
        good = _close(rows[left], tried).all(axis=1)
        scales[left[good]] = tried[good]
        if (scales != 0).all():
            break
    else:
        return None
    scales[largest == 0] = scales[largest > 0].min(initial=1.0)
    return np.rint(rows / scales[:, None]).astype(np.int8).reshape(weight.shape), scales


def _close(rows: Array, scales: Array) -> Array:
    """Which elements are whole multiples of their row's scale that int8 holds, as far as float32 tells."""
    numbers = rows / scales[:, None]
    nearest = np.rint(numbers)
    return (np.abs(numbers - nearest) < WEIGHT_CLOSE) & (nearest >= -128) & (nearest <= 127)


def _dequantized(value: relax.Call) -> Grid | None:
    scale, zero = number(value.args[1]), number(value.args[2])
    kind = str(value.args[0].ty.dtype)
    if scale is None or zero is None or not kind.startswith(("int", "uint")) or str(value.ty.dtype) != "float32":
        return None
    limits = np.iinfo(kind)
    return Grid(scale, limits.min - zero, limits.max - zero)


def _of_integers(value: relax.Call) -> Grid | None:
    kind = str(value.args[0].ty.dtype)
    if not kind.startswith(("int", "uint")) or str(value.ty.dtype) != "float32":
        return None
    limits = np.iinfo(kind)
    return Grid(1.0, limits.min, limits.max)


def _is_single(expr: relax.Expr) -> bool:
    """Whether a value that is no constant has one element."""
    dims = shape(expr)
    return isinstance(expr, relax.Var) and dims is not None and math.prod(dims) == 1


def _clipped(grid: Grid, value: relax.Call) -> Grid | None:
    bounds = [float(getattr(each, "value", each)) / grid.scale for each in value.args[1:3]]
    low, high = (_whole(each) for each in bounds)
    if (low is None and bounds[0] > grid.low) or (high is None and bounds[1] < grid.high):
        return None
    return replace(
        grid,
        low=grid.low if low is None else max(low, grid.low),
        high=grid.high if high is None else min(high, grid.high),
    )


def _scaled(grid: Grid, value: relax.Call) -> Grid | None:
    by = number(value.args[1])
    if by is None or not by:
        return None
    return replace(grid, scale=grid.scale * by if operator(value) == "relax.multiply" else grid.scale / by)


def _moved(grid: Grid, value: relax.Call) -> Grid | None:
    by = number(value.args[1])
    steps = None if by is None else _whole((by if operator(value) == "relax.add" else -by) / grid.scale)
    if steps is None:
        return None
    return replace(grid, low=grid.low + steps, high=grid.high + steps, shift=grid.shift + steps)


def _whole(steps: float) -> float | None:
    """A whole number of steps; None where it is none."""
    if not math.isfinite(steps) or abs(round(steps) - steps) > CLOSE:
        return None
    return float(round(steps))


CHANGES: Mapping[str, Callable[[Grid, relax.Call], Grid | None]] = {
    "relax.clip": _clipped,
    "relax.multiply": _scaled,
    "relax.divide": _scaled,
    "relax.add": _moved,
    "relax.subtract": _moved,
    "relax.nn.relu": lambda grid, _: grid.numbers,
}
"""What operators on a grid and numbers make of it, by name; the range of a rectifier's may be too large."""
