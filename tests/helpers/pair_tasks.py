"""Products of bfloat16 pairs as tasks, with what stands around them in a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import rule_checks
from run_once import compiled

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.targets import Target
from tunesmith.types import TensorSpec
from workers.tvm_backend.arguments import as_meant, random_array

import tvm  # isort: skip
from tvm import relax  # isort: skip

from workers.tvm_backend import tir
from workers.tvm_backend.passes import extract_tasks, pipeline
from workers.tvm_backend.passes.extract_tasks import Extracted
from workers.tvm_backend.passes.layout.compute import LANES, extent
from workers.tvm_backend.passes.layout.narrow_compute import (
    OUT_ELEMENTWISE,
    PATTERN,
    conv2d_pairs,
    from_bf16,
    group_conv2d_pairs,
    group_matmul_pairs,
    matmul_pairs,
    to_bf16,
)
from workers.tvm_backend.passes.layout.row_words import depthwise_conv2d_pairs
from workers.tvm_backend.passes.layout.winograd import TILE_OF_PAIRS, columns, conv2d_winograd_pairs
from workers.tvm_backend.passes.value_ranges.functions import Function
from workers.tvm_backend.passes.value_ranges.search import argument_specs

BITS, FLOAT = "uint16", "float32"
ZNVER4 = Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2})


def product(
    shapes: Sequence[tuple[int, ...]],
    compute: Callable[..., Any],
    options: Sequence[Any],
    bias: tuple[int, ...],
    out: tuple[int, ...],
    residual: bool = False,
    rounded: bool = True,
) -> Extracted:
    """A product of bits with bias and rectifier, as one task.

    Args:
        shapes: of the product's operands.
        compute, options: the tensor expression, and what it takes after the operands.
        bias, out: shapes.
        residual: bits of the result's shape are added before the rectifier.
        rounded: the result is bits, too.
    """
    kinds = [*((shape, BITS) for shape in shapes), (bias, FLOAT), *([(out, BITS)] if residual else [])]
    inputs = [relax.Var(f"a{at}", relax.TensorType(list(shape), kind)) for at, (shape, kind) in enumerate(kinds)]
    builder = relax.BlockBuilder()

    def call(function: Callable[..., Any], *args: Any, pattern: int = 0) -> Any:
        attrs = {PATTERN: pattern}
        return builder.emit(
            builder.call_te(function, *args, primfunc_name_hint=function.__name__, primfunc_attrs=attrs)
        )

    with builder.function("main", inputs):
        with builder.dataflow():
            y = call(compute, *inputs[: len(shapes)], *options, pattern=OUT_ELEMENTWISE)
            y = builder.emit(relax.op.add(y, inputs[len(shapes)]))
            if residual:
                y = builder.emit(relax.op.add(y, call(from_bf16, inputs[-1])))
            y = builder.emit(relax.op.nn.relu(y))
            y = builder.emit_output(call(to_bf16, y) if rounded else y)
        builder.emit_func_output(y)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", json.dumps([str(each.name) for each in inputs]))
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
    return found


def between(
    compute: Callable[..., Any], bits: Sequence[tuple[int, ...]], floats: Sequence[tuple[int, ...]] = ()
) -> Extracted:
    """A kernel that widens arguments, computes and rounds its result, as one task.

    Args:
        compute: from tensors to the result.
        bits, floats: shapes of the arguments that are bits, and of those that are float32, in order.
    """
    kinds = [*((shape, BITS) for shape in bits), *((shape, FLOAT) for shape in floats)]
    inputs = [relax.Var(f"a{at}", relax.TensorType(list(shape), kind)) for at, (shape, kind) in enumerate(kinds)]
    builder = relax.BlockBuilder()

    def whole(*given: Any) -> Any:
        return to_bf16(compute(*map(from_bf16, given[: len(bits)]), *given[len(bits) :]))

    with builder.function("main", inputs):
        with builder.dataflow():
            y = builder.emit_output(builder.call_te(whole, *inputs, primfunc_name_hint="between"))
        builder.emit_func_output(y)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", json.dumps([str(each.name) for each in inputs]))
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
    return found


def dense(rows: tuple[int, ...], panels: int, depth: int, lanes: int = LANES, **options: bool) -> Extracted:
    """A dense layer; ``depth`` counts pairs."""
    columns = panels * lanes
    shapes = [(*rows, depth, 2), (panels, depth, lanes, 2)]
    return product(shapes, matmul_pairs, (), (columns,), (*rows, columns), **options)


def of_groups(groups: int, rows: int, depth: int, pixels: int, fill: int = 2, **options: bool) -> Extracted:
    """A 1×1 convolution of groups, as a product for each; ``depth`` counts channels, up to a multiple of ``fill``."""
    shapes = [(groups, rows, -(-depth // fill) * fill // 2, 2), (groups, depth, pixels)]
    return product(shapes, group_matmul_pairs, (), (groups, rows, 1), (groups, rows, pixels), **options)


def depthwise(image: tuple[int, int, int, int]) -> Extracted:
    """A 3×3 depthwise convolution with a border; ``image`` is N, blocks, H, W."""
    shapes = [(*image, LANES), (image[1], 3, 2, LANES, 2)]
    options = ((1, 1, 1, 1),)
    return product(shapes, depthwise_conv2d_pairs, options, (1, image[1], 1, 1, LANES), (*image, LANES))


def plain_depthwise(image: tuple[int, int, int, int], **options: bool) -> Extracted:
    """The same of a plain map; ``image`` is N, C, H, W."""
    shapes = [image, (image[1], 3, 2, 1, 2)]
    return product(shapes, depthwise_conv2d_pairs, ((1, 1, 1, 1),), (1, image[1], 1, 1), image, **options)


def convolution(
    image: tuple[int, int, int, int],
    outs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    inner: int = LANES,
    groups: int = 1,
    lanes: int = LANES,
    spare: int = 0,
    **options: bool,
) -> Extracted:
    """A convolution from blocks of ``inner`` channels to ones of ``lanes``; ``image`` is N, blocks, H, W.

    ``spare`` blocks more are computed than the result has.
    """
    n, blocks, height, width = image
    high = extent(height, kernel[0], stride[0], padding[0::2], dilation[0])
    wide = extent(width, kernel[1], stride[1], padding[1::2], dilation[1])
    shapes = [(*image, inner), (outs + spare, blocks // groups, *kernel, inner // 2, lanes, 2)]
    compute = conv2d_pairs if groups == 1 else group_conv2d_pairs
    given = (stride, padding, dilation, *([outs] if spare else []))
    return product(shapes, compute, given, (1, outs, 1, 1, lanes), (n, outs, high, wide, lanes), **options)


def by_winograd(
    image: tuple[int, int, int, int], outs: int, padding: tuple[int, int, int, int], **options: bool
) -> Extracted:
    """A 3×3 convolution by Winograd's algorithm; ``image`` is N, blocks, H, W."""
    n, blocks, height, width = image
    high, wide = height + padding[0] + padding[2] - 2, width + padding[1] + padding[3] - 2
    size = TILE_OF_PAIRS + 2
    shapes = [(*image, LANES), (outs, size, size, blocks, LANES // 2, LANES, 2)]
    given = padding, columns(wide, TILE_OF_PAIRS, CpuModel())
    out = n, outs, high, wide, LANES
    return product(shapes, conv2d_winograd_pairs, given, (1, outs, 1, 1, LANES), out, **options)


def arguments(task: Extracted) -> tuple[TensorSpec, ...]:
    """A task's arguments with the values to draw for them."""
    return argument_specs(Function(tir.load_module(task.module)["main"]), task.workload.args)


def run(mod: Any, task: Extracted, target: Target) -> np.ndarray[Any, Any]:
    """What a module computes of fixed arguments, in float64."""
    specs = arguments(task)
    arrays = [tvm.runtime.tensor(random_array(spec, at)) for at, spec in enumerate(specs)]
    compiled(mod, target.to_json())["main"](*arrays)
    return as_meant(arrays[-1].numpy(), specs[-1]).astype("float64")


def check(task: Extracted, each: int = 1, more: Sequence[Any] = ()) -> int:
    """Every sketch of ours gives the default schedule's result but for one step of bfloat16; how many there were.

    Args:
        more: scheduled modules that have to give it, too.
    """
    here = rule_checks.here()
    expected = run(tir.load_module(task.module), task, here)
    mods = rule_checks.scheduled(task, here, each)
    step = 2.0**-7 if arguments(task)[-1].meaning != FLOAT else 1e-5
    for mod in (*mods, *more):
        np.testing.assert_allclose(run(mod, task, here), expected, rtol=step, atol=1e-5 * abs(expected).max())
    return len(mods)
