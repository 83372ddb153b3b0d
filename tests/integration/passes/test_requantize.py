"""Sums of codes that become codes in one step, and where that takes two."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_nets import calls, run_network

from tunesmith.preparation import Preparation
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend.passes import pipeline  # noqa: E402

pytestmark = pytest.mark.parallel

Array = NDArray[Any]
INT8 = Preparation(blocked=True, fast_math=True, int8=True)
FLOAT = Preparation(blocked=True, fast_math=True)
SOURCE, STEP, RESULT = 0.05, 0.01, 0.25
"""Scales of the input, of the weights and of the result."""
CHANNELS = 32
IMAGE = (1, 16, 6, 7)
Emit = Callable[[relax.Expr], relax.Var]


def number(value: float) -> relax.Expr:
    """A constant in float32."""
    return relax.const(np.float32(value), "float32")


def quantised(emit: Emit, x: relax.Expr, scale: float, zero: int) -> relax.Var:
    """``x`` on a grid, as importers write it."""
    steps = emit(relax.op.round(emit(relax.op.multiply(x, number(1 / scale)))))
    return emit(relax.op.multiply(emit(relax.op.clip(steps, -zero, 255 - zero)), number(scale)))


def network(
    bias: Array | None,
    zero: int = 0,
    between: Callable[[relax.Expr], relax.Expr] | None = None,
    both: bool = False,
    weight: Array | None = None,
) -> tvm.IRModule:
    """A quantised convolution with ``bias``, and ``between`` on it before it is quantised.

    Args:
        zero: the result's code of zero.
        both: the network also returns what is quantised.
    """
    weight = weights() if weight is None else weight
    x, builder = relax.Var("x", relax.TensorType(list(IMAGE), "float32")), relax.BlockBuilder()
    with builder.function("main", [x], {"input_names": '["x"]', "num_input": 1}):
        with builder.dataflow():
            codes = quantised(builder.emit, x, SOURCE, 128)
            y = builder.emit(relax.op.nn.conv2d(codes, relax.const(weight.astype(np.float32)), padding=1))
            if bias is not None:
                y = builder.emit(relax.op.add(y, relax.const(bias.astype(np.float32).reshape(1, -1, 1, 1))))
            y = y if between is None else builder.emit(between(y))
            made = quantised(builder.emit, y, RESULT, zero)
            out = builder.emit_output(relax.Tuple([made, y]) if both else made)
        builder.emit_func_output(out)
    return builder.get()


def weights(channels: int = CHANNELS) -> Array:
    """Whole steps of one scale."""
    found: Array = np.random.default_rng(0).integers(-127, 128, (channels, IMAGE[1], 3, 3)) * STEP
    found[:, 0, 0, 0] = 127 * STEP
    return found


def ways(mod: tvm.IRModule, numbers: bool = True) -> collections.Counter[str]:
    """How often sums become codes in one step, and how often numbers come first; the result is float32's."""
    made = pipeline.prepare(mod, INT8)
    if numbers:
        x = np.random.default_rng(1).uniform(-6, 6, IMAGE).astype(np.float32)
        for ours, theirs in zip(run_network(made, x), run_network(pipeline.prepare(mod, FLOAT), x), strict=True):
            apart = np.abs(ours - theirs)
            assert apart.max() < 1.01 * RESULT
            assert (apart > RESULT / 50).mean() < 0.02
    return collections.Counter(
        way for name in calls(made.module) for way in re.findall(r"requantized|scaled", name) if "quads" in name
    )


def drawn(scale: float = 1.0) -> Array:
    """Biases up to 12 times ``scale``, of no grid."""
    return np.random.default_rng(2).uniform(-12, 12, CHANNELS) * scale


ONE, TWO = {"requantized": 1}, {"scaled": 1}


@pytest.mark.parametrize("zero", [0, 100])
def test_scale_bias_and_the_new_scale_are_one_step(zero: int) -> None:
    whole = np.rint(drawn() / (SOURCE * STEP)) * SOURCE * STEP
    for bias in (None, whole, drawn()):
        assert ways(network(bias, zero)) == ONE


def test_lanes_beyond_the_channels_are_no_obstacle() -> None:
    assert ways(network(drawn()[:24], weight=weights(24))) == ONE


def test_a_bias_between_coarse_steps_is_added_to_numbers() -> None:
    coarse = weights() * 500
    assert ways(network(drawn(), weight=coarse)) == TWO
    assert ways(network(np.rint(drawn()) * SOURCE * STEP * 500, weight=coarse)) == ONE


def test_a_bias_that_no_sum_can_hold_is_added_to_numbers() -> None:
    bias = drawn()
    bias[3] = 2.0**31 * SOURCE * STEP
    assert ways(network(bias)) == TWO
    bias[3] = np.nan
    assert ways(network(bias), numbers=False) == TWO


def test_channels_without_weights_keep_their_bias() -> None:
    weight = weights()
    weight[::3] = 0
    assert ways(network(drawn(), weight=weight)) == ONE


@pytest.mark.parametrize(
    ("between", "zero", "found"),
    [
        (relax.op.nn.relu, 0, ONE),
        (relax.op.nn.relu, 10, TWO),
        (lambda y: relax.op.clip(y, -25, 38.75), 100, ONE),
        (lambda y: relax.op.clip(y, -25, 30), 100, TWO),
        (lambda y: relax.op.clip(y, -20, 40), 100, TWO),
        (relax.op.abs, 0, TWO),
    ],
    ids=["rectifier at zero", "rectifier within", "clip at both ends", "clip below", "clip above", "another operator"],
)
def test_bounds_that_codes_have_anyway_are_left_out(
    between: Callable[[relax.Expr], relax.Expr], zero: int, found: dict[str, int]
) -> None:
    assert ways(network(drawn(), zero, between)) == found


def test_numbers_that_others_read_are_made() -> None:
    assert ways(network(drawn(), both=True)) == TWO


def test_what_differs_between_pixels_is_no_bias() -> None:
    pixels = relax.const(np.random.default_rng(3).uniform(-9, 9, (1, CHANNELS, *IMAGE[2:])).astype(np.float32))
    assert ways(network(None, between=lambda y: relax.op.add(y, pixels))) == TWO
