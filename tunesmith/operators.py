"""Operator specs: one operator to tune, written as text, such as ``gemm:1024x1024x1024:float32``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tunesmith.arithmetic import NARROW
from tunesmith.errors import InvalidOperator
from tunesmith.model_limits import MAX_ELEMENTS
from tunesmith.names import FLOAT32, INT8
from tunesmith.types import TensorSpec

DTYPES = ("float32", "float16", "float64")
TENSORS: Mapping[str, str] = {INT8: "uint8"}
"""Type of inputs and outputs by precision, where it is not float32."""
NARROW_KINDS = ("gemm", "dense", "conv2d")
"""Products with weights, which may be of a narrow type."""

FORMS: Mapping[str, str] = {
    "gemm": "gemm:MxNxK:float32",
    "bmm": "bmm:BxMxNxK:float32",
    "dense": "dense:MxNxK:float32",
    "conv2d": "conv2d:NxCxHxW,OxCxKHxKW,s1,p1:float32",
    "depthwise": "depthwise:NxCxHxW,k3,s1,p1:float32",
    "softmax": "softmax:AxBxC:float32",
    "layernorm": "layernorm:ROWSxFEATURES:float32",
}


@dataclass(frozen=True)
class OperatorSpec:
    """One operator with static shapes, plain layouts, nothing pre-packed.

    Attributes:
        kind: ``gemm`` C[M,N] = A[M,K] B[K,N]; ``bmm`` the same per batch B; ``dense`` A[M,K] W[N,K]^T; ``conv2d``
            NCHW with OIHW weights; ``depthwise`` NCHW with one K×K filter per channel; ``softmax`` over the last axis;
            ``layernorm`` over the last axis with scale and shift.
        dtype: data type of every tensor; ``uint8`` where the precision is int8, whose weights are ``int8``.
        precision: precision of the arithmetic. In a narrow one the weights are constants, as in a model that is tuned
            with that precision; they are packed when it is prepared.
        dims: (M, N, K), (B, M, N, K), the input's NCHW, or the input's shape.
        kernel: (KH, KW) of convolutions.
        channels: output channels of ``conv2d``.
        stride, padding: stride and padding of a convolution, the same on each side.
        canonical: the spec with every default written out; equal specs have equal text.
    """

    kind: str
    dtype: str
    dims: tuple[int, ...]
    kernel: tuple[int, int] = (1, 1)
    channels: int = 0
    stride: int = 1
    padding: int = 0
    canonical: str = ""
    precision: str = FLOAT32

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The arguments in order, weights included."""
        shapes, weights = _SHAPES[self.kind](self)[:-1], INT8 if self.precision == INT8 else self.dtype
        return tuple(TensorSpec(weights if name in self.weights else self.dtype, shape, name) for name, shape in shapes)

    @property
    def weights(self) -> frozenset[str]:
        """Names of the inputs that a model has as constants."""
        of_product = {"b"} if self.kind == "gemm" and self.precision != FLOAT32 else set()
        return frozenset({"weight", "gamma", "beta"} | of_product)

    @property
    def output(self) -> TensorSpec:
        """The result."""
        name, shape = _SHAPES[self.kind](self)[-1]
        return TensorSpec(self.dtype, shape, name)


Named = list[tuple[str, tuple[int, ...]]]


def _gemm(spec: OperatorSpec) -> Named:
    *batch, m, n, k = spec.dims
    lead = tuple(batch)
    return [("a", (*lead, m, k)), ("b", (*lead, k, n)), ("c", (*lead, m, n))]


def _dense(spec: OperatorSpec) -> Named:
    m, n, k = spec.dims
    return [("x", (m, k)), ("weight", (n, k)), ("y", (m, n))]


def _conv(spec: OperatorSpec) -> Named:
    n, c, h, w = spec.dims
    kh, kw = spec.kernel
    out_h = (h + 2 * spec.padding - kh) // spec.stride + 1
    out_w = (w + 2 * spec.padding - kw) // spec.stride + 1
    weight = (c, 1, kh, kw) if spec.kind == "depthwise" else (spec.channels, c, kh, kw)
    return [("x", spec.dims), ("weight", weight), ("y", (n, weight[0], out_h, out_w))]


def _softmax(spec: OperatorSpec) -> Named:
    return [("x", spec.dims), ("y", spec.dims)]


def _layernorm(spec: OperatorSpec) -> Named:
    scale = (spec.dims[-1],)
    return [("x", spec.dims), ("gamma", scale), ("beta", scale), ("y", spec.dims)]


_SHAPES: Mapping[str, Callable[[OperatorSpec], Named]] = {
    "gemm": _gemm,
    "bmm": _gemm,
    "dense": _dense,
    "conv2d": _conv,
    "depthwise": _conv,
    "softmax": _softmax,
    "layernorm": _layernorm,
}


def looks_like_operator(text: str) -> bool:
    """True when ``text`` begins like an operator spec, so that it is not taken for a file's name."""
    return text.split(":", 1)[0] in FORMS and ":" in text


def parse_operator(text: str) -> OperatorSpec:
    """Parse an operator spec; the type is ``float32`` when left out. A narrow one is a precision, such as ``bf16``.

    Raises:
        InvalidOperator: naming what is wrong and the form that is accepted.
    """
    kind, _, rest = text.strip().partition(":")
    if kind not in FORMS:
        raise InvalidOperator(
            f"there is no operator {kind!r}; accepted are {', '.join(FORMS.values())}", field="operator", value=text
        )
    body, colon, dtype = rest.partition(":")
    dtype = dtype if colon else "float32"
    _check_type(kind, dtype, text)
    parts = body.split(",")
    shape = _shape(kind, parts[0], text)
    if kind in ("conv2d", "depthwise"):
        spec = _parse_conv(kind, dtype, shape, parts[1:], text)
    else:
        if len(parts) > 1:
            raise _invalid(kind, f"{','.join(parts[1:])!r} is not understood", text)
        _check_rank(kind, shape, text)
        spec = OperatorSpec(kind, dtype, shape, canonical=f"{kind}:{_join(shape)}:{dtype}")
    if dtype in NARROW:
        spec = replace(spec, dtype=TENSORS.get(dtype, FLOAT32), precision=dtype)
    _check_size(spec, text)
    return spec


def _check_type(kind: str, dtype: str, text: str) -> None:
    if dtype in NARROW and kind in NARROW_KINDS:
        return
    if dtype in NARROW:
        raise _invalid(kind, f"{dtype} is for products with weights ({', '.join(NARROW_KINDS)})", text)
    if dtype not in DTYPES:
        raise _invalid(kind, f"the type {dtype!r} is not one of {', '.join((*DTYPES, *NARROW))}", text)


def _invalid(kind: str, problem: str, text: str) -> InvalidOperator:
    return InvalidOperator(f"{problem}; {kind} is written {FORMS[kind]}", field="operator", value=text)


def _join(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _shape(kind: str, part: str, text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,10}(x[0-9]{1,10})*", part):
        raise _invalid(kind, f"{part!r} is not a shape such as 64x128", text)
    shape = tuple(int(n) for n in part.split("x"))
    if min(shape) < 1:
        raise _invalid(kind, f"{part!r} has an extent of zero", text)
    return shape


def _check_rank(kind: str, shape: tuple[int, ...], text: str) -> None:
    wanted = {"gemm": (3, 3), "bmm": (4, 4), "dense": (3, 3), "softmax": (1, 6), "layernorm": (2, 6)}
    low, high = wanted[kind]
    if not low <= len(shape) <= high:
        count = str(low) if low == high else f"{low} to {high}"
        raise _invalid(kind, f"{_join(shape)!r} has {len(shape)} numbers, not {count}", text)


def _parse_conv(kind: str, dtype: str, dims: tuple[int, ...], parts: list[str], text: str) -> OperatorSpec:
    if len(dims) != 4:
        raise _invalid(kind, f"{_join(dims)!r} is not an NCHW shape", text)
    channels, kernel = 0, (0, 0)
    if kind == "conv2d":
        weight = _shape(kind, parts[0], text) if parts else ()
        if len(weight) != 4:
            raise _invalid(kind, "the weights' OIHW shape is missing", text)
        if weight[1] != dims[1]:
            raise _invalid(kind, f"the weights take {weight[1]} channels and the input has {dims[1]}", text)
        channels, kernel, parts = weight[0], (weight[2], weight[3]), parts[1:]
    options = _options(kind, parts, text)
    if kind == "depthwise":
        kernel = (options["k"], options["k"])
    stride, padding = options["s"], options["p"]
    if stride < 1 or min(kernel) < 1:
        raise _invalid(kind, "kernel and stride must be at least 1", text)
    if dims[2] + 2 * padding < kernel[0] or dims[3] + 2 * padding < kernel[1]:
        raise _invalid(kind, "the kernel is larger than the padded input", text)
    middle = f"{channels}x{dims[1]}x{_join(kernel)}" if kind == "conv2d" else f"k{kernel[0]}"
    canonical = f"{kind}:{_join(dims)},{middle},s{stride},p{padding}:{dtype}"
    return OperatorSpec(kind, dtype, dims, kernel, channels, stride, padding, canonical)


def _options(kind: str, parts: list[str], text: str) -> dict[str, int]:
    """``k3``, ``s1`` and ``p1`` by letter; stride 1 and padding 0 are defaults."""
    found: dict[str, int] = {}
    allowed = "sp" if kind == "conv2d" else "ksp"
    for part in parts:
        if not re.fullmatch(f"[{allowed}][0-9]{{1,6}}", part) or part[0] in found:
            raise _invalid(kind, f"{part!r} is not understood", text)
        found[part[0]] = int(part[1:])
    if kind == "depthwise" and "k" not in found:
        raise _invalid(kind, "the kernel size such as k3 is missing", text)
    return {"s": 1, "p": 0, **found}


def _check_size(spec: OperatorSpec, text: str) -> None:
    for tensor in (*spec.inputs, spec.output):
        if math.prod(tensor.shape) > MAX_ELEMENTS:
            raise _invalid(
                spec.kind,
                f"tensor {tensor.name!r} of shape {_join(tensor.shape)} has more than {MAX_ELEMENTS} elements",
                text,
            )
