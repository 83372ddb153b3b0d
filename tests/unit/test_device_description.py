from __future__ import annotations

import pytest

from tunesmith.analysis.device import describe_cpu


def test_a_cpu_of_which_little_is_known() -> None:
    little, measured = (
        describe_cpu(4, 32, 16),
        describe_cpu(2, 64, 32, peak_flops=5e11, bandwidth=4e10, cache_sizes=(32768, 1 << 20, 1 << 24)),
    )
    assert little.lanes(4) == 8
    assert little.clock == pytest.approx(3e9)
    assert len(little.caches) == 3
    assert measured.clock == pytest.approx(5e11 / (2 * 2 * 2 * 16))
    assert [cache.size for cache in measured.caches] == [32768, 1 << 20, 1 << 24]
