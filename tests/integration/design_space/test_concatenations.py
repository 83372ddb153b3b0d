from __future__ import annotations

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pair_tasks import ZNVER4, between, check
from rule_checks import own

from tunesmith.analysis.nest import Extent, Kind, Product
from tunesmith.unmeasured import Source
from workers.tvm_backend.warm import warm

warm("llvm")

from tvm import te, topi  # noqa: E402

from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.design_space.rules.pieces import Pieces, pieces  # noqa: E402
from workers.tvm_backend.design_space.rules.stages import find  # noqa: E402
from workers.tvm_backend.design_space.unmeasured import choose  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def of_blocks(*counts: int, size: tuple[int, int] = (6, 6), lanes: int = 32, scaled: bool = True) -> Extracted:
    """Maps of bfloat16 behind one another, so many blocks of each; scaled by channel, and a rectifier."""
    parts = [(1, count, *size, lanes) for count in counts]
    scale = (1, sum(counts), 1, 1, lanes)

    def compute(*given: te.Tensor) -> te.Tensor:
        whole = topi.concatenate(given[: len(parts)], 1)
        if scaled:
            whole = topi.add(topi.multiply(whole, given[-2]), given[-1])
        return topi.nn.relu(whole)

    return between(compute, parts, [scale, scale] if scaled else [])


@FEW
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.sampled_from([8, 16, 32]),
    st.booleans(),
)
def test_maps_behind_one_another(counts: list[int], size: tuple[int, int], lanes: int, scaled: bool) -> None:
    assert check(of_blocks(*counts, size=size, lanes=lanes, scaled=scaled), each=2) >= 1


@pytest.mark.parametrize(("counts", "pieces"), [((2, 1), 3), ((4, 2), 3), ((4, 4, 8), 4)])
def test_a_concatenation_is_understood(counts: tuple[int, ...], pieces: int) -> None:
    """A piece is as long as the operands allow; together they are read as one tensor, each element once."""
    task = of_blocks(*counts)
    bodies = own(task, ZNVER4)
    nests = space.TraceSpace(task.module, ZNVER4, bodies).nests
    assert bodies
    for body in bodies:
        nest = nests.nest(body.hash, ())
        assert nest is not None
        reading = nest.blocks[0]
        assert next(loop.extent for loop in reading.loops if loop.kind is Kind.UNROLLED) == Extent.of(Product(pieces))
        maps = [
            nest.buffers[read.buffer].shape for read in reading.reads if nest.buffers[read.buffer].element_bytes == 2
        ]
        assert maps == [(1, sum(counts), 6, 6, 32)]


def test_a_concatenation_has_a_schedule_without_measurement() -> None:
    task = of_blocks(2, 1, 1)
    found = choose(("concat", task.workload.hash), task.module, ZNVER4, space.generate(task.module, ZNVER4))
    assert found.source is Source.ESTIMATED
    assert "unroll" in str(found.trace).lower()


def test_a_concatenation_of_too_many_pieces_is_left_to_others() -> None:
    task = of_blocks(5, 2, scaled=False)
    stages = find(Replayer(task.module, ZNVER4).fresh())
    assert stages is not None
    assert pieces(stages, most=7) == Pieces(axis=1, count=7)
    assert pieces(stages, most=6) is None
