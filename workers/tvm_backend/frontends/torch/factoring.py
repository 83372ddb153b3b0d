"""Factors of matrices as loops, one matrix after another in each thread: what linear algebra is made of.

Methods and their names for results are LAPACK's; a matrix is the last two of three axes here. The loops that turn pairs
of columns are Jacobi's: Golub and Van Loan, "Matrix computations", 4th edition, 8.5 and 8.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from workers.tvm_backend.frontends.torch.loops import KIND, Body, Item, number

SWEEPS = 15
"""Turns of all pairs of columns; each squares the error once it is small."""


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    return tirx.if_then_else(condition, yes, no)


def _each(count: Any, first: Any = 0) -> Any:
    return T.serial(first, count)


def _filled(x: Item, rows: int, columns: int, value: Callable[[Any, Any], Any]) -> None:
    with _each(rows) as i, _each(columns) as j:
        x[i, j] = value(i, j)


def _unit(i: Any, j: Any) -> Any:
    return _choose(i == j, number(1), number(0))


def lower_upper(rows: int, columns: int) -> Body:
    """``getrf``: factors with the rows in another order; takes a matrix, and makes them in one, pivots and a status.

    The first status is the number of the first pivot that is 0, counted from 1; the second is room.
    """

    def body(a: Item, made: Item, pivots: Item, status: Item) -> None:
        _filled(made, rows, columns, lambda i, j: a[i, j])
        status[0] = number(0)
        with _each(min(rows, columns)) as k:
            pivots[k] = k.astype(KIND)
            with _each(rows, k + 1) as i:
                best = made[pivots[k].astype("int32"), k]
                pivots[k] = _choose(tirx.abs(made[i, k]) > tirx.abs(best), i.astype(KIND), pivots[k])
            at = pivots[k].astype("int32")
            with _each(columns) as j:
                status[1] = made[k, j]
                made[k, j] = made[at, j]
                made[at, j] = status[1]
            pivots[k] = pivots[k] + number(1)
            status[0] = _choose(
                tirx.all(status[0] == number(0), made[k, k] == number(0)), (k + 1).astype(KIND), status[0]
            )
            with _each(rows, k + 1) as i:
                made[i, k] = _choose(made[k, k] == number(0), made[i, k], made[i, k] / made[k, k])
                with _each(columns, k + 1) as j:
                    made[i, j] = made[i, j] - made[i, k] * made[k, j]

    return body


def row_order(rows: int, count: int) -> Body:
    """The matrix that puts rows back into the order they had before as many pivots as ``count``."""

    def body(pivots: Item, made: Item, room: Item) -> None:
        with _each(rows) as i:
            room[i] = i.astype(KIND)
        with _each(count) as k:
            at = pivots[k].astype("int32") - 1
            room[rows] = room[k]
            room[k] = room[at]
            room[at] = room[rows]
        _filled(made, rows, rows, lambda i, j: _choose(room[j] == i.astype(KIND), number(1), number(0)))

    return body


def root(size: int) -> Body:
    """``potrf``: the lower factor of Cholesky's, and the number of the first pivot that is not above 0."""

    def body(a: Item, made: Item, status: Item) -> None:
        status[0] = number(0)
        _filled(made, size, size, lambda i, j: _choose(i < j, number(0), a[i, j]))
        with _each(size) as j:
            with _each(size, j) as i, _each(j) as t:
                made[i, j] = made[i, j] - made[i, t] * made[j, t]
            wrong = tirx.Not(made[j, j] > number(0))
            status[0] = _choose(tirx.all(status[0] == number(0), wrong), (j + 1).astype(KIND), status[0])
            made[j, j] = tirx.sqrt(made[j, j])
            with _each(size, j + 1) as i:
                made[i, j] = made[i, j] / made[j, j]

    return body


def forward(rows: int, columns: int) -> Body:
    """``trsm``: what a lower triangle makes the right side of."""

    def body(a: Item, b: Item, made: Item) -> None:
        with _each(rows) as i, _each(columns) as j:
            made[i, j] = b[i, j]
            with _each(i) as t:
                made[i, j] = made[i, j] - a[i, t] * made[t, j]
            made[i, j] = made[i, j] / a[i, i]

    return body


def reflections(rows: int, columns: int) -> Body:
    """``geqrf``: an upper triangle with Householder's vectors below, and their factors."""

    def body(a: Item, made: Item, factors: Item, room: Item) -> None:
        _filled(made, rows, columns, lambda i, j: a[i, j])
        with _each(min(rows, columns)) as k:
            room[0] = number(0)
            with _each(rows, k + 1) as i:
                room[0] = room[0] + made[i, k] * made[i, k]
            head, none = made[k, k], room[0] == number(0)
            length = tirx.sqrt(head * head + room[0])
            room[1] = _choose(none, head, _choose(head > number(0), -length, length))
            factors[k] = _choose(none, number(0), (room[1] - head) / room[1])
            with _each(rows, k + 1) as i:
                made[i, k] = _choose(none, number(0), made[i, k] / (head - room[1]))
            made[k, k] = room[1]
            with _each(columns, k + 1) as j:
                _reflect(made, made, factors[k], room, k, j, rows)

    return body


def _reflect(vectors: Item, x: Item, factor: Any, room: Item, k: Any, j: Any, rows: int) -> None:
    """Column j of ``x`` by the reflection of column k of ``vectors``, whose first element is a 1 that is not there."""
    room[2] = x[k, j]
    with _each(rows, k + 1) as i:
        room[2] = room[2] + vectors[i, k] * x[i, j]
    room[2] = room[2] * factor
    x[k, j] = x[k, j] - room[2]
    with _each(rows, k + 1) as i:
        x[i, j] = x[i, j] - vectors[i, k] * room[2]


def reflected(rows: int, columns: int, count: int) -> Body:
    """``orgqr``: the first columns of a product of reflections."""

    def body(vectors: Item, factors: Item, made: Item, room: Item) -> None:
        _filled(made, rows, columns, _unit)
        with _each(count) as back, _each(columns) as j:
            k = count - 1 - back
            _reflect(vectors, made, factors[k], room, k, j, rows)

    return body


def symmetric(size: int) -> Body:
    """``syev``: eigenvalues in order and their vectors, by Jacobi's turns; takes the lower triangle."""

    def body(a: Item, values: Item, vectors: Item, work: Item, room: Item) -> None:
        _filled(work, size, size, lambda i, j: _choose(i < j, a[j, i], a[i, j]))
        _filled(vectors, size, size, _unit)
        with _each(SWEEPS), _each(size) as p, _each(size, p + 1) as q:
            _turn(room, work[p, p], work[q, q], work[p, q])
            _columns(work, room, p, q, size)
            with _each(size) as i:
                room[2] = work[p, i]
                work[p, i] = room[0] * room[2] - room[1] * work[q, i]
                work[q, i] = room[1] * room[2] + room[0] * work[q, i]
            _columns(vectors, room, p, q, size)
        with _each(size) as i:
            values[i] = work[i, i]
        _sort(values, [(vectors, size)], room, size, down=False)

    return body


def _turn(room: Item, first: Any, last: Any, between: Any) -> None:
    """Cosine and sine of the angle that makes ``between`` 0, as the first two of ``room``."""
    room[2] = (last - first) / (number(2) * between)
    size = number(1) / (tirx.abs(room[2]) + tirx.sqrt(room[2] * room[2] + number(1)))
    room[2] = _choose(between == number(0), number(0), _choose(room[2] < number(0), -size, size))
    room[0] = number(1) / tirx.sqrt(room[2] * room[2] + number(1))
    room[1] = room[2] * room[0]


def _columns(x: Item, room: Item, p: Any, q: Any, rows: int) -> None:
    """Turn columns p and q."""
    with _each(rows) as i:
        room[2] = x[i, p]
        x[i, p] = room[0] * room[2] - room[1] * x[i, q]
        x[i, q] = room[1] * room[2] + room[0] * x[i, q]


def _sort(values: Item, sets: Sequence[tuple[Item, int]], room: Item, count: int, down: bool) -> None:
    """Bring values, and columns with them, into order."""
    with _each(count) as i, _each(count, i + 1) as j:
        room[0] = _choose(values[i] < values[j] if down else values[j] < values[i], number(1), number(0))
        swaps = room[0] == number(1)
        room[1] = values[i]
        values[i] = _choose(swaps, values[j], values[i])
        values[j] = _choose(swaps, room[1], values[j])
        for columns, rows in sets:
            with _each(rows) as k:
                room[1] = columns[k, i]
                columns[k, i] = _choose(swaps, columns[k, j], columns[k, i])
                columns[k, j] = _choose(swaps, room[1], columns[k, j])


def singular(rows: int, columns: int) -> Body:
    """``gesvj``: singular values in order, their right vectors, and the matrix times these; rows are no fewer."""

    def body(a: Item, values: Item, vectors: Item, work: Item, room: Item) -> None:
        _filled(work, rows, columns, lambda i, j: a[i, j])
        _filled(vectors, columns, columns, _unit)
        with _each(SWEEPS), _each(columns) as p, _each(columns, p + 1) as q:
            for at in (3, 4, 5):
                room[at] = number(0)
            with _each(rows) as i:
                room[3] = room[3] + work[i, p] * work[i, p]
                room[4] = room[4] + work[i, q] * work[i, q]
                room[5] = room[5] + work[i, p] * work[i, q]
            _turn(room, room[3], room[4], room[5])
            _columns(work, room, p, q, rows)
            _columns(vectors, room, p, q, columns)
        with _each(columns) as j:
            values[j] = number(0)
            with _each(rows) as i:
                values[j] = values[j] + work[i, j] * work[i, j]
            values[j] = tirx.sqrt(values[j])
        _sort(values, [(vectors, columns), (work, rows)], room, columns, down=True)

    return body
