"""The first candidates of an operator, by who proposes them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.guides import study
from benchmarks.guides.study import Measured
from tunesmith.errors import TargetUnavailable
from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.core import guide
from workers.tvm_backend.host import describe

pytestmark = pytest.mark.servers


def test_first_candidates_are_built_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "draw_operators", lambda *_: [parse_operator("gemm:16x32x48")])
    if not guide.known("matmul", Target(describe().target)):
        with pytest.raises(TargetUnavailable, match="AVX-512"):
            list(study.measured(1, 0))
        return
    (found,) = study.measured(1, 0)
    assert found.spec == "gemm:16x32x48:float32"
    assert len(found.static) == len(found.both) == max(study.MEASUREMENTS)
    assert found.static[0] == found.both[0], "the static model has the first place"
    assert np.isfinite([found.best, found.chosen]).all()
    assert found.spec in study.line(found)


def test_a_processor_that_nothing_was_learned_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "draw_operators", lambda *_: [parse_operator("gemm:16x32x48")])
    monkeypatch.setattr(guide, "AVX512", 1024)
    with pytest.raises(TargetUnavailable, match="AVX-512"):
        list(study.measured(1, 0))


def test_ratios_are_of_the_best_that_ran() -> None:
    slow, fast = np.array([np.inf, 4.0, 3.0, 2.0]), np.array([np.inf, 2.0, 8.0, 1.0])
    found = [Measured("a", slow, fast, 4.0, 2.0), Measured("b", slow, slow, 4.0, 4.0)]
    assert [found[0].ratio(first) for first in (1, 2, 4)] == [0.5, 2 / 3, 0.5]
    report = study.report(found, {})
    choice, first, *_ = (dict(zip(report.columns, row, strict=True)) for row in report.rows)
    assert choice["ratio"] == first["ratio"] == round(np.sqrt(0.5), 3)
    assert (choice["faster"], choice["slower"], choice["worst"]) == (1, 0, 1.0)
