"""PyTorch's operators in terms of others, for what TVM's importer lacks or computes otherwise.

PyTorch traces these functions in place of its operators. They have its operators' arguments.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from workers.tvm_backend.frontends.torch import linear_algebra, scattering, special

torch: Any = importlib.import_module("torch")
MORE = (
    "addmv",
    "_batch_norm_with_update_functional",
    "_native_batch_norm_legit_functional",
    "dist",
    "ldexp",
    "max_pool2d_with_indices_backward",
    "narrow_copy",
    "permute_copy",
    "unbind_copy",
    "view_copy",
    "take",
    "linspace",
    "tril_indices",
    "triu_indices",
    "rrelu_with_noise_functional",
)
"""Operators that PyTorch itself can take apart, though it does not by default."""


def table() -> Any:
    """What :meth:`torch.export.ExportedProgram.run_decompositions` takes."""
    found, aten = torch.export.default_decompositions(), torch.ops.aten
    known = importlib.import_module("torch._decomp").decomposition_table
    for name in MORE:
        packet = getattr(aten, name)
        overloads = [getattr(packet, each) for each in packet.overloads()]
        found.update({each: known[each] for each in overloads if each in known})
    for name, function in {**OURS, **special.OURS, **scattering.OURS, **linear_algebra.OURS}.items():
        packet, _, overload = name.partition(".")
        found[getattr(getattr(aten, packet), overload or "default")] = function
    return found


def _addbmm(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return x * beta + torch.bmm(a, b).sum(0) * alpha


def _addr(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """TVM takes a product with the number 0 for 0; that of infinity is no number."""
    outer = a.unsqueeze(-1) * b
    if outer.is_floating_point() and alpha == 0:
        outer = torch.where(torch.isfinite(outer), 0.0, math.nan).to(outer.dtype)
    elif outer.dtype == torch.bool:
        outer = outer & bool(alpha)
    else:
        outer = outer * alpha
    if beta == 0:
        return outer
    return x & bool(beta) | outer if x.dtype == torch.bool else x * beta + outer


def _any(x: Any, axes: Any = None, keepdim: bool = False) -> Any:
    found = (x != 0).to(torch.int32)
    return found.amax([] if axes is None else axes, keepdim) != 0


def _var_mean(x: Any, axes: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    return torch.var(x, axes, correction=correction, keepdim=keepdim), x.mean(axes, keepdim)


def _angle(x: Any) -> Any:
    if x.is_complex():
        return NotImplemented
    x = x.to(torch.float32) if not x.is_floating_point() else x
    return torch.where(torch.isnan(x), x, torch.where(x < 0, math.pi, 0.0))


def _copysign(x: Any, sign: Any) -> Any:
    if not isinstance(sign, torch.Tensor):
        return x.abs() * math.copysign(1.0, sign)
    size = (x + torch.zeros_like(sign)).abs()
    size = size if size.is_floating_point() else size.to(torch.float32)
    return torch.where(torch.signbit(sign), -size, size)


def _exp2(x: Any) -> Any:
    return torch.pow(2.0, x if x.is_floating_point() else x.to(torch.float32))


def _fmax(x: Any, y: Any) -> Any:
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.maximum(x, y)))


def _fmin(x: Any, y: Any) -> Any:
    return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, torch.minimum(x, y)))


def _hypot(x: Any, y: Any) -> Any:
    x, y = x.abs(), y.abs()
    most, least = torch.maximum(x, y), torch.minimum(x, y)
    share = least / torch.where(most == 0, 1.0, most)
    return torch.where(torch.isinf(most), most, most * torch.sqrt(share * share + 1))


def _heaviside(x: Any, middle: Any) -> Any:
    return torch.where(x == 0, middle, (x > 0).to(x.dtype))


def _frexp(x: Any) -> Any:
    size = x.abs()
    plain = (size > 0) & ~torch.isinf(size) & ~torch.isnan(size)
    exponent = torch.where(plain, torch.floor(torch.log2(torch.where(plain, size, 1.0))) + 1, 0.0)
    exponent = exponent + (size * torch.pow(2.0, -exponent) >= 1).to(x.dtype) * plain
    exponent = exponent - ((size * torch.pow(2.0, -exponent) < 0.5) & plain).to(x.dtype)
    return torch.where(plain, x * torch.pow(2.0, -exponent), x), exponent.to(torch.int32)


def _logaddexp(x: Any, y: Any) -> Any:
    return _added(x, y, torch.exp, torch.log1p)


def _logaddexp2(x: Any, y: Any) -> Any:
    return _added(x, y, torch.exp2, lambda z: torch.log1p(z) / math.log(2))


def _added(x: Any, y: Any, exp: Callable[[Any], Any], log1p: Callable[[Any], Any]) -> Any:
    same = torch.isinf(x) & (x == y)
    return torch.where(same, x, torch.maximum(x, y) + log1p(exp(-(torch.where(same, 0.0, x) - y).abs())))


def _expm1(x: Any) -> Any:
    """Kahan's: the error of an exponential near 1 is that of its logarithm."""
    x = x if x.is_floating_point() else x.to(torch.float32)
    grown = torch.exp(x)
    less = grown - 1
    near = (less.abs() < 0.5) & (less != 0)
    small = less * x / torch.log(torch.where(near, grown, 2.0))
    return torch.where(near, small, torch.where(less == 0, x, less))


def _log1p(x: Any) -> Any:
    x = x if x.is_floating_point() else x.to(torch.float32)
    more = x + 1
    near = (x.abs() < 0.5) & (more != 1)
    return torch.where(
        near, torch.log(more) * x / torch.where(near, more - 1, 1.0), torch.where(more == 1, x, torch.log(more))
    )


def _triangle(x: Any, axis: int, fill: float) -> Any:
    """For each place along an axis, all places up to it along a new last axis; the others are ``fill``."""
    x = x.movedim(axis, -1)
    at = torch.arange(x.shape[-1])
    return torch.where(at[:, None] >= at, x.unsqueeze(-2), fill)


def _logcumsumexp(x: Any, axis: int) -> Any:
    if x.ndim == 0:
        return x.clone()
    return _triangle(x, axis, -math.inf).logsumexp(-1).movedim(-1, axis)


def _running(extreme: str, fill: float) -> Callable[[Any, int], Any]:
    def running(x: Any, axis: int) -> Any:
        if x.ndim == 0:
            return x.clone(), torch.zeros([], dtype=torch.int64)
        low = fill if x.is_floating_point() else torch.iinfo(x.dtype).min if fill < 0 else torch.iinfo(x.dtype).max
        every = _triangle(x if x.dtype != torch.bool else x.to(torch.uint8), axis, low)
        best = getattr(every, extreme)(-1, True)
        at = torch.arange(x.shape[axis])
        there = (every == best) | (torch.isnan(every) & torch.isnan(best)) if x.is_floating_point() else every == best
        places = torch.where(there & (at[:, None] >= at), at, -1).amax(-1)
        return best.squeeze(-1).to(x.dtype).movedim(-1, axis), places.movedim(-1, axis)

    return running


def _extreme(value: str, place: str) -> Callable[..., Any]:
    def extreme(x: Any, axis: int, keepdim: bool = False) -> Any:
        return getattr(x, value)(axis, keepdim), getattr(x, place)(axis, keepdim)

    return extreme


def _kth(x: Any, k: int, axis: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    values, places = torch.sort(x, stable=True, dim=axis)
    taken = (each.narrow(axis, k - 1, 1) for each in (values, places))
    return tuple(each if keepdim else each.squeeze(axis) for each in taken)


def _median(x: Any, axis: int, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    value, place = _kth(x, (x.shape[axis] + 1) // 2, axis, keepdim)
    if not x.is_floating_point():
        return value, place
    none, first = torch.isnan(x), x.argmax(axis, keepdim)
    missing = none.any(axis, keepdim)
    return torch.where(missing, math.nan, value), torch.where(missing, first, place)


def _nanmedian(x: Any, axis: int, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    values, places = torch.sort(x, stable=True, dim=axis)
    count = (x == x).sum(axis, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    taken = (each.gather(axis, middle) for each in (values, places))
    return tuple(each if keepdim else each.squeeze(axis) for each in taken)


def _mode(x: Any, axis: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    moved = x.movedim(axis, -1)
    count = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).sum(-1)
    most = count == count.amax(-1, True)
    top = math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max if x.dtype != torch.bool else True
    value = torch.where(most, moved, top).amin(-1, True)
    place = torch.where(moved == value, torch.arange(moved.shape[-1]), -1).amax(-1, True)
    return tuple(
        (each if keepdim else each.squeeze(-1)) if not keepdim else each.movedim(-1, axis) for each in (value, place)
    )


def _searchsorted(
    rows: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    """How many of a row are below a value: rows are short where this is used, and counts are vectors."""
    rows = rows if sorter is None else rows.gather(-1, sorter)
    values = values if isinstance(values, torch.Tensor) else torch.full([], values, dtype=rows.dtype)
    single = values.ndim == 0
    values = values.reshape(1) if single else values
    kind = torch.promote_types(rows.dtype, values.dtype)
    rows, values = rows.to(kind).unsqueeze(-2), values.to(kind).unsqueeze(-1)
    below = rows <= values if right or side == "right" else rows < values
    found = below.sum(-1, dtype=torch.int64).to(torch.int32 if out_int32 else torch.int64)
    return found.reshape([]) if single else found


def _bucketize(values: Any, bounds: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return _searchsorted(bounds, values, out_int32=out_int32, right=right)


def _histc(x: Any, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    x = x.reshape(-1)
    first, last = (torch.full([], float(each), dtype=x.dtype) for each in (low, high))
    if low == high:
        first, last = x.amin(), x.amax()
        flat = first == last
        first, last = torch.where(flat, first - 1, first), torch.where(flat, last + 1, last)
    place = torch.floor((x - first) * bins / (last - first)).clamp(max=bins - 1)
    inside = (x >= first) & (x <= last)
    return ((place.unsqueeze(-1) == torch.arange(bins)) & inside.unsqueeze(-1)).sum(0).to(x.dtype)


def _pdist(x: Any, power: float = 2) -> Any:
    count = x.shape[0]
    places = torch.triu(torch.ones(count, count, dtype=torch.int64), 1).reshape(-1)
    total = count * (count - 1) // 2
    order = torch.sort(places, stable=True, descending=True, dim=0)[1][:total]
    apart = x.index_select(0, order // count) - x.index_select(0, order % count)
    return torch.linalg.vector_norm(apart, power, dim=-1)


def _trilinear(
    a: Any, b: Any, c: Any, over_a: list[int], over_b: list[int], over_c: list[int], summed: list[int], unroll: int = 1
) -> Any:
    for axis in range(a.ndim + len(over_a)):
        a, b, c = (
            each.unsqueeze(axis) if axis in over else each for each, over in ((a, over_a), (b, over_b), (c, over_c))
        )
    return (a * b * c).sum(summed) if summed else a * b * c


def _norm(x: Any, power: float = 2, axes: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    size, axes = x.abs(), list(range(x.ndim)) if axes is None else axes
    if power == 0:
        return (x != 0).to(size.dtype).sum(axes, keepdim)
    if math.isinf(power):
        return size.amax(axes, keepdim) if power > 0 else size.amin(axes, keepdim)
    if power == 1:
        return size.sum(axes, keepdim)
    if power == 2:
        return (size * size).sum(axes, keepdim).sqrt()
    return size.pow(power).sum(axes, keepdim).pow(1 / power)


def _trunc_division(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Whole numbers are divided as such; TVM's importer divides them as floats, or rounds to the wrong side."""
    kind = torch.result_type(x, y)
    if rounding_mode is None or not kind.is_floating_point:
        return NotImplemented
    quotient = torch.true_divide(x, y)
    if rounding_mode == "trunc":
        return torch.trunc(quotient)
    rest = torch.fmod(x, y)
    whole = (x - rest) / y
    whole = torch.where((rest != 0) & ((rest < 0) != (torch.as_tensor(y) < 0)), whole - 1, whole)
    near = torch.floor(whole)
    near = torch.where(whole - near > 0.5, near + 1, near)
    return torch.where(torch.as_tensor(y) == 0, quotient, near)


def _slice_scatter(x: Any, part: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if x.is_complex():
        return NotImplemented
    begin, stop, _ = slice(start, end, step).indices(x.shape[axis])
    if begin >= stop:
        return x.clone()
    axis %= x.ndim
    at = torch.arange(begin, stop, step).reshape([-1 if each == axis else 1 for each in range(x.ndim)])
    return x.scatter(axis, at.expand(part.shape), part.to(x.dtype))


def _gcd_step(x: Any, y: Any) -> Any:
    rest = torch.where(y == 0, 0, x - x // torch.where(y == 0, 1, y) * y)
    return torch.where(y == 0, x, y), rest


def _gcd(x: Any, y: Any) -> Any:
    """Euclid's: the numbers of a type take 1.44 steps for each of their bits at most."""
    kind = torch.promote_types(x.dtype, y.dtype)
    x, y = x.to(torch.int64).abs(), y.to(torch.int64).abs()
    for _ in range(math.ceil(1.4405 * torch.iinfo(kind).bits)):
        x, y = _gcd_step(x, y)
    return x.to(kind)


def _lcm(x: Any, y: Any) -> Any:
    kind, shared = torch.promote_types(x.dtype, y.dtype), torch.gcd(x, y)
    whole = torch.div(x.to(kind), torch.where(shared == 0, 1, shared), rounding_mode="trunc")
    return (whole * y).abs().to(kind)


OURS: Mapping[str, Callable[..., Any]] = {
    "addbmm": _addbmm,
    "addr": _addr,
    **dict.fromkeys(("any", "any.dim", "any.dims"), _any),
    "var_mean.correction": _var_mean,
    "angle": _angle,
    **dict.fromkeys(("copysign.Tensor", "copysign.Scalar"), _copysign),
    "exp2": _exp2,
    "fmax": _fmax,
    "fmin": _fmin,
    "hypot": _hypot,
    "heaviside": _heaviside,
    "frexp.Tensor": _frexp,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "expm1": _expm1,
    "log1p": _log1p,
    "logcumsumexp": _logcumsumexp,
    "cummax": _running("amax", -math.inf),
    "cummin": _running("amin", math.inf),
    "max.dim": _extreme("amax", "argmax"),
    "min.dim": _extreme("amin", "argmin"),
    "max": lambda x: x.amax(),
    "min": lambda x: x.amin(),
    "kthvalue": _kth,
    "median.dim": _median,
    "median": lambda x: _median(x.reshape(-1), 0)[0],
    "nanmedian.dim": _nanmedian,
    "nanmedian": lambda x: _nanmedian(x.reshape(-1), 0)[0],
    "mode": _mode,
    **dict.fromkeys(("searchsorted.Tensor", "searchsorted.Scalar"), _searchsorted),
    **dict.fromkeys(("bucketize.Tensor",), _bucketize),
    "bucketize.Scalar": lambda value, bounds, **options: _searchsorted(bounds, value, **options),
    "histc": _histc,
    "_pdist_forward": _pdist,
    "_trilinear": _trilinear,
    "linalg_vector_norm": _norm,
    **dict.fromkeys(("div.Tensor_mode", "div.Scalar_mode"), _trunc_division),
    "slice_scatter": _slice_scatter,
    "gcd": _gcd,
    "lcm": _lcm,
}
"""By the operator's name and overload; ``default`` where there is none."""
