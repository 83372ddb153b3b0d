"""The values to draw for an input: the range around usual values in which a program is defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tunesmith.types import TensorSpec, Values
from workers.tvm_backend.arguments import LOWEST_REAL, SMALL_INTEGERS
from workers.tvm_backend.passes.value_ranges.expressions import OutsideError
from workers.tvm_backend.passes.value_ranges.functions import Function
from workers.tvm_backend.passes.value_ranges.intervals import INFINITY, Interval

WHOLE = ("int", "uint")
REAL = ("float", "bfloat")
FARTHEST = 1 << 31
"""Values beyond it are as good as any: there is no bound."""
FULL_BITS = 32
"""A type of so many bits holds all values up to ``FARTHEST``."""
FIRST_REAL_STEP = 2.0**-10
BISECTIONS = 12
"""Steps in the search for a real bound; a whole one is found exactly."""
SAMPLES = 8
"""Values inside of a range that have to be allowed, too."""
NARROW = 0.125
"""A range of real values that is narrower is moved to where the function is defined."""
INSET = 1 / 16
"""Part of a range of real values that is kept from a bound of its domain, where functions are steep."""


def usual(spec: TensorSpec) -> Interval:
    """What is drawn for an argument of which nothing is known."""
    if spec.values is not None:
        return Interval(spec.values.low, spec.values.high)
    if spec.dtype == "bool":
        return Interval(0, 1)
    return Interval(0, SMALL_INTEGERS - 1) if spec.dtype.startswith(WHOLE) else Interval(LOWEST_REAL, -LOWEST_REAL)


def range_of(allowed: Callable[[float], bool], *, whole: bool) -> tuple[float, float] | None:
    """The range in which values are allowed, infinite where there is no bound; None where no usual value is."""
    anchors: Sequence[float] = (0, 1, 2, 3, -1) if whole else (0.5, 1.5, 0.0, -0.5, 3.0)
    anchor = next((value for value in anchors if allowed(value)), None)
    if anchor is None:
        return None
    low, high = (_bound(allowed, anchor, sign, whole=whole) for sign in (-1, 1))
    inside_low, inside_high = max(low, anchor - FARTHEST), min(high, anchor + FARTHEST)
    for number in range(1, SAMPLES):
        value = inside_low + (inside_high - inside_low) * number / SAMPLES
        if not allowed(round(value) if whole else value):
            return anchor, anchor
    return low, high


def drawn(found: tuple[float, float] | None, dtype: str) -> Values | None:
    """What to draw of a range; None: what is drawn of all arguments of the type."""
    if found is None:
        return None
    low, high = found
    if dtype.startswith(WHOLE):
        low, high = _whole_range(low, high, dtype)
        return None if (low, high) == (0, SMALL_INTEGERS - 1) else Values(int(low), int(high))
    one, other = max(low, LOWEST_REAL), min(high, -LOWEST_REAL)
    if other - one < NARROW <= high - low:
        one, other = (low, min(high, low + 1)) if low > -INFINITY else (max(low, high - 1), high)
    edge = INSET * (other - one)
    one, other = one + edge * (one == low), other - edge * (other == high)
    return None if (one, other) == (LOWEST_REAL, -LOWEST_REAL) else Values(one, other)


def argument_values(function: Function, specs: Sequence[TensorSpec]) -> list[Values | None]:
    """What to draw for each argument of a kernel, the output last; None: as ever."""
    given = [usual(spec) for spec in specs[:-1]]
    found: list[Values | None] = [None] * len(specs)
    if function.partial:
        defined = _runs(function, [each._replace(marked=True) for each in given])
        for place, spec in enumerate(specs[:-1]):
            whole = spec.dtype.startswith(WHOLE)
            if whole or (not defined and spec.dtype.startswith(REAL)):
                found[place] = drawn(range_of(_allowed(function, given, place), whole=whole), spec.dtype)
            value = found[place]
            if value is not None:
                given[place] = Interval(value.low, value.high)
    return found


def argument_specs(function: Function, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """A kernel's arguments with the values to draw for them; the first real one has NaN and infinity where it may."""
    known = [replace(spec, values=each) for spec, each in zip(specs, argument_values(function, specs), strict=True)]
    for at, values in function.known.items():
        known[at] = replace(known[at], values=values)
    first = next((at for at, spec in enumerate(known[:-1]) if spec.dtype.startswith(REAL)), None)
    if first is not None and takes_nan(function, [usual(spec) for spec in known[:-1]], first):
        usually = usual(known[first])
        known[first] = replace(known[first], values=Values(usually.low, usually.high, special=True))
    return tuple(known)


def takes_nan(function: Function, given: Sequence[Interval], place: int) -> bool:
    """True where NaN and infinity in an argument have one effect, in whatever order a schedule computes."""
    try:
        state = function.run([each._replace(marked=at == place) for at, each in enumerate(given)])
    except OutsideError:
        return False
    return not (state.fragile or state.unordered)


def _allowed(function: Function, given: Sequence[Interval], place: int) -> Callable[[float], bool]:
    def allowed(value: float) -> bool:
        point = Interval(value, value, True)
        return _runs(function, [point if at == place else each for at, each in enumerate(given)])

    return allowed


def _runs(function: Function, given: Sequence[Interval]) -> bool:
    try:
        function.run(given)
    except OutsideError:
        return False
    return True


def _whole_range(low: float, high: float, dtype: str) -> tuple[float, float]:
    """Bounds of whole numbers that the type holds, a few where there are none.

    None is negative where that is possible: not all runtimes count negative indices from the end.
    """
    bits = int("".join(filter(str.isdigit, dtype)))
    if bits < FULL_BITS and high != INFINITY:
        high = min(high, (1 << bits - dtype.startswith("int")) - 1)
    if high >= 0:
        low = max(low, 0)
    elif low == -INFINITY:
        low = high - SMALL_INTEGERS + 1
    return low, low + SMALL_INTEGERS - 1 if high == INFINITY else high


def _bound(allowed: Callable[[float], bool], anchor: float, sign: int, *, whole: bool) -> float:
    """The last allowed value in one direction; infinite where ``FARTHEST`` is allowed, too."""
    step: float = 1 if whole else FIRST_REAL_STEP
    good, bad = anchor, None
    while abs(step) <= FARTHEST and bad is None:
        value = anchor + sign * step
        good, bad = (value, None) if allowed(value) else (good, value)
        step *= 2
    if bad is None:
        return sign * INFINITY
    for _ in range(64 if whole else BISECTIONS):
        middle = (good + bad) // 2 if whole else (good + bad) / 2
        if middle in (good, bad):
            if not whole or abs(good - bad) <= 1:
                break
            middle = good + sign
        good, bad = (middle, bad) if allowed(middle) else (good, middle)
    return good
