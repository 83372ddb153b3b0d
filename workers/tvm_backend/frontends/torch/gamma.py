"""Hurwitz's zeta function and the incomplete gamma functions: series whose terms each element sums in a loop.

Formulas are of Abramowitz and Stegun, "Handbook of mathematical functions", 1964.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from workers.tvm_backend.frontends.torch.loops import KIND, Item, elementwise, number
from workers.tvm_backend.frontends.torch.resize import Convert

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""Bernoulli's numbers of even index, from the second."""
SHIFT = 10
"""Asymptotic series hold from here on; recurrences lead there."""
MOST = 1e5
"""Most steps of a recurrence."""
TERMS = 400
"""Terms of the series and of the continued fraction of the incomplete gamma functions."""
TINY = 1e-300


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        **{
            f"special_zeta.{form}": elementwise("zeta", _zeta, 4) for form in ("default", "self_scalar", "other_scalar")
        },
        "igamma.default": elementwise("igamma", _lower, 7),
        "igammac.default": elementwise("igammac", _upper, 7),
    }


def _choose(*pairs: tuple[Any, float], otherwise: Any) -> Any:
    """The number of the first condition that holds."""
    found = otherwise
    for condition, value in reversed(pairs):
        found = tirx.Select(condition, number(value), found)
    return found


def _zeta(x: Item, q: Item, made: Item, room: Item) -> None:
    """Hurwitz's, by Euler and Maclaurin's formula, 23.2.7."""
    power, first = x[0], q[0]
    room[0] = number(0)
    room[2] = tirx.max(number(SHIFT), tirx.min(tirx.ceil(number(SHIFT) - first), number(MOST)))
    with T.serial(0, room[2].astype("int32")) as n:
        room[0] = room[0] + tirx.pow(first + n.astype(KIND), -power)
    room[3] = first + room[2]
    end = room[3]
    room[1] = tirx.pow(end, -power)
    room[0] = room[0] + room[1] * end / (power - number(1)) + number(0.5) * room[1]
    room[1], room[2] = room[1] / end, power
    for n, bernoulli in enumerate(BERNOULLI, 1):
        room[0] = room[0] + number(bernoulli / math.factorial(2 * n)) * room[2] * room[1]
        room[1] = room[1] / (end * end)
        room[2] = room[2] * (power + number(2 * n - 1)) * (power + number(2 * n))
    below = first <= number(0)
    made[0] = _choose(
        (power == number(1), math.inf),
        (power < number(1), math.nan),
        (tirx.all(below, first == tirx.floor(first)), math.inf),
        (tirx.all(below, power != tirx.floor(power)), math.nan),
        otherwise=room[0],
    )


def _lower(a: Item, x: Item, made: Item, room: Item) -> None:
    _parts(a[0], x[0], room)
    made[0] = _edges(a[0], x[0], tirx.Select(x[0] < a[0] + number(1), room[0], number(1) - room[1]), upper=False)


def _upper(a: Item, x: Item, made: Item, room: Item) -> None:
    _parts(a[0], x[0], room)
    made[0] = _edges(a[0], x[0], tirx.Select(x[0] < a[0] + number(1), number(1) - room[0], room[1]), upper=True)


def _edges(a: Any, x: Any, found: Any, upper: bool) -> Any:
    """Both functions at 0 and infinity."""
    none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    zero, infinite = number(0), number(math.inf)
    return _choose(
        (tirx.any(a != a, x != x, a < zero, x < zero), math.nan),
        (tirx.all(a == zero, x == zero), math.nan),
        (tirx.all(a == infinite, x == infinite), math.nan),
        (a == zero, all_),
        (x == zero, none),
        (a == infinite, none),
        (x == infinite, all_),
        otherwise=found,
    )


def _parts(a: Any, x: Any, room: Item) -> None:
    """The lower function by the series 6.5.29 as the first of ``room``, the upper one by 6.5.31 as the second."""
    room[2] = number(1)
    with T.serial(0, SHIFT) as n:
        room[2] = room[2] * (a + n.astype(KIND))
    end = a + number(SHIFT)
    room[3] = (end - number(0.5)) * tirx.log(end) - end + number(0.5 * math.log(2 * math.pi)) - tirx.log(room[2])
    for n, bernoulli in enumerate(BERNOULLI, 1):
        room[3] = room[3] + number(bernoulli / (2 * n * (2 * n - 1))) / tirx.pow(end, number(2 * n - 1))
    room[2] = tirx.exp(a * tirx.log(x) - x - room[3])
    room[3] = number(1) / a
    room[0] = room[3]
    with T.serial(1, TERMS) as n:
        room[3] = room[3] * x / (a + n.astype(KIND))
        room[0] = room[0] + room[3]
    room[0] = room[0] * room[2]
    room[3], room[4] = x + number(1) - a, number(1 / TINY)
    room[5] = number(1) / room[3]
    room[1] = room[5]
    with T.serial(1, TERMS) as n:
        room[6] = n.astype(KIND) * (a - n.astype(KIND))
        room[3] = room[3] + number(2)
        room[5] = number(1) / _away(room[6] * room[5] + room[3])
        room[4] = _away(room[3] + room[6] / room[4])
        room[1] = room[1] * room[5] * room[4]
    room[1] = room[1] * room[2]


def _away(value: Any) -> Any:
    """What may be divided by."""
    return tirx.Select(tirx.abs(value) < number(TINY), number(TINY), value)
