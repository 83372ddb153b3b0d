from __future__ import annotations

from effort import some

CASES = [(letter, size) for letter in "abc" for size in range(5)]


def test_a_sample_has_every_kind_and_is_the_same_each_time() -> None:
    found = some(CASES, kind=lambda case: case[0], each=2, thorough=False)
    assert [letter for letter, _ in found] == ["a", "a", "b", "b", "c", "c"]
    assert found == sorted(set(found))
    assert found == some(CASES, kind=lambda case: case[0], each=2, thorough=False)


def test_a_kind_with_few_cases_keeps_them_and_a_thorough_run_has_all() -> None:
    assert some(CASES, kind=lambda case: case, each=3, thorough=False) == CASES
    assert some(iter(CASES), kind=lambda case: case[0], thorough=True) == CASES
