from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tunesmith.space.likeness import apart

SHAPES = st.lists(st.lists(st.integers(0, 4096), min_size=2, max_size=2), min_size=2, max_size=2)


def test_extents_count_by_how_many_times_they_differ() -> None:
    assert apart([(4, 8), (8,)], [(8, 8), (2,)]) == 1 + 2
    assert apart([(16, 1)], [(4, 4)]) == 4, "although both have as many elements"


def test_arguments_of_other_ranks_or_numbers_are_as_far_apart_as_can_be() -> None:
    assert apart([(4, 8)], [(4, 8, 1)]) == math.inf
    assert apart([(4, 8)], [(4, 8), (4,)]) == math.inf


@given(SHAPES, SHAPES, SHAPES)
def test_it_is_a_distance(a: list[list[int]], b: list[list[int]], c: list[list[int]]) -> None:
    assert apart(a, a) == 0
    assert apart(a, b) == apart(b, a)
    assert apart(a, c) <= apart(a, b) + apart(b, c) + 1e-9
