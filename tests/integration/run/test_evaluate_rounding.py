"""Whole models that round: their outputs may fall on the other side of a half, and no further."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tunesmith.measuring.agreement import TOLERANCE
from tunesmith.measuring.checked import CheckState, judge
from tunesmith.types import TensorSpec
from workers.protocol import ModelOutcome, ModelRequest
from workers.tvm_backend.build import linking
from workers.tvm_backend.run.compare_models import compare

pytestmark = pytest.mark.pair

SHAPE = (256, 256)


def library(path: Path, factor: float) -> Path:
    """A model that rounds ``factor`` times its input, in sixteen steps."""
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            scaled = builder.emit(relax.op.multiply(x, relax.const(factor, "float32")))
            out = builder.emit_output(relax.op.round(scaled))
        builder.emit_func_output(out)
    made = tvm.compile(builder.get(), target=tvm.target.Target("llvm"))
    made.export_library(str(path), fcompile=linking.export_for_measurement)
    return path


def outcome(folder: Path, factor: float, untuned: float = 8.0) -> ModelOutcome:
    from tvm import rpc

    session = rpc.LocalSession()
    paths = [library(folder / name, value) for name, value in (("untuned.so", untuned), ("tuned.so", factor))]
    request = ModelRequest(paths[0], paths[1], None, (TensorSpec("float32", SHAPE, "x"),), 0, 0.01, 60.0)
    return compare(session, session.cpu(0), request, contextlib.nullcontext)


def test_a_rounding_that_falls_the_other_way_is_right(tmp_path: Path) -> None:
    found = outcome(tmp_path, 8.0001)
    assert found.error == pytest.approx(1 / 16, rel=0.1)
    assert found.error <= found.tolerance == pytest.approx(2 * found.error, rel=0.1)


def test_wrong_steps_are_wrong(tmp_path: Path) -> None:
    found = outcome(tmp_path, 8.1)
    assert found.error == pytest.approx(1 / 16, rel=0.1)
    assert found.tolerance == TOLERANCE


def test_outputs_that_are_the_same_for_every_input_check_nothing(tmp_path: Path) -> None:
    found = outcome(tmp_path, 0.02, untuned=0.01)  # all of it rounds to zero
    assert (found.error, found.signal) == (0.0, 0.0)
    assert judge(found.error, found.tolerance, found.signal) is CheckState.NOTHING_CHECKED
    found = outcome(tmp_path, 8.0)
    assert judge(found.error, found.tolerance, found.signal) is CheckState.AGREE
