"""How much work the slow properties and the long sweeps do."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

THOROUGH = os.environ.get("TUNESMITH_TESTS") == "thorough"
SEED = 7
Case = TypeVar("Case")


def examples(thorough: int) -> int:
    """How many examples a slow property gets: a sixth of ``thorough``, or all with ``TUNESMITH_TESTS=thorough``."""
    return thorough if THOROUGH else max(2, thorough // 6)


def quick(target: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """LLVM without its own optimisations, which take longer than all else where a small program runs once.

    TVM's passes and schedules are what they are. With ``TUNESMITH_TESTS=thorough`` everything is optimised.

    Args:
        target: what else is to be said of it; a mere ``llvm`` without.
    """
    return {"kind": "llvm", **(target or {}), **({} if THOROUGH else {"opt-level": 0})}


def one_kind(_: object) -> None:
    """The kind of each where all are of one kind."""


def some(
    cases: Iterable[Case], kind: Callable[[Case], Hashable] = one_kind, each: int = 1, thorough: bool = THOROUGH
) -> list[Case]:
    """A sample of a sweep, in its order, the same at every run; all of it with ``TUNESMITH_TESTS=thorough``.

    Args:
        kind: what a case shows. Cases of one kind differ in sizes or seeds alone, so that one stands for the others.
        each: cases that stay of every kind.
    """
    every = list(cases)
    if thorough:
        return every
    numbers: dict[Hashable, list[int]] = {}
    for number, case in enumerate(every):
        numbers.setdefault(kind(case), []).append(number)
    rng = random.Random(SEED)
    kept = {number for group in numbers.values() for number in rng.sample(group, min(each, len(group)))}
    return [case for number, case in enumerate(every) if number in kept]
