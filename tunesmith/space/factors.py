"""Ordered factorisations of an integer, numbered without listing them.

An extent of 2**20 * 3**12 split five ways has hundreds of millions of ordered factorisations, so no table of them
is kept. A factorisation is numbered by its innermost factor d and, for the rest extent / d, by one composition of
each prime's exponent over the outer parts: a mixed-radix number that is decoded for a whole batch at once.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MAX_EXTENT = 2**40
"""Beyond it trial division and the tables of compositions would be felt."""


def prime_factors(n: int) -> dict[int, int]:
    """Primes of ``n`` >= 1 with their exponents, smallest first; trial division."""
    found: dict[int, int] = {}
    p = 2
    while p * p <= n:
        while n % p == 0:
            found[p] = found.get(p, 0) + 1
            n //= p
        p += 1 if p == 2 else 2
    if n > 1:
        found[n] = found.get(n, 0) + 1
    return found


def divisors(primes: dict[int, int], limit: int) -> list[int]:
    """The divisors that are at most ``limit``, sorted."""
    found = [1]
    for p, e in primes.items():
        found = [d * p**k for d in found for k in range(e + 1) if d * p**k <= limit]
    return sorted(found)


def compositions(total: int, parts: int) -> Ints:
    """All ways to write ``total`` as an ordered sum of ``parts`` terms >= 0, int64 [C(total+parts-1, parts-1), parts].

    Stars and bars: a composition is the gaps between ``parts - 1`` bars among ``total + parts - 1`` places.
    """
    places = list(itertools.combinations(range(total + parts - 1), parts - 1))
    bars = np.array(places, dtype=np.int64).reshape(len(places), parts - 1)
    ends = np.full((len(bars), 1), total + parts - 1, dtype=np.int64)
    edges = np.concatenate([np.full_like(ends, -1), bars, ends], axis=1)
    return np.diff(edges, axis=1) - 1


class _Prime:
    """Compositions of every exponent 0..most of one prime over ``parts`` parts, one after another."""

    def __init__(self, most: int, parts: int) -> None:
        tables = [compositions(e, parts) for e in range(most + 1)]
        self.count = np.array([len(t) for t in tables], dtype=np.int64)
        self.start = np.cumsum(self.count) - self.count
        self.rows = np.concatenate(tables)
        self._radix = (most + 1) ** np.arange(parts, dtype=np.int64)
        keys = self.rows @ self._radix
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def position(self, exponents: Ints) -> Ints:
        """The row of each composition; the caller has checked that it exists."""
        return self._order[np.searchsorted(self._keys, exponents @ self._radix)]


@functools.lru_cache(maxsize=256)
def _prime_table(most: int, parts: int) -> _Prime:
    return _Prime(most, parts)


class Factorizations:
    """The ordered factorisations of ``extent`` into ``parts`` factors whose last is at most ``max_innermost``.

    With a single part the only one is ``(extent,)``, whatever the limit.

    Attributes:
        size: how many there are.
        primes: the extent's primes, int64 [k].
    """

    def __init__(self, extent: int, parts: int, max_innermost: int) -> None:
        self.extent, self.parts = extent, parts
        powers = prime_factors(extent)
        self.primes = np.array(list(powers), dtype=np.int64)
        self._raised = [np.array([p**n for n in range(e + 1)], dtype=np.int64) for p, e in powers.items()]
        self._divisors = np.array(divisors(powers, extent), dtype=np.int64)
        self._powers = (
            np.stack([_exponent(self._divisors, p, e) for p, e in powers.items()])
            if powers
            else np.zeros((0, 1), dtype=np.int64)
        )
        self._inner = np.array(divisors(powers, max_innermost) if parts > 1 else [extent], dtype=np.int64)
        self._exponents = self._powers[:, np.searchsorted(self._divisors, extent // self._inner)].T
        self._tables = [_prime_table(e, max(parts - 1, 1)) for e in powers.values()]
        counts = [math.prod(int(t.count[e]) for t, e in zip(self._tables, row, strict=True)) for row in self._exponents]
        self.size = sum(counts)
        if self.size >= 2**62:
            raise ValueError(f"{extent} has too many factorisations into {parts} parts")
        self._start = np.cumsum([0, *counts[:-1]], dtype=np.int64)

    def decode(self, index: Ints) -> Ints:
        """Factors of each number, int64 [n, parts]."""
        if self.parts == 1:
            return np.full((len(index), 1), self.extent, dtype=np.int64)
        which = np.searchsorted(self._start, index, side="right") - 1
        rest = index - self._start[which]
        out = np.ones((len(index), self.parts), dtype=np.int64)
        out[:, -1] = self._inner[which]
        for k, table in enumerate(self._tables):
            e = self._exponents[which, k]
            rest, digit = np.divmod(rest, table.count[e])
            out[:, :-1] *= self._raised[k][table.rows[table.start[e] + digit]]
        return out

    def encode(self, factors: Ints) -> Ints:
        """Inverse of :meth:`decode`.

        Raises:
            ValueError: when a row is not one of these factorisations.
        """
        where = self._find(factors)
        if self.parts == 1:
            return np.zeros(len(factors), dtype=np.int64)
        which, outer = where[:, -1], where[:, :-1]  # the divisors begin with those that may be innermost
        number = np.zeros(len(factors), dtype=np.int64)
        scale = np.ones(len(factors), dtype=np.int64)
        for powers, exponents, table in zip(self._powers, self._exponents.T, self._tables, strict=True):
            e = exponents[which]
            number += scale * (table.position(powers[outer]) - table.start[e])
            scale *= table.count[e]
        return number + self._start[which]

    def _find(self, factors: Ints) -> Ints:
        """Each factor's place among the divisors.

        Raises:
            ValueError: when a row is not one of these factorisations.
        """
        shaped = factors.ndim == 2 and factors.shape[1] == self.parts
        if not shaped or not (np.prod(factors, axis=1, dtype=np.float64) == self.extent).all() or (factors < 1).any():
            raise ValueError(f"{factors.tolist()[:3]} is not a split of {self.extent} into {self.parts} factors")
        if (factors[:, -1] > self._inner[-1]).any():
            raise ValueError(f"the innermost factor must be at most {self._inner[-1]} in {factors.tolist()[:3]}")
        return np.searchsorted(self._divisors, factors)

    @functools.cached_property
    def _every_move(self) -> Ints:
        pairs = [(p, i, j) for p in self.primes for i, j in itertools.permutations(range(self.parts), 2)]
        return np.array(pairs, dtype=np.int64).reshape(-1, 3)

    def moves(self, factors: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Every move of one prime from one factor to another, and which apply to each row.

        Returns:
            moves int64 [m, 3] (prime, from, to) and applicable bool [n, m]; the innermost limit is respected.
        """
        moves = self._every_move
        fits = factors[:, moves[:, 1]] % moves[:, 0] == 0
        grown = factors[:, -1:] * moves[:, 0]
        return moves, fits & ((moves[:, 2] != self.parts - 1) | (grown <= self._inner[-1]))


def _exponent(values: Ints, prime: int, most: int) -> Ints:
    """How often ``prime`` divides each value, counted up to ``most``."""
    out = np.zeros(values.shape, dtype=np.int64)
    left = values.copy()
    for _ in range(most):
        divides = left % prime == 0
        out += divides
        left = np.where(divides, left // prime, left)
    return out
