from __future__ import annotations

from tunesmith.allocate.bandit import BanditAllocator
from tunesmith.allocate.even import EvenAllocator
from tunesmith.allocate.familyseer import FamilySeerAllocator
from tunesmith.allocate.gradient import GradientAllocator
from tunesmith.allocate.random import RandomAllocator
from tunesmith.allocate.registry import ALLOCATORS
from tunesmith.allocate.round_robin import RoundRobinAllocator
from tunesmith.allocate.static import StaticAllocator
from tunesmith.testing.allocators import AllocatorConformance


class TestRoundRobin(AllocatorConformance):
    allocator = RoundRobinAllocator


class TestGradient(AllocatorConformance):
    allocator = GradientAllocator


class TestBandit(AllocatorConformance):
    allocator = BanditAllocator


class TestFamilySeer(AllocatorConformance):
    allocator = FamilySeerAllocator


class TestStatic(AllocatorConformance):
    allocator = StaticAllocator


class TestRandom(AllocatorConformance):
    allocator = RandomAllocator


class TestEven(AllocatorConformance):
    allocator = EvenAllocator


def test_every_allocator_is_checked() -> None:
    checked = {cls.allocator for cls in AllocatorConformance.__subclasses__()}
    assert checked == set(ALLOCATORS.values())
