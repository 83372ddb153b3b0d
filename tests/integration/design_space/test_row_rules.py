from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from run_once import compiled

from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import te, topi  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.design_space.rules.base import Rule  # noqa: E402
from workers.tvm_backend.design_space.rules.elementwise import Elementwise  # noqa: E402
from workers.tvm_backend.design_space.rules.machine import cpu_model_of  # noqa: E402
from workers.tvm_backend.design_space.rules.rows import Rows  # noqa: E402
from workers.tvm_backend.design_space.rules.windows import Depthwise, Pooling  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402
from workers.tvm_backend.passes.layout import compute  # noqa: E402
from workers.tvm_backend.passes.softmax import softmax_rows  # noqa: E402

pytestmark = pytest.mark.parallel

FEW = settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
NEON = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 4})
MOST_SKETCHES = 6
columns = st.one_of(st.integers(2, 40), st.sampled_from([48, 64, 128, 197]))
image = st.integers(3, 18)


@functools.cache
def here() -> Target:
    return Target(describe().target)


def tensor(*shape: int, name: str = "x") -> te.Tensor:
    return te.placeholder([tvm.tirx.IntImm("int64", extent) for extent in shape], "float32", name)


def program(*args: te.Tensor) -> Extracted:
    """The task of a tensor expression; the output is the last argument."""
    mod = tvm.IRModule({"main": te.create_prim_func(list(args))})
    arguments = extract_tasks.arguments(mod)
    assert arguments is not None
    return extract_tasks.describe(mod, "program", arguments)


def operator(spec: str) -> Extracted:
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(import_model.operator_module(parse_operator(spec))).module)
    return found


def sketches(task: Extracted, rule: Rule, target: Target) -> list[space.SketchBody]:
    replayer, found = Replayer(task.module, target), {}
    for variant in rule.variants(replayer.fresh(), cpu_model_of(target)):
        sch = replayer.fresh()
        variant(sch)
        body = space.sketch_body(sch, replayer, ())
        found[body.hash] = body
    assert len(found) <= MOST_SKETCHES
    return list(found.values())


def run(mod: Any, task: Extracted) -> np.ndarray[Any, Any]:
    arrays = [tvm.runtime.tensor(random_array(spec, at)) for at, spec in enumerate(task.workload.args)]
    compiled(mod, here().to_json())["main"](*arrays)
    return arrays[-1].numpy()


def check(task: Extracted, rule: Rule, each: int = 2) -> int:
    """Every sketch gives right results, whatever is decided; returns how many there are."""
    rng, bodies = np.random.default_rng(0), sketches(task, rule, here())
    expected = run(tir.load_module(task.module), task)
    for body in bodies:
        made = space.TraceSpace(task.module, here(), [body])
        resolved, valid = made.resolve(made.space.sample(rng, each))
        assert valid.all()
        for candidate in made.space.candidates(resolved):
            sch = Replayer(task.module, here()).replay(body, candidate.decisions)
            np.testing.assert_allclose(run(sch.mod, task), expected, rtol=2e-5, atol=2e-5)
    return len(bodies)


def softmax(x: te.Tensor) -> te.Tensor:
    return topi.nn.fast_softmax(x, -1)


def attention_scores(x: te.Tensor) -> te.Tensor:
    """Scale, mask, softmax."""
    mask = tensor(*([1] * (len(x.shape) - 1)), int(x.shape[-1]), name="mask")
    return softmax(topi.add(topi.multiply(x, tvm.tirx.const(0.125, "float32")), mask))


def norm_and_more(x: te.Tensor) -> te.Tensor:
    scale, shift = (tensor(int(x.shape[-1]), name=name) for name in ("scale", "shift"))
    made = topi.nn.layer_norm(x, scale, shift, [len(x.shape) - 1])
    return topi.multiply(topi.add(made, x), topi.fast_tanh(made))


def root_mean_square(x: te.Tensor) -> te.Tensor:
    return topi.nn.rms_norm(x, tensor(int(x.shape[-1]), name="weight"), [len(x.shape) - 1])


ROW_PROGRAMS: tuple[Callable[[te.Tensor], te.Tensor], ...] = (
    softmax,
    softmax_rows,
    attention_scores,
    norm_and_more,
    root_mean_square,
    lambda x: topi.nn.log_softmax(x),
    lambda x: topi.sum(x, -1),
    lambda x: topi.max(x, -1, keepdims=True),
    lambda x: topi.nn.relu(topi.divide(topi.sum(x, -1), tvm.tirx.const(7.0, "float32"))),
)


def free(made: te.Tensor) -> list[te.Tensor]:
    """The placeholders of a tensor expression, each once, in a fixed order."""
    found: dict[str, te.Tensor] = {}
    left = [made]
    while left:
        one = left.pop()
        left.extend(one.op.input_tensors)
        if isinstance(one.op, te.PlaceholderOp):
            found[one.op.name] = one
    return [found[name] for name in sorted(found)]


def test_rows_that_were_lengthened_are_copied_without_a_test_for_each_element() -> None:
    x = tensor(3, 197)
    task = program(x, softmax_rows(x))
    for body in sketches(task, Rows(), here()):
        made = space.TraceSpace(task.module, here(), [body])
        (candidate,) = made.space.candidates(made.space.sample(np.random.default_rng(0), 1))
        script = Replayer(task.module, here()).replay(body, candidate.decisions).mod.script()
        assert "if_then_else" not in script
        assert "T.vectorized" in script


@FEW
@given(st.sampled_from(ROW_PROGRAMS), st.lists(st.integers(1, 7), min_size=1, max_size=3), columns)
def test_programs_over_rows_of_any_shape(made: Callable[..., te.Tensor], rows: list[int], width: int) -> None:
    out = made(tensor(*rows, width))
    assert check(program(*free(out), out), Rows()) >= 1


@FEW
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9))
def test_sums_along_two_axes_of_any_shape(rows: int, height: int, width: int) -> None:
    assume(height * width > 1)
    x = tensor(rows, height, width)
    assert check(program(x, topi.sum(x, (1, 2))), Rows()) >= 1


@FEW
@given(image, image, st.sampled_from([1, 3, 5]), st.integers(1, 2), st.integers(0, 2), st.integers(1, 2), st.booleans())
def test_depthwise_convolutions_in_blocks(
    height: int, width: int, kernel: int, stride: int, padding: int, dilation: int, epilogue: bool
) -> None:
    window = dilation * (kernel - 1) + 1
    x, w = tensor(2, 2, max(height, window), max(width, window), 16), tensor(2, kernel, kernel, 16, name="w")
    out = compute.depthwise_conv2d_blocked(x, w, (stride, stride), (padding,) * 4, (dilation, dilation))
    bias = tensor(1, 2, 1, 1, 16, name="bias")
    args = [x, w, bias, topi.nn.relu(topi.add(out, bias))] if epilogue else [x, w, out]
    assert check(program(*args), Depthwise()) >= 1


@FEW
@given(st.integers(1, 20), image, image, st.sampled_from([1, 3, 5]), st.integers(1, 2), st.integers(0, 2))
def test_depthwise_convolutions_of_any_shape(
    channels: int, height: int, width: int, kernel: int, stride: int, padding: int
) -> None:
    spec = f"depthwise:1x{channels + 1}x{height + 4}x{width + 4},k{kernel},s{stride},p{padding}"
    assert check(operator(spec), Depthwise()) >= 1


@FEW
@given(
    st.integers(1, 20),
    image,
    image,
    st.sampled_from([1, 3, 5]),
    st.integers(1, 2),
    st.integers(0, 2),
    st.integers(1, 2),
    st.booleans(),
)
def test_depthwise_convolutions_whose_rows_are_cut(
    channels: int, height: int, width: int, kernel: int, down: int, padding: int, dilation: int, epilogue: bool
) -> None:
    window = dilation * (kernel - 1) + 1
    x, w = tensor(2, channels, max(height, window), max(width, window)), tensor(channels, 1, kernel, kernel, name="w")
    made = compute.depthwise_conv2d_rows(x, w, down, (padding,) * 4, (dilation, dilation))
    plain = topi.nn.group_conv2d_nchw(x, w, (down, 1), padding, dilation, channels)
    task, expected = program(x, w, made), program(x, w, plain)
    found = run(tir.load_module(task.module), task)
    np.testing.assert_allclose(found, run(tir.load_module(expected.module), expected), rtol=2e-5, atol=2e-5)
    bias = tensor(1, channels, 1, 1, name="bias")
    assert check(program(x, w, bias, topi.nn.relu(topi.add(made, bias))) if epilogue else task, Depthwise()) >= 1


@FEW
@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), image, st.sampled_from([1, 3]))
def test_convolutions_of_several_groups(groups: int, inputs: int, outputs: int, side: int, kernel: int) -> None:
    x = te.placeholder((1, groups * inputs, side, side + 1), "float32", "x")
    w = te.placeholder((groups * outputs, inputs, kernel, kernel), "float32", "w")
    assert check(program(x, w, topi.nn.group_conv2d_nchw(x, w, 1, kernel // 2, 1, groups)), Depthwise()) >= 1


@FEW
@given(
    st.sampled_from(["max", "avg"]),
    st.booleans(),
    image,
    image,
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 1),
    st.booleans(),
)
def test_pools_of_any_shape(
    kind: str, blocked: bool, height: int, width: int, kernel: int, stride: int, padding: int, activation: bool
) -> None:
    x = tensor(1, 3, height + 3, width + 3, *([16] if blocked else []))
    out = topi.nn.pool2d(
        x,
        [kernel] * 2,
        [stride] * 2,
        [1, 1],
        [min(padding, kernel - 1)] * 4,
        kind,
        layout="NCHW16c" if blocked else "NCHW",
        count_include_pad=False,
    )
    assert check(program(x, topi.nn.relu(out) if activation else out), Pooling()) >= 1


@FEW
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_means_of_planes(channels: int, height: int, width: int, blocked: bool) -> None:
    assume(height * width > 1)
    x = tensor(1, channels, height, width, *([16] if blocked else []))
    out = topi.nn.adaptive_pool(x, (1, 1), "avg", "NCHW16c" if blocked else "NCHW")
    assert check(program(x, out), Pooling() if blocked else Rows()) >= 1


@FEW
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), columns, st.booleans())
def test_activations_of_any_shape(rows: list[int], width: int, vector: bool) -> None:
    x, y = tensor(*rows, width), tensor(*([] if vector else rows), width, name="y")
    made = topi.add(x, y)
    assert check(program(x, y, topi.multiply(made, topi.fast_erf(topi.fast_tanh(made)))), Elementwise()) >= 1


@FEW
@given(st.integers(1, 40), image, image)
def test_conversions_of_layouts(channels: int, height: int, width: int) -> None:
    x = tensor(1, channels, height, width)
    assert check(program(x, compute.to_blocked(x)), Elementwise()) >= 1
    y = tensor(1, -(-channels // 16), height, width, 16)
    assert check(program(y, compute.to_plain(y, channels)), Elementwise()) >= 1


@FEW
@given(st.permutations(range(4)), st.lists(st.sampled_from([1, 3, 8, 16, 20]), min_size=4, max_size=4))
def test_transposes_and_reshapes_of_any_shape(order: list[int], shape: list[int]) -> None:
    x = tensor(*shape)
    made = topi.transpose(x, order)
    assert check(program(x, made), Elementwise()) >= 1
    flat = topi.reshape(made, (int(made.shape[0]) * int(made.shape[1]), int(made.shape[2]) * int(made.shape[3])))
    assert check(program(x, flat), Elementwise()) >= 1


@FEW
@given(st.integers(0, 2), st.lists(st.integers(1, 20), min_size=2, max_size=3), st.sampled_from([5, 16, 32]))
def test_concatenations_of_any_shape(axis: int, lengths: list[int], width: int) -> None:
    parts = [
        tensor(*(length if at == axis else width for at in range(3)), name=f"x{number}")
        for number, length in enumerate(lengths)
    ]
    assert check(program(*parts, topi.nn.relu(topi.concatenate(parts, axis))), Elementwise()) >= 1


@pytest.mark.parametrize("second", [272, 136, 3])
def test_narrow_maps_behind_one_another_are_one_run(second: int) -> None:
    """What a reshape left of groups, then other maps of 7 by 7, and a rectifier that names its value twice."""
    groups, others = tensor(4, 68, 49), tensor(1, second, 7, 7, name="others")
    whole = topi.concatenate([topi.reshape(groups, (1, 272, 7, 7)), others], 1)
    zero = tvm.tirx.const(0, "float32")
    rectified = te.compute(whole.shape, lambda *at: tvm.tirx.Select(whole[at] < zero, zero, whole[at]), name="relu")
    task = program(groups, others, rectified)
    (body,) = sketches(task, Elementwise(), here())
    assert '"ComputeAt"' not in body.trace, "each value is read where it is rectified"
    assert check(task, Elementwise()) == 1


def test_integers_are_left_to_the_compiler() -> None:
    x = te.placeholder([tvm.tirx.IntImm("int64", 64)], "int64", "x")
    task = program(x, topi.add(x, tvm.tirx.const(3, "int64")))
    (body,) = sketches(task, Elementwise(), here())
    assert "Vectorize" not in body.trace
    assert check(task, Elementwise()) == 1


def blocked_depthwise() -> Extracted:
    x, w = tensor(1, 2, 14, 14, 16), tensor(2, 3, 3, 16, name="w")
    return program(x, w, compute.depthwise_conv2d_blocked(x, w, (1, 1), (1, 1, 1, 1), (1, 1)))


def blocked_pool() -> Extracted:
    x = tensor(1, 2, 14, 14, 16)
    return program(x, topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1] * 4, "max", layout="NCHW16c"))


def activation() -> Extracted:
    x = tensor(8, 128)
    return program(x, topi.multiply(x, topi.fast_erf(x)))


def scores() -> Extracted:
    x = tensor(8, 128)
    return program(x, softmax(x))


def whole(body: space.SketchBody) -> list[Any]:
    """Decisions: no tile is divided."""
    return [(knob.extent, *[1] * (knob.parts - 1)) for knob in body.knobs]


MADE: tuple[tuple[Rule, Callable[[], Extracted]], ...] = (
    (Rows(), scores),
    (Depthwise(), blocked_depthwise),
    (Pooling(), blocked_pool),
    (Elementwise(), activation),
)


@pytest.mark.parametrize(("rule", "made"), MADE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("target", "register"), [(AVX512, "zmm"), (AVX2, "ymm"), (NEON, ".4s")])
def test_sketches_use_the_registers_of_their_target(
    rule: Rule, made: Callable[[], Extracted], target: Target, register: str
) -> None:
    task = made()
    bodies = sketches(task, rule, target)
    assert bodies
    assert bodies == sketches(task, rule, target), "deterministic"
    warm("llvm", target.triple)
    for body in bodies:
        sch = Replayer(task.module, target).replay(body, whole(body))
        text = tvm.compile(sch.mod, target=tir.tvm_target(target)).mod.inspect_source("asm")
        assert text.count(register) > 10


@pytest.mark.parametrize("spec", ["gemm:32x48x64", "dense:16x32x48", "bmm:2x8x16x32", "conv2d:1x3x8x8,16x3x3x3,s1,p1"])
def test_products_are_not_taken_for_rows_or_windows(spec: str) -> None:
    task = operator(spec)
    assert all(sketches(task, rule, here()) == [] for rule in (Rows(), Depthwise(), Pooling(), Elementwise()))


def test_a_softmax_along_another_axis_is_left_to_others() -> None:
    x = tensor(4, 16, 8)
    assert sketches(program(x, topi.nn.softmax(x, 1)), Rows(), here()) == []


def test_what_has_no_decision_elsewhere_gets_one() -> None:
    x, y = tensor(1, 8, 4, 4, name="x"), tensor(1, 8, 4, 4, name="y")
    task = program(x, y, topi.concatenate([x, y], 1))
    assert space.tunable(space.generate(task.module, here()))


def test_several_outputs_are_left_to_others() -> None:
    x = tensor(4, 16)
    once = topi.nn.relu(x)
    task = program(x, once, topi.add(once, x))
    assert sketches(task, Elementwise(), here()) == []
