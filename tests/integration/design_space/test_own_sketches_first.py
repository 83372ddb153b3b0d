"""TVM's sketches are looked at only where none of our own comes close to what can be."""

from __future__ import annotations

import pytest

from tunesmith.targets import Target
from tunesmith.unmeasured import Source
from workers.tvm_backend.warm import warm

warm("llvm")

from benchmarks.harness.operators import load  # noqa: E402
from workers.tvm_backend.design_space import unmeasured  # noqa: E402
from workers.tvm_backend.design_space.nests.derive import Nests  # noqa: E402
from workers.tvm_backend.design_space.space import is_generated  # noqa: E402

pytestmark = pytest.mark.parallel
TARGET = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


@pytest.mark.parametrize(("spec", "close"), [("gemm:256x256x256", True), ("conv2d:1x68x31x31,24x68x1x1,s1,p0", False)])
def test_only_a_space_whose_own_sketches_are_far_from_the_limit_is_looked_at_whole(
    spec: str, close: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = load(spec, TARGET)
    bodies = list(operator.bodies.values())
    generated = {body.hash for body in bodies if is_generated(body)}
    assert 0 < len(generated) < len(bodies)
    asked, real = set[str](), Nests.nest

    def nest(self: Nests, sketch: str, decided: tuple[int, ...]) -> object:
        asked.add(sketch)
        return real(self, sketch, decided)

    monkeypatch.setattr(Nests, "nest", nest)
    answer = unmeasured.choose((spec, operator.task.workload.hash), operator.task.module, TARGET, bodies)
    assert answer.source is Source.ESTIMATED
    assert asked - generated
    assert not asked & generated if close else generated <= asked


def test_an_offer_of_ours_that_does_not_apply_is_followed_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = load("gemm:256x256x256", TARGET)
    bodies, seen = list(operator.bodies.values()), list[int]()

    def nothing(traces: object, means: object, relatives: object, close: float) -> list[object]:
        seen.append(len(traces.space.sketches))  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(unmeasured, "_offers", nothing)
    answer = unmeasured.choose(("gemm", operator.task.workload.hash), operator.task.module, TARGET, bodies)
    assert answer.source is Source.DEFAULT
    assert seen == [sum(not is_generated(body) for body in bodies), len(bodies)]
