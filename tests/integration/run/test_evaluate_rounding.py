"""Whole models: those that round may fall on the other side of a half and no further, and no NaN gets lost."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tunesmith.measuring.agreement import TOLERANCE
from tunesmith.measuring.checked import CheckState, judge
from tunesmith.types import FailureKind, TensorSpec, Values
from workers.protocol import ModelOutcome, ModelRequest
from workers.tvm_backend.build import linking
from workers.tvm_backend.run.compare_models import compare

pytestmark = pytest.mark.servers

SHAPE = (256, 256)


def library(path: Path, factor: float, last: str = "round") -> Path:
    """A model that rounds ``factor`` times its input, in sixteen steps, or whose ``last`` operator is another one."""
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            scaled = builder.emit(relax.op.multiply(x, relax.const(factor, "float32")))
            if last == "keep numbers":
                lost = builder.emit(relax.op.isnan(scaled))
                out = builder.emit_output(relax.op.where(lost, relax.const(0.0, "float32"), scaled))
            elif last == "nonzero":
                out = builder.emit_output(relax.op.nonzero(builder.emit(relax.op.round(scaled))))
            else:
                out = builder.emit_output(getattr(relax.op, last)(scaled))
        builder.emit_func_output(out)
    made = tvm.compile(builder.get(), target=tvm.target.Target("llvm"))
    made.export_library(str(path), fcompile=linking.export_for_measurement)
    return path


def outcome(
    folder: Path,
    factor: float,
    untuned: float = 8.0,
    last: tuple[str, str] = ("round", "round"),
    rounds_otherwise: bool = False,
) -> ModelOutcome:
    """What comes of a model whose input may hold NaN."""
    from tvm import rpc

    session = rpc.LocalSession()
    paths = [
        library(folder / name, value, how)
        for name, value, how in zip(("untuned.so", "tuned.so"), (untuned, factor), last, strict=True)
    ]
    given = TensorSpec("float32", SHAPE, "x", Values(-1.0, 1.0, special=True))
    request = ModelRequest(paths[0], paths[1], None, (given,), 0, 0.01, 60.0, None, rounds_otherwise)
    return compare(session, session.cpu(0), request, contextlib.nullcontext)


def test_a_rounding_that_falls_the_other_way_is_right(tmp_path: Path) -> None:
    found = outcome(tmp_path, 8.0001)
    assert found.error == pytest.approx(1 / 16, rel=0.1)
    assert found.error <= found.tolerance == pytest.approx(2 * found.error, rel=0.1)


def test_wrong_steps_are_wrong(tmp_path: Path) -> None:
    found = outcome(tmp_path, 8.1)
    assert found.error == pytest.approx(1 / 16, rel=0.1)
    assert found.tolerance == TOLERANCE


def test_who_rounds_other_values_may_be_off_by_what_these_are_off_by(tmp_path: Path) -> None:
    assert outcome(tmp_path, 8.02).tolerance == TOLERANCE
    found = outcome(tmp_path, 8.02, rounds_otherwise=True)
    assert found.error == pytest.approx(1 / 16, rel=0.1)
    assert found.error <= found.tolerance == pytest.approx(2 * found.error, rel=0.1)
    assert outcome(tmp_path, 8.2, rounds_otherwise=True).tolerance == TOLERANCE


def test_outputs_that_are_the_same_for_every_input_check_nothing(tmp_path: Path) -> None:
    found = outcome(tmp_path, 0.02, untuned=0.01)  # all of it rounds to zero
    assert (found.error, found.signal) == (0.0, 0.0)
    assert judge(found.error, found.tolerance, found.signal) is CheckState.NOTHING_CHECKED
    found = outcome(tmp_path, 8.0)
    assert judge(found.error, found.tolerance, found.signal) is CheckState.AGREE


def test_who_loses_a_nan_is_wrong(tmp_path: Path) -> None:
    found = outcome(tmp_path, 8.0, last=("negative", "negative"))
    assert (found.failure, found.error) == (None, 0.0)
    found = outcome(tmp_path, 8.0, last=("abs", "keep numbers"))
    assert found.failure is FailureKind.WRONG_RESULT
    assert found.message == "a NaN in an input is lost, in the tuned model only"


def test_the_inputs_may_decide_how_many_outputs_there_are(tmp_path: Path) -> None:
    last = ("nonzero", "nonzero")
    found = outcome(tmp_path, 8.0, last=last)
    assert (found.failure, found.error, found.signal) == (None, 0.0, 1.0)
