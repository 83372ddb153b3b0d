"""Workloads for design-space rules, and whether what a rule makes of one computes the same."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from effort import THOROUGH
from run_once import compiled

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
from tvm import relax  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.design_space.rules.base import Rule  # noqa: E402
from workers.tvm_backend.design_space.rules.dots import POSTPROC, tensorize  # noqa: E402
from workers.tvm_backend.design_space.rules.machine import cpu_model_of  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import Extracted  # noqa: E402
from workers.tvm_backend.passes.layout.compute import LANES, conv2d_blocked, group_conv2d_blocked, matmul_packed  # noqa: E402
from workers.tvm_backend.passes.layout.winograd import columns, conv2d_winograd  # noqa: E402

AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
NEON = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 4})


@functools.cache
def here() -> Target:
    """This host."""
    return Target(describe().target)


def operator(spec: str) -> Extracted:
    """A single operator's task."""
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(import_model.operator_module(parse_operator(spec))).module)
    return found


def fused(
    shapes: Sequence[tuple[int, ...]],
    anchor: Any,
    bias: tuple[int, ...],
    activation: str,
    residual: tuple[int, ...] | None,
    wrapped: bool = False,
) -> Extracted:
    """``anchor`` with bias, activation and residual behind it, as one task.

    Args:
        shapes: of the anchor's arguments.
        anchor: from a block builder and variables to what the builder emitted.
        bias, residual: their shapes; a residual is added last.
        activation: of ``relax.op.nn``.
        wrapped: the residual comes with one axis more, of a single element.
    """
    builder = relax.BlockBuilder()
    every = [*shapes, bias, *([(1, *residual) if wrapped else residual] if residual else [])]
    names = [f"a{at}" for at in range(len(every))]
    inputs = [
        relax.Var(name, relax.TensorType(list(shape), "float32")) for name, shape in zip(names, every, strict=True)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            y = builder.emit(relax.op.add(anchor(builder, *inputs[: len(shapes)]), inputs[len(shapes)]))
            y = builder.emit(getattr(relax.op.nn, activation)(y))
            if residual:
                last = builder.emit(relax.op.squeeze(inputs[-1], [0])) if wrapped else inputs[-1]
                y = builder.emit(relax.op.add(y, last))
            y = builder.emit_output(y)
        builder.emit_func_output(y)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("input_names", json.dumps(names))
    (found,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
    return found


def dense(
    rows: tuple[int, ...],
    columns: int,
    depth: int,
    activation: str = "relu",
    residual: bool = False,
    wrapped: bool = False,
) -> Extracted:
    """A dense layer, weights plain."""
    return fused(
        [(*rows, depth), (depth, columns)],
        lambda b, x, w: b.emit(relax.op.matmul(x, w)),
        (columns,),
        activation,
        (*rows, columns) if residual else None,
        wrapped,
    )


def dense_packed(
    rows: tuple[int, ...], panels: int, depth: int, activation: str = "relu", residual: bool = False, lanes: int = LANES
) -> Extracted:
    """A dense layer, weights in panels of ``lanes`` columns."""
    columns = panels * lanes
    return fused(
        [(*rows, depth), (panels, depth, lanes)],
        lambda b, x, w: b.emit_te(matmul_packed, x, w),
        (columns,),
        activation,
        (*rows, columns) if residual else None,
    )


def conv_blocked(
    image: tuple[int, int, int, int],
    outs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int] = (1, 1),
    activation: str = "relu",
    residual: bool = False,
    inner: int = LANES,
    groups: int = 1,
) -> Extracted:
    """A convolution in blocked layout.

    Args:
        image: N, blocks of input channels, H, W.
        outs: blocks of output channels.
        inner: channels of an input block.
        groups: of blocks.
    """
    n, blocks, height, width = image
    convolve = conv2d_blocked if groups == 1 else group_conv2d_blocked
    high, wide = (
        (size + before + after - gap * (k - 1) - 1) // step + 1
        for size, before, after, gap, k, step in zip(
            (height, width), padding[:2], padding[2:], dilation, kernel, stride, strict=True
        )
    )
    return fused(
        [(n, blocks, height, width, inner), (outs, blocks // groups, *kernel, inner, LANES)],
        lambda b, x, w: b.emit_te(convolve, x, w, stride, padding, dilation),
        (1, outs, 1, 1, LANES),
        activation,
        (n, outs, high, wide, LANES) if residual else None,
    )


def conv_winograd(
    image: tuple[int, int, int, int],
    outs: int,
    padding: tuple[int, int, int, int],
    m: int,
    activation: str = "relu",
    residual: bool = False,
    plain: bool = False,
) -> Extracted:
    """A 3×3 convolution in blocked layout by Winograd's algorithm.

    Args:
        image: N, blocks of input channels, H, W.
        outs: blocks of output channels.
        m: size of an output tile.
        plain: the input is not in blocks.
    """
    n, blocks, height, width = image
    high, wide = (
        size + before + after - 2 for size, before, after in zip((height, width), padding[:2], padding[2:], strict=True)
    )
    cols = columns(wide, m, CpuModel())
    source = (n, blocks * LANES, height, width, 1) if plain else (n, blocks, height, width, LANES)
    return fused(
        [source, (outs, m + 2, m + 2, blocks, LANES, LANES)],
        lambda b, x, u: b.emit(
            b.call_te(conv2d_winograd, x, u, padding, m, cols, primfunc_name_hint="conv2d_winograd")
        ),
        (1, outs, 1, 1, LANES),
        activation,
        (n, outs, high, wide, LANES) if residual else None,
    )


FOLLOWED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), S: T.Buffer((16, 16), "float32")):
    C = T.sblock_alloc_buffer((16, 16))
    for i0, j0, k0 in T.grid(16, 16, 16):
        with T.sblock("C"):
            i, j, k = T.axis.remap("SSR", [i0, j0, k0])
            with T.init():
                C[i, j] = T.float32(0.0)
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
    for i0, j0 in T.grid(16, 16):
        with T.sblock("S"):
            i, j = T.axis.remap("SS", [i0, j0])
            {statement}
"""


def product_followed_by(statement: str) -> Extracted:
    """A product ``C[16, 16]`` and one more block, which makes ``S[i, j]`` of it."""
    from tvm.script import from_source

    function = from_source(FOLLOWED.format(statement=statement))
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    args = extract_tasks.arguments(mod)
    assert args is not None
    return extract_tasks.describe(mod, "product", args)


def fits(rule: Rule, task: Extracted, target: Target) -> int:
    """How many sketches the rule makes of a task."""
    return len(list(rule.variants(Replayer(task.module, target).fresh(), cpu_model_of(target))))


def own(task: Extracted, target: Target) -> list[space.SketchBody]:
    """The sketches that are not TVM's, whose postprocessors they lack."""
    made = space.generate_own(task.module, target)
    assert not {name for body in made for name in body.postprocs} - {POSTPROC}
    return made


def scheduled(task: Extracted, target: Target, each: int, seed: int = 0) -> list[Any]:
    """Modules of ``each`` random candidates of every sketch of ours; every one of them must apply."""
    rng, found = np.random.default_rng(seed), []
    for body in own(task, target):
        made = space.TraceSpace(task.module, target, [body])
        resolved, valid = made.resolve(made.space.sample(rng, each))
        assert valid.all()
        replayer = Replayer(task.module, target)
        found += [replayer.replay(body, candidate.decisions).mod for candidate in made.space.candidates(resolved)]
    return found


def by_rule(task: Extracted, rule: Rule, target: Target) -> Any:
    """A module of the only sketch that a rule makes, with whatever decisions; TVM's generator is left out."""
    replayer = Replayer(task.module, target)
    (variant,) = rule.variants(replayer.fresh(), cpu_model_of(target))
    sch = replayer.fresh()
    variant(sch)
    assert tensorize(sch)
    return sch.mod


def run_schedule(mod: Any, task: Extracted, target: Target) -> np.ndarray[Any, Any]:
    """What a module computes from fixed arguments."""
    arrays = [tvm.runtime.tensor(random_array(spec, at)) for at, spec in enumerate(task.workload.args)]
    compiled(mod, target.to_json())["main"](*arrays)
    found: np.ndarray[Any, Any] = arrays[-1].numpy()
    return found


def check(task: Extracted, each: int = 2 if THOROUGH else 1, seed: int = 0, target: Target | None = None) -> int:
    """Every sketch of ours gives right results, whatever is decided; returns how many candidates that were.

    Args:
        target: None: this host; else one that it can run.
    """
    target = target or here()
    expected = run_schedule(tir.load_module(task.module), task, target)
    mods = scheduled(task, target, each, seed)
    for mod in mods:
        np.testing.assert_allclose(run_schedule(mod, task, target), expected, rtol=1e-4, atol=1e-4)
    return len(mods)


def check_vectors(task: Extracted, target: Target, register: str) -> None:
    """Nearly all fused multiply-adds of every own sketch of ``task`` name ``register``, the target's vectors."""
    mods = scheduled(task, target, each=1)
    assert mods
    for mod in mods:
        text = str(tvm.compile(mod, target=tir.tvm_target(target)).mod.inspect_source("asm"))
        lines = [line for line in text.splitlines() if "fmadd" in line or "fmla" in line]
        assert len([line for line in lines if register in line]) > 0.9 * len(lines) > 0
