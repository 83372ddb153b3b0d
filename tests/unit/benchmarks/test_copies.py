"""``bench seams``: kernels in which cores write pieces, and what is said of their times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.seams import figures
from benchmarks.seams.copy import Copy
from workers.tvm_backend.warm import warm


@pytest.mark.parametrize("between", [True, False])
def test_every_place_is_written(between: bool, tmp_path: Path) -> None:
    warm("llvm")
    import tvm

    from workers.tvm_backend.build.builder import build_program
    from workers.tvm_backend.build.local_model import local_target

    kernel, library = Copy(2, 3, 128, between), tmp_path / "copy.so"
    build_program(kernel.module(), tvm.target.Target(local_target("cpu:2").to_json()), library)
    given = np.arange(2 * 3 * 128 // 4, dtype=np.float32)
    x, y = tvm.runtime.tensor(given), tvm.runtime.tensor(np.zeros_like(given))
    tvm.runtime.load_module(str(library))["main"](x, y)
    assert np.array_equal(y.numpy(), given + given)


def test_a_piece_costs_the_difference_over_their_number() -> None:
    turns = [[[3e-6, 1e-6], [2e-6, 1e-6]]] * 9 + [[[9e-6, 1e-6], [2e-6, 1e-6]]] * 9
    report = figures.report((64, 128), 640, turns, {})
    (short, long) = report.rows
    found = dict(zip(report.columns, short, strict=True))
    assert (found["piece, bytes"], found["pieces"]) == (64, 10)
    assert found["a piece, ns, low"] == pytest.approx(200.0)
    assert found["a piece, ns, high"] == pytest.approx(800.0)
    assert dict(zip(report.columns, long, strict=True))["a piece, ns, high"] == pytest.approx(200.0)
