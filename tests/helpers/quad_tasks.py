"""Products of quads of bytes as tasks, with their epilogue in a quantised model, and what NumPy makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import rule_checks
from numpy.typing import NDArray
from run_once import compiled

from tunesmith.targets import Target

import tvm  # isort: skip
from tvm import relax  # isort: skip

from workers.tvm_backend import tir
from workers.tvm_backend.passes import extract_tasks, pipeline
from workers.tvm_backend.passes.extract_tasks import Extracted
from workers.tvm_backend.passes.layout import byte_compute, packing, row_words
from workers.tvm_backend.passes.layout.blocks import Blocks
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.narrow_compute import OUT_ELEMENTWISE, PATTERN

Array = NDArray[Any]
ZERO = 9
"""The code of zero."""


class Case:
    """A product and the rounding to codes.

    Attributes:
        task: as one task.
        arrays: its arguments without the result.
        expected: NumPy's codes.
    """

    def __init__(
        self,
        function: Any,
        operands: Sequence[Array],
        options: Sequence[Any],
        sums: Array,
        rectified: bool = False,
    ) -> None:
        """``sums`` are the expected ones, the channels in the last axis, in the order in which they lie.

        ``rectified``: numbers are made of the sums first, and a rectifier is between them and the codes.
        """
        rng = np.random.default_rng(1)
        self._made_of = function, operands, options, sums
        channels = _channels(function, sums.shape)
        zeros = rng.integers(-1000, 1000, channels).astype(np.int32)
        zeros = zeros.astype(np.float32) if function is row_words.depthwise_conv2d_quads else zeros
        scales = (rng.uniform(0.5, 1, channels) * 90 / sums.std()).astype(np.float32)
        bordered = [np.float32(ZERO)] if options else []
        self.arrays = [*operands, *bordered, zeros, scales, *([np.float32(0.75)] if rectified else []), np.float32(30)]
        self.task = _task(function, self.arrays, options, rectified)
        values = (sums - zeros).astype(np.float32) * scales
        values = np.maximum(values, 0) * np.float32(0.75) if rectified else values
        self.expected = np.rint(np.clip(values + 30, 0, 255)).astype(np.uint8)

    def rectified(self) -> Case:
        """The same product with a rectifier."""
        return Case(*self._made_of, rectified=True)

    def run(self, mod: Any, target: Target) -> Array:
        """What a module computes."""
        out = tvm.runtime.tensor(np.zeros(self.expected.shape, np.uint8))
        given = [tvm.runtime.tensor(np.asarray(each, order="C")) for each in self.arrays]
        compiled(mod, target.to_json())["main"](*given, out)
        found: Array = out.numpy()
        return found

    def check(self) -> int:
        """Every sketch of ours makes NumPy's codes, but for halves that are rounded otherwise; how many there are."""
        mods = rule_checks.scheduled(self.task, rule_checks.here(), each=1)
        for mod in mods:
            apart = np.abs(self.run(mod, rule_checks.here()).astype(int) - self.expected)
            assert apart.max() <= 1
            assert (apart > 0).mean() < 0.01
        return len(mods)


def depthwise(image: tuple[int, int, int, int], lanes: int = LANES) -> Case:
    """A 3×3 depthwise convolution with a border; ``image`` is N, C, H, W, channels in blocks of ``lanes``; 1: plain."""
    x, w = _operands(image, (image[1], 1, 3, 3))
    bordered = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=ZERO).astype(np.int64)
    sums = sum(
        bordered[:, :, i : i + image[2], j : j + image[3]] * w[None, :, 0, i, j, None, None].astype(np.int64)
        for i in range(3)
        for j in range(3)
    )
    operands = [packing.feature_map(x, lanes), packing.depthwise_quads(w, lanes)]
    sums = packing.feature_map(np.asarray(sums), lanes)
    if lanes == 1:
        operands[0], sums = operands[0].squeeze(-1), sums.squeeze(-1)
    return Case(row_words.depthwise_conv2d_quads, operands, ((1,) * 4,), sums)


def _channels(function: Any, sums: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to that of sums and has an element for each channel."""
    if function is byte_compute.group_matmul_quads:
        return (*sums[:2], 1)
    if len(sums) == 5:
        return sums[1], 1, 1, sums[4]
    return (sums[1], 1, 1) if function is row_words.depthwise_conv2d_quads else sums[-1:]


def _task(function: Any, arrays: Sequence[Any], options: Sequence[Any], rectified: bool) -> Extracted:
    inputs = [
        relax.Var(f"a{at}", relax.TensorType(list(each.shape), str(each.dtype))) for at, each in enumerate(arrays)
    ]
    operands, epilogue = (inputs[:-4], inputs[-4:]) if rectified else (inputs[:-3], inputs[-3:])
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            attrs = {PATTERN: OUT_ELEMENTWISE}
            y = builder.emit(
                builder.call_te(
                    function, *operands, *options, primfunc_name_hint=function.__name__, primfunc_attrs=attrs
                )
            )
            if rectified:
                y = builder.emit(relax.op.nn.relu(builder.emit_te(byte_compute.scaled, y, *epilogue[:2])))
                y = builder.emit_output(builder.call_te(byte_compute.to_codes, y, *epilogue[2:], 255))
            else:
                y = builder.emit_output(builder.call_te(byte_compute.requantized, y, *epilogue, 255))
        builder.emit_func_output(y)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", json.dumps([str(each.name) for each in inputs]))
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
    return found


def _operands(source: tuple[int, ...], weight: tuple[int, ...]) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, source, np.uint8), rng.integers(-127, 128, weight, np.int8)


def dense(rows: tuple[int, ...], columns: int, depth: int, lanes: int = LANES) -> Case:
    """A dense layer."""
    x, w = _operands((*rows, depth), (depth, columns))
    operands = [x.reshape(*rows, depth // 4, 4), packing.panel_quads(w, lanes)]
    return Case(byte_compute.matmul_quads, operands, (), x.astype(np.int64) @ w.astype(np.int64))


def of_groups(groups: int, rows: int, depth: int, pixels: int) -> Case:
    """A 1×1 convolution of groups, as a product for each."""
    x, w = _operands((groups, depth, pixels), (groups, rows, depth))
    return Case(byte_compute.group_matmul_quads, [packing.product_quads(w), x], (), w.astype(np.int64) @ x)


def convolution(
    image: tuple[int, int, int, int],
    outs: int,
    kernel: int,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    widest: int = LANES,
    spare: int = 0,
) -> Case:
    """A convolution in blocks of up to ``widest`` channels; ``image`` is N, C, H, W; four channels are a quad.

    ``spare`` blocks more are computed than the result has.
    """
    x, w = _operands(image, (outs, image[1] // groups, kernel, kernel))
    inner, lanes = min(Blocks(widest).lanes(image[1]), image[1]), Blocks(widest).lanes(outs)
    top, left, bottom, right = padding
    bordered = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=ZERO).astype(np.int64)
    high, wide = (
        (size - gap * (kernel - 1) - 1) // step + 1
        for size, gap, step in zip(bordered.shape[2:], dilation, stride, strict=True)
    )
    sums = np.zeros((image[0], outs, high, wide), np.int64)
    for group, part in enumerate(np.split(bordered, groups, axis=1)):
        mine = slice(group * outs // groups, (group + 1) * outs // groups)
        for i in range(kernel):
            for j in range(kernel):
                rows, columns = i * dilation[0], j * dilation[1]
                window = part[
                    :, :, rows : rows + high * stride[0] : stride[0], columns : columns + wide * stride[1] : stride[1]
                ][:, :, :high, :wide]
                sums[:, mine] += np.einsum("nchw,oc->nohw", window, w[mine, :, i, j].astype(np.int64))
    blocked = x.reshape(image[0], -1, inner, *image[2:]).transpose(0, 1, 3, 4, 2)
    options: tuple[Any, ...] = (stride, padding, dilation)
    if groups > 1:
        packed, function = packing.group_quads(w, groups, 1, inner, lanes), byte_compute.group_conv2d_quads
    else:
        blocks = -(-outs // lanes)
        packed, function = packing.conv2d_quads(w, inner, lanes, blocks + spare), byte_compute.conv2d_quads
        options = (*options, *([blocks] if spare else []))
    return Case(function, [blocked, packed], options, packing.feature_map(sums, lanes))


def assembly(case: Case, target: Target) -> str:
    """The compiled code of a candidate of our first sketch."""
    mod = rule_checks.scheduled(case.task, target, each=1)[0]
    return str(tvm.compile(mod, target=tir.tvm_target(target)).mod.inspect_source("asm"))
