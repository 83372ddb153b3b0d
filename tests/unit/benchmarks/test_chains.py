"""Products in a row: how they become a model, what their kernels take, and the table."""

from __future__ import annotations

import math

import onnx
import pytest

from benchmarks.chains import cases, figures
from benchmarks.chains.cases import LENGTH, Chain
from benchmarks.chains.comparison import ChainOutcome, by_step
from benchmarks.harness.comparison import Entry
from benchmarks.harness.limits import Level, Peak
from benchmarks.models import narrow, unmeasured
from benchmarks.models.comparison import ModelOutcome
from tunesmith.errors import InvalidInput, InvalidOperator, MeasurementFailed
from workers.peers.comparison import Result

PEAK = Peak(1e9, (Level("memory", math.inf, 1e9),), {"bf16": 2e9})
BACK_AND_FORTH = Chain(("gemm:8x64x32", "gemm:8x32x64"))


def entry(runtime, *milliseconds, **values):
    seconds = [each * 1e-3 for each in milliseconds]
    return Entry(runtime, None, Result(runtime, seconds, medians=seconds), **values)


@pytest.mark.parametrize("chain", cases.CHAINS, ids=lambda chain: chain.name)
def test_a_chain_is_a_model_that_onnx_accepts(chain):
    model = cases.model(cases.checked(chain))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node].count("Relu") == LENGTH


def test_operations_are_counted_by_step():
    chain = Chain(("conv2d:1x4x9x9,8x4x3x3,s1,p1", "conv2d:1x8x9x9,4x8x1x1,s1,p0"))
    assert chain.flops == (2.0 * 8 * 81 * 36, 2.0 * 4 * 81 * 8)
    assert BACK_AND_FORTH.flops == (2.0 * 8 * 64 * 32,) * 2
    assert BACK_AND_FORTH.name == "gemm:8x64x32 and gemm:8x32x64"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("gemm:8x64x32", InvalidInput, r"takes \[8, 32\], but the step before makes \[8, 64\]"),
        ("softmax:2x3x16", InvalidInput, "a chain has gemm and conv2d in float32"),
        ("gemm:8x8x8:bf16", InvalidInput, "in float32"),
        ("gemm:8x8", InvalidOperator, "gemm"),
    ],
)
def test_what_is_no_chain_is_refused(text, error, says):
    with pytest.raises(error, match=says):
        cases.chosen([text])


def test_kernels_are_told_by_step_without_the_ends():
    calls = [("to_pairs", [9.0])]
    for at in range(LENGTH):
        calls += [("one" if at % 2 == 0 else "two", [float(at), float(at), 99.0]), ("pad", [7.0])]
    assert by_step(BACK_AND_FORTH, calls, frozenset({"one", "two"})) == (3.0, 2.0)
    with pytest.raises(MeasurementFailed, match="3 products, not 6"):
        by_step(BACK_AND_FORTH, calls, frozenset({"two"}))


def test_the_table_has_a_row_for_each_product_and_type():
    ours, theirs = entry("tunesmith-bf16", 6.0, 6.0, 12.0), entry("openvino-default", 12.0, 8.0, 12.0)
    broken = Entry("onnxruntime-int8", None, Result("onnxruntime-int8", failure="does not start"))
    outcome = ChainOutcome(
        1.0,
        0.0,
        [ours, theirs, entry("tunesmith-int8", 3.0), broken],
        PEAK,
        model=BACK_AND_FORTH.name,
        passes=1,
        chain=BACK_AND_FORTH,
        kernels={"tunesmith-bf16": (32.768e-6, 16.384e-6)},
    )
    report = figures.build([outcome], {"CPU": "x"})
    one, two, three, _ = [dict(zip(report.columns, row, strict=True)) for row in report.rows]
    assert (one["operator"], one["type"], two["operator"]) == ("gemm:8x64x32", "bf16", "gemm:8x32x64")
    assert (one["at the peak µs"], one["kernel µs"]) == (pytest.approx(16.384), pytest.approx(32.768))
    assert (one["share of peak %"], two["share of peak %"]) == (pytest.approx(50.0), pytest.approx(100.0))
    assert (one["of a chain µs"], one["other µs"]) == (pytest.approx(1000.0), pytest.approx(2000.0))
    assert (one["fastest other"], one["ratio"], one["races"]) == ("openvino-default", "0.75", "0.50, 0.75, 1.00")
    assert (three["kernel µs"], three["ratio"], three["note"]) == (None, None, "onnxruntime-int8: does not start")


def test_unmeasured_models_stand_beside_tuned_ones():
    def outcome(name, *entries):
        return ModelOutcome(1.0, 1.0, list(entries), PEAK, model=name, passes=1)

    one = outcome("one", entry("tunesmith", 1.0, 2.0, 1.0), entry("tunesmith-unmeasured", 2.0, 3.0, 3.0))
    two = outcome("two", entry("tunesmith", 1.0), entry("tunesmith-unmeasured", 0.5, tuned_seconds=12.0))
    lines = unmeasured.text([one, two]).splitlines()
    assert "takes 2.00 times as long as `tunesmith` (races: 2.00, 1.50, 3.00)" in lines[0]
    assert "takes 0.50 times" in lines[1]
    assert lines[1].endswith("it took 12.0 s.")
    assert lines[2].endswith("geometric mean of 2 models: 1.00; worst 2.00.")
    assert unmeasured.text([outcome("three", entry("tunesmith", 1.0))]) == narrow.text([one]) == ""
