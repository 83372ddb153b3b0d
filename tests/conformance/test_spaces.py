from __future__ import annotations

from tunesmith.space.space import Space
from tunesmith.testing.spaces import SpaceConformance
from tunesmith.testing.synthetic import huge_space, matmul_space, one_point_space, tiny_space


class TestMatmul(SpaceConformance):
    def space(self) -> Space:
        return matmul_space()


class TestTiny(SpaceConformance):
    def space(self) -> Space:
        return tiny_space()


class TestOnePoint(SpaceConformance):
    def space(self) -> Space:
        return one_point_space()


class TestHuge(SpaceConformance):
    def space(self) -> Space:
        return huge_space()
