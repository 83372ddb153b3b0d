from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_once
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tools import fit_math
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tvm import s_tir, te, tirx  # noqa: E402

from workers.tvm_backend import tir  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.passes.fast_math.rewrite import with_fast_math  # noqa: E402

pytestmark = pytest.mark.parallel

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explanation" / "fast-math.md"
TABLES = ROOT / "workers" / "tvm_backend" / "passes" / "fast_math" / "tables.py"
LIBRARY = re.compile(r"\b_?(?:expf?|logf?|erff?|tanhf?|powf?|sqrtf?)\b")
PATTERNS = 1 << 20
SMALLEST = {"exp": math.exp(-86.98), "sigmoid": 2.0**-126}
"""Smaller results are 0, or anything below."""
AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 1})
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})
SSE = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 1})
NEON = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 1})
Array = NDArray[Any]


def logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


REFERENCE: Mapping[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "sigmoid": logistic,
    "tanh": np.tanh,
    "erf": lambda x: np.array([math.erf(v) for v in x]),
    "log": np.log,
}


def function(make: Callable[[Any], Any], size: int, dtype: str = "float32") -> tvm.IRModule:
    """y[i] = make(x[i])."""
    x = te.placeholder((size,), dtype, name="x")
    return program(x, te.compute((size,), lambda i: make(x[i]), name="y"))


def program(*tensors: te.Tensor) -> tvm.IRModule:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors)).with_attr("global_symbol", "main")})


def transform(schedule: s_tir.Schedule, block: str, loops: str) -> None:
    """Vectorise or unroll sixteen iterations of a block's last loop, or leave it."""
    if loops != "serial":
        last = schedule.get_loops(schedule.get_sblock(block))[-1]
        getattr(schedule, loops)(schedule.split(last, [None, 16])[1])


def vectorised(mod: tvm.IRModule) -> tvm.IRModule:
    schedule = s_tir.Schedule(mod)
    transform(schedule, "y", "vectorize")
    return schedule.mod


@functools.cache
def here() -> Target:
    return Target(describe().target | {"num-cores": 1})


@functools.cache
def compiled(name: str, size: int, target: Target | None = None) -> Any:
    mod = vectorised(with_fast_math(function(getattr(tirx, name), size)))
    return tvm.compile(mod, target=tir.tvm_target(target or here()))


def compute(name: str, x: Array, target: Target | None = None) -> Array:
    padded = np.zeros(-(-x.size // 16) * 16, np.float32)
    padded[: x.size] = x
    given, out = tvm.runtime.tensor(padded), tvm.runtime.tensor(np.empty_like(padded))
    compiled(name, padded.size, target)["main"](given, out)
    return np.asarray(out.numpy()[: x.size])


def run(mod: tvm.IRModule, x: Array, shape: tuple[int, ...]) -> Array:
    out = tvm.runtime.tensor(np.empty(shape, np.float32))
    run_once.compiled(mod, here().to_json())["main"](tvm.runtime.tensor(x), out)
    return np.asarray(out.numpy())


def patterns() -> Array:
    """Bit patterns all over float32 in strides with a random offset, and all near places where something changes."""
    rng = np.random.default_rng(0)
    stride = 2**32 // PATTERNS
    strided = np.arange(PATTERNS, dtype=np.uint64) * stride + rng.integers(0, stride, PATTERNS, dtype=np.uint64)
    places = [
        0.0,
        1.0,
        0.5**0.5,
        math.log(2) / 2,
        88.72284,
        86.99,
        87.33655,
        103.97208,
        103.2789,
        3.9192,
        9.0109,
        2.0**-126,
    ]
    near = [
        np.float32(sign * place).view(np.int32).astype(np.int64) + np.arange(-4096, 4096)
        for place in places
        for sign in (-1, 1)
    ]
    found = np.concatenate([strided.astype(np.int64), *near]) % 2**32
    return found.astype(np.uint32).view(np.float32)


def units(ours: Array, exact: Array) -> Array:
    """Errors in units of the last place of the exact value; where that is too large for float32, 0 for infinity."""
    with np.errstate(all="ignore"):
        step = np.exp2(np.maximum(np.frexp(np.abs(exact))[1] - 24, -149).astype(np.float64))
        over = np.abs(exact) >= 2.0**128 - 2.0**103
        return np.where(over, np.where(ours == exact.astype(np.float32), 0.0, np.inf), np.abs(ours - exact) / step)


def documented(name: str) -> float:
    """The largest error that the page promises."""
    row = re.search(rf"^\| `{name}` \|.*\| ([\d.]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert row is not None
    return float(row[1])


@pytest.mark.parametrize("target", [None, SSE], ids=["here", "without-fma"])
@pytest.mark.parametrize("name", REFERENCE)
def test_the_error_is_what_the_page_says(name: str, target: Target | None) -> None:
    x = patterns()
    ours = compute(name, x, target)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(np.float64))
    number = ~np.isnan(exact)
    assert np.isnan(ours[~number]).all()
    if name in SMALLEST:  # of the page: too small results are 0
        tiny = number & (exact < SMALLEST[name])
        assert np.abs(ours[tiny]).max() < SMALLEST[name]
        number &= ~tiny
    error = units(ours[number], exact[number])
    worst = int(error.argmax())
    assert error[worst] <= documented(name), f"{name}({x[number][worst]!r}): {error[worst]} ulp"
    assert error[worst] > 0.5  # the measure measures


SPECIAL: Mapping[str, list[tuple[float, float]]] = {
    "exp": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (math.inf, math.inf),
        (-math.inf, 0.0),
        (89.0, math.inf),
        (-87.1, 0.0),
        (3.4e38, math.inf),
        (-3.4e38, 0.0),
        (1e-45, 1.0),
    ],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (math.inf, 1.0), (-math.inf, 0.0), (90.0, 1.0), (-90.0, 0.0)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (math.inf, 1.0), (-math.inf, -1.0), (10.0, 1.0), (-3e38, -1.0), (1e-45, 1e-45)],
    "log": [(0.0, -math.inf), (-0.0, -math.inf), (math.inf, math.inf), (1.0, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (math.inf, 1.0), (-math.inf, -1.0), (4.5, 1.0), (-3e38, -1.0), (1e-45, 1e-45)],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    x, want = (np.array(values, np.float32) for values in zip(*SPECIAL[name], strict=True))
    ours = compute(name, x)
    np.testing.assert_array_equal(ours, want)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(want))
    assert np.isnan(compute(name, np.array([math.nan, -math.nan], np.float32))).all()


def test_numbers_without_a_logarithm() -> None:
    assert np.isnan(compute("log", np.array([-1.0, -1e-45, -3e38, -math.inf], np.float32))).all()


vectors = arrays(np.float32, 64, elements=st.floats(width=32, allow_nan=False))


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(vectors)
def test_odd_functions_are_odd_and_bounded(x: Array) -> None:
    for name in ("tanh", "erf"):
        ours = compute(name, x)
        np.testing.assert_array_equal(compute(name, -x).view(np.int32), (-ours).view(np.int32))
        assert (np.abs(ours) <= 1).all()


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(vectors)
def test_exp_is_positive_and_grows(x: Array) -> None:
    ours = compute("exp", np.sort(x))
    assert (ours >= 0).all()
    with np.errstate(all="ignore"):
        assert (ours[1:] >= ours[:-1] * np.float32(1 - 4 * 2.0**-23)).all()


def test_formulas_nest() -> None:
    mod = vectorised(with_fast_math(function(lambda x: tirx.exp(tirx.tanh(tirx.erf(x))) * tirx.exp(x), 64)))
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    exact = np.exp(np.tanh(REFERENCE["erf"](x.astype(np.float64))) + x.astype(np.float64))
    np.testing.assert_allclose(run(mod, x, x.shape), exact, rtol=2e-6)


READ: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "here": lambda z, i, j: z[i, j],
    "there": lambda z, i, j: z[i + 1, j + 1],
    "across": lambda z, i, j: z[j, i],
}


@pytest.mark.parametrize("loops", ["serial", "vectorize", "unroll"])
@pytest.mark.parametrize("place", READ)
def test_a_value_may_be_copied_to_where_it_is_read(place: str, loops: str) -> None:
    """A formula's variables come along, and the same one is then bound twice."""
    x = te.placeholder((65, 65), "float32", name="x")
    z = te.compute((65, 65), lambda i, j: tirx.sigmoid(x[i, j]), name="z")
    y = te.compute((64, 64), lambda i, j: z[i, j] * x[i, j] + READ[place](z, i, j), name="y")
    schedule = s_tir.Schedule(with_fast_math(program(x, y)))
    schedule.compute_inline(schedule.get_sblock("z"))
    transform(schedule, "y", loops)
    values = np.random.default_rng(0).normal(0, 2, (65, 65)).astype(np.float32)
    gate = logistic(values.astype(np.float64))
    repeated = {"here": gate, "there": np.roll(gate, (-1, -1), (0, 1)), "across": gate.T}[place]
    exact = (gate * values + repeated)[:64, :64]
    np.testing.assert_allclose(run(schedule.mod, values, (64, 64)), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loops", ["serial", "vectorize", "unroll"])
def test_a_reader_may_move_into_a_formula(loops: str) -> None:
    x = te.placeholder((64, 64), "float32", name="x")
    z = te.compute((64, 64), lambda i, j: tirx.sigmoid(x[i, j]), name="z")
    y = te.compute((64, 64), lambda i, j: z[i, j] * tirx.tanh(z[i, j]) + z[i, j], name="y")
    schedule = s_tir.Schedule(with_fast_math(program(x, y)))
    schedule.reverse_compute_inline(schedule.get_sblock("y"))
    transform(schedule, "z", loops)
    values = np.random.default_rng(0).normal(0, 2, (64, 64)).astype(np.float32)
    gate = logistic(values.astype(np.float64))
    np.testing.assert_allclose(run(schedule.mod, values, (64, 64)), gate * np.tanh(gate) + gate, rtol=2e-6)


def powers(exponent: float, size: int = 4096) -> tvm.IRModule:
    return function(lambda x: tirx.pow(x, tirx.const(exponent, "float32")), size)


@pytest.mark.parametrize("exponent", [0.25, 0.5, 0.75, 1.0, 1.25, 2.0, 2.75, 3.0, 3.5, 4.0, -0.5, -0.75, -2.0, -2.75])
def test_powers_are_products_of_roots(exponent: float) -> None:
    mod = with_fast_math(powers(exponent))
    assert "pow(" not in str(mod)
    x = np.random.default_rng(0).normal(0, 10, 4096).astype(np.float32)
    x = x if exponent % 1 == 0 else np.abs(x)
    assert units(run(mod, x, x.shape), x.astype(np.float64) ** exponent).max() <= documented("pow")


@pytest.mark.parametrize("exponent", [0.25, 0.5, 0.75, 1.5, 2.0, 3.0, -0.5, -0.75, -2.0])
def test_powers_of_special_values(exponent: float) -> None:
    x = np.array([0.0, 1.0, math.inf, math.nan, -1.0, *[4.0] * 11], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(with_fast_math(powers(exponent, 16)), x, x.shape), x ** np.float32(exponent))


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE, NEON], ids=["avx512", "avx2", "sse", "neon"])
def test_powers_are_instructions(target: Target) -> None:
    assert LIBRARY.search(assembly(vectorised(powers(0.75, 64)), target))
    assert not LIBRARY.search(assembly(vectorised(with_fast_math(powers(0.75, 64))), target))


def test_the_tables_are_what_the_fit_gives() -> None:
    assert TABLES.read_text("utf-8") == fit_math.text()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", REFERENCE)
def test_other_types_stay(name: str, dtype: str) -> None:
    mod = function(getattr(tirx, name), 16, dtype)
    assert tvm_ffi.structural_equal(with_fast_math(mod), mod)


def test_functions_without_such_calls_keep_their_hash() -> None:
    mod = function(lambda x: tirx.sqrt(x) * x + tirx.pow(x, tirx.const(2.2, "float32")), 64)
    assert tvm_ffi.structural_hash(with_fast_math(mod)) == tvm_ffi.structural_hash(mod)


def assembly(mod: tvm.IRModule, target: Target) -> str:
    return str(tvm.compile(mod, target=tir.tvm_target(target)).mod.inspect_source("asm"))


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE, NEON], ids=["avx512", "avx2", "sse", "neon"])
@pytest.mark.parametrize("name", REFERENCE)
def test_no_target_calls_the_library(name: str, target: Target) -> None:
    plain = function(getattr(tirx, name), 64)
    assert LIBRARY.search(assembly(vectorised(plain), target))
    assert not LIBRARY.search(assembly(vectorised(with_fast_math(plain)), target))
