"""Allocators by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tunesmith.allocate.bandit import BanditAllocator
from tunesmith.allocate.base import Allocator
from tunesmith.allocate.familyseer import FamilySeerAllocator
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.random import RandomAllocator
from tunesmith.allocate.round_robin import RoundRobinAllocator
from tunesmith.allocate.static import StaticAllocator
from tunesmith.errors import UnknownAllocator

ALLOCATORS: Mapping[str, Callable[..., Allocator]] = {
    "round-robin": RoundRobinAllocator,
    "gradient": GradientAllocator,
    "bandit": BanditAllocator,
    "familyseer": FamilySeerAllocator,
    "static": StaticAllocator,
    "random": RandomAllocator,
}


def check_allocator(name: str) -> str:
    """``name``, when there is such an allocator.

    Raises:
        UnknownAllocator: naming those that there are.
    """
    if name not in ALLOCATORS:
        raise UnknownAllocator(
            f"there is no allocator {name!r}; accepted are {', '.join(ALLOCATORS)}", field="allocator", value=name
        )
    return name


def make_allocator(name: str, seed: int) -> Allocator:
    """A fresh allocator.

    Raises:
        UnknownAllocator: see :func:`check_allocator`.
    """
    return ALLOCATORS[check_allocator(name)](seed=seed)
