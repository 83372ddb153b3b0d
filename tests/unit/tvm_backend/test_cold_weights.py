"""The ring of copies that a kernel's weights are read from: how many there are, and which run gets which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workers.tvm_backend.run.cold_weights import LARGEST, Ring, copies, ring_limit
from workers.tvm_backend.warm import warm

MIB = 1 << 20


@pytest.mark.parametrize(
    ("own", "model", "count"),
    [
        (4, 100, 16),  # as far apart as the largest ring is long
        (4, 40, 10),  # as in the model
        (7, 20, 3),
        (40, 100, 2),  # one alone would be found where it was left
        (64, 100, 1),  # no cache holds it
        (12, 13, 2),
        (12, 12, 1),  # the model has no others
    ],
)
def test_a_ring_is_as_long_as_the_models_weights(own: int, model: int, count: int) -> None:
    assert copies(own * MIB, model * MIB, 64 * MIB) == count


def test_a_ring_is_longer_than_what_the_caches_hold_but_bounded() -> None:
    assert 0 < ring_limit() <= LARGEST


class Recorder:
    """A library whose kernel notes where its arguments lie."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []

    def __getitem__(self, name: str) -> Any:
        assert name == "main"
        return lambda *given: self.seen.append(list(given))


def test_each_run_reads_the_next_copy_of_the_weights_and_the_same_of_everything_else() -> None:
    warm("c")
    import tvm

    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, dtype=np.float32) for shape in ((5,), (3, 100), (7,), (5,))]
    given = [tvm.runtime.tensor(array) for array in arrays]
    ring, library = Ring(largest=1 << 20), Recorder()
    own = 4 * (300 + 7)
    assert ring.run(library, "main", 5, 2, 4 * own, "1,2", *given) > 0
    assert len(library.seen) == 7
    for call in library.seen:
        assert [call[place].same_as(given[place]) for place in range(4)] == [True, False, False, True]
        for place in range(4):
            np.testing.assert_array_equal(call[place].numpy(), arrays[place])
    ring.run(library, "main", 1, 0, 4 * own, "1,2", *given)
    turns = [next(i for i, other in enumerate(library.seen) if other[1].same_as(call[1])) for call in library.seen]
    assert turns == [0, 1, 2, 3, 0, 1, 2, 3]  # the next call goes on where the last one ended


def test_a_workload_of_other_weights_has_a_ring_of_its_own() -> None:
    warm("c")
    import tvm

    ring, library = Ring(largest=1 << 20), Recorder()
    for size in (64, 128):
        weights = tvm.runtime.tensor(np.full(size, size, dtype=np.float32))
        ring.run(library, "main", 2, 0, 8 * size, "0", weights)
    assert [call[0].numpy().tolist() for call in library.seen] == [[64.0] * 64] * 2 + [[128.0] * 128] * 2
