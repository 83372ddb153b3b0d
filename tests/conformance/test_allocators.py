from __future__ import annotations

from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.registry import ALLOCATORS
from tunesmith.allocate.round_robin import RoundRobinAllocator
from tunesmith.testing.allocators import AllocatorConformance


class TestRoundRobin(AllocatorConformance):
    allocator = RoundRobinAllocator


class TestGradient(AllocatorConformance):
    allocator = GradientAllocator


def test_every_allocator_is_checked() -> None:
    checked = {cls.allocator for cls in AllocatorConformance.__subclasses__()}
    assert checked == set(ALLOCATORS.values())
