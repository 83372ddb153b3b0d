"""Arithmetic of intervals (Moore, Interval Analysis, 1966). Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

INFINITY = math.inf


class Interval(NamedTuple):
    """All numbers from ``low`` to ``high``; a number that is none has NaN for both.

    Attributes:
        marked: it depends on the input that is looked at.
    """

    low: float
    high: float
    marked: bool = False

    @property
    def known(self) -> bool:
        """False where it may be any number."""
        return not (self.low == -INFINITY and self.high == INFINITY)

    @property
    def nan(self) -> bool:
        """True for what is not a number."""
        return self.low != self.low


ANY = Interval(-INFINITY, INFINITY)
BOOLEAN = Interval(0, 1)
TRUE, FALSE = Interval(1, 1), Interval(0, 0)


def any_of(*parts: Interval) -> Interval:
    """Any number, which depends on what its ``parts`` depend on."""
    return Interval(-INFINITY, INFINITY, any(part.marked for part in parts))


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval that holds both; not a number where one of them is not."""
    marked = a.marked or b.marked
    if a.nan or b.nan:
        return Interval(math.nan, math.nan, marked)
    return Interval(min(a.low, b.low), max(a.high, b.high), marked)


def add(a: Interval, b: Interval) -> Interval:
    """Sum."""
    return Interval(a.low + b.low, a.high + b.high, a.marked or b.marked)


def subtract(a: Interval, b: Interval) -> Interval:
    """Difference."""
    return Interval(a.low - b.high, a.high - b.low, a.marked or b.marked)


def multiply(a: Interval, b: Interval) -> Interval:
    """Product; zero times infinity, a bound that is never reached, is zero."""
    return _corners(a, b, lambda x, y: 0 if x == 0 or y == 0 else x * y)


def square(a: Interval) -> Interval:
    """Product of a number with itself."""
    product = multiply(a, a)
    return Interval(max(0, product.low) if a.low > 0 or a.high < 0 else 0, product.high, a.marked)


def divide(a: Interval, b: Interval) -> Interval:
    """Quotient of real numbers; any number where the divisor may be zero."""
    if b.low <= 0 <= b.high or b.nan:
        return any_of(a, b)
    return _corners(a, b, lambda x, y: 0 if math.isinf(y) else x / y)


def floor_divide(a: Interval, b: Interval) -> Interval:
    """Quotient, rounded down; any number where the divisor may be zero."""
    return _quotient(a, b, lambda x, y: x // y)


def truncate_divide(a: Interval, b: Interval) -> Interval:
    """Quotient, rounded to zero; any number where the divisor may be zero."""
    return _quotient(a, b, lambda x, y: -(-x // y) if (x < 0) != (y < 0) else x // y)


def remainder(a: Interval, b: Interval, *, floored: bool) -> Interval:
    """Remainder of a division that is rounded down, or to zero; any number where the divisor may be zero."""
    marked = a.marked or b.marked
    if b.low <= 0 <= b.high or a.nan or b.nan:
        return any_of(a, b)
    if (
        b.low == b.high
        and a.low >= 0
        and a.high < INFINITY
        and a.low // abs(b.low) == a.high // abs(b.low)
        and b.low > 0
    ):
        return Interval(a.low % b.low, a.high % b.low, marked)
    most = max(abs(b.low), abs(b.high)) - 1
    if floored:
        return Interval(0 if b.low > 0 else -most, most if b.low > 0 else 0, marked)
    return Interval(0 if a.low >= 0 else -most, 0 if a.high <= 0 else most, marked)


def minimum(a: Interval, b: Interval) -> Interval:
    """The smaller one."""
    return Interval(min(a.low, b.low), min(a.high, b.high), a.marked or b.marked)


def maximum(a: Interval, b: Interval) -> Interval:
    """The larger one."""
    return Interval(max(a.low, b.low), max(a.high, b.high), a.marked or b.marked)


def less(a: Interval, b: Interval, *, equal: bool = False) -> Interval:
    """Truth of ``a < b``, or of ``a <= b``."""
    marked = a.marked or b.marked
    if a.nan or b.nan:
        return FALSE._replace(marked=marked)
    if a.high < b.low or (equal and a.high <= b.low):
        return TRUE._replace(marked=marked)
    if a.low > b.high or (not equal and a.low >= b.high):
        return FALSE._replace(marked=marked)
    return BOOLEAN._replace(marked=marked)


def equals(a: Interval, b: Interval) -> Interval:
    """Truth of ``a == b``."""
    marked = a.marked or b.marked
    if a.low == a.high == b.low == b.high:
        return TRUE._replace(marked=marked)
    if a.nan or b.nan or a.high < b.low or b.high < a.low:
        return FALSE._replace(marked=marked)
    return BOOLEAN._replace(marked=marked)


def negation(a: Interval) -> Interval:
    """Truth of ``not a``."""
    return Interval(1 - min(1, a.high), 1 - min(1, a.low), a.marked)


def monotone(function: Callable[[float], float], a: Interval) -> Interval:
    """A function that never falls, of a number; any number beyond what floating point holds."""
    try:
        low = a.low if a.low == -INFINITY else function(a.low)
        high = a.high if a.high == INFINITY else function(a.high)
    except (OverflowError, ValueError):
        return any_of(a)
    return Interval(low, high, a.marked)


def magnitude(a: Interval) -> Interval:
    """Absolute value."""
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(low, max(abs(a.low), abs(a.high)), a.marked)


def _quotient(a: Interval, b: Interval, function: Callable[[float, float], float]) -> Interval:
    if b.low <= 0 <= b.high or not a.known or math.isinf(b.low) or math.isinf(b.high):
        return any_of(a, b)
    return _corners(a, b, lambda x, y: x if math.isinf(x) else function(x, y))


def _corners(a: Interval, b: Interval, function: Callable[[float, float], float]) -> Interval:
    if a.nan or b.nan:
        return Interval(math.nan, math.nan, a.marked or b.marked)
    found: Iterable[float] = [function(x, y) for x, y in itertools.product(a[:2], b[:2])]
    return Interval(min(found), max(found), a.marked or b.marked)
