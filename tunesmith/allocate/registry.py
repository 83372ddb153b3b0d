"""Allocators by name."""

from __future__ import annotations

from collections.abc import Callable

from tunesmith.allocate.bandit import BanditAllocator
from tunesmith.allocate.base import Allocator
from tunesmith.allocate.even import EvenAllocator
from tunesmith.allocate.familyseer import FamilySeerAllocator
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.random import RandomAllocator
from tunesmith.allocate.round_robin import RoundRobinAllocator
from tunesmith.allocate.static import StaticAllocator
from tunesmith.errors import UnknownAllocator
from tunesmith.registry import Registry

ALLOCATORS: Registry[Callable[..., Allocator]] = Registry(
    "allocator",
    UnknownAllocator,
    {
        "round-robin": RoundRobinAllocator,
        "gradient": GradientAllocator,
        "bandit": BanditAllocator,
        "familyseer": FamilySeerAllocator,
        "static": StaticAllocator,
        "random": RandomAllocator,
        "even": EvenAllocator,
    },
)


def make_allocator(name: str, seed: int) -> Allocator:
    """A fresh allocator.

    Raises:
        UnknownAllocator: naming those that there are.
    """
    return ALLOCATORS[name](seed=seed)
