"""Special functions as arithmetic: none of them is TVM's.

Formulas are of Abramowitz and Stegun, "Handbook of mathematical functions", 1964, unless a docstring says otherwise.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""Bernoulli's numbers of even index, from the second."""
SHIFT = 10
"""Asymptotic series hold from here on; recurrences lead there."""
POINTS = 48
"""Points of the trapezoidal rule, which is exact to the last digit for periodic integrands as smooth as these."""
FAR = 40.0
"""Bessel functions have their asymptotic series from here on."""


def _wide(x: Any) -> Any:
    return x if x.is_floating_point() else x.to(torch.float32)


def _double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes in double precision, as sums of terms of both signs lose digits."""

    def computed(*args: Any) -> Any:
        tensors = [_wide(each) for each in args if isinstance(each, torch.Tensor)]
        made = [each.to(torch.float64) if isinstance(each, torch.Tensor) else each for each in args]
        return function(*made).to(tensors[0].dtype)

    return computed


def _stirling(x: Any) -> Any:
    """The logarithm of the gamma function, 6.1.40, of large numbers."""
    found = (x - 0.5) * torch.log(x) - x + 0.5 * math.log(2 * math.pi)
    for n, number in enumerate(BERNOULLI, 1):
        found = found + number / (2 * n * (2 * n - 1)) / x.pow(2 * n - 1)
    return found


def _lgamma(x: Any) -> Any:
    """By 6.1.15 and Stirling's series; by reflection, 6.1.17, below 0.5."""
    low = x < 0.5
    positive = torch.where(low, 1 - x, x)
    product = torch.ones_like(x)
    for n in range(SHIFT):
        product = product * torch.where(positive < SHIFT, (positive + n).clamp(max=2 * SHIFT), 1.0)
    found = _stirling(torch.where(positive < SHIFT, positive + SHIFT, positive)) - torch.log(product)
    sine = torch.sin(math.pi * (x - torch.floor(x))).abs()
    reflected = math.log(math.pi) - torch.log(sine) - found
    found = torch.where(low, torch.where(x == torch.floor(x), math.inf, reflected), found)
    return torch.where(torch.isinf(x), math.inf, found)


def _digamma(x: Any) -> Any:
    """By 6.3.6 and the series 6.3.18; by reflection, 6.3.7, below 0."""
    low = x < 0
    y = torch.where(low, 1 - x, x)
    found = torch.zeros_like(x)
    for n in range(SHIFT):
        found = found - 1 / (y + n)
    y = y + SHIFT
    found = found + torch.log(y) - 0.5 / y
    for n, number in enumerate(BERNOULLI, 1):
        found = found - number / (2 * n) / y.pow(2 * n)
    fraction = x - torch.round(x)
    reflected = found - math.pi / torch.tan(math.pi * fraction)
    found = torch.where(low, torch.where(fraction == 0, math.nan, reflected), found)
    return torch.where(x == 0, torch.where(torch.signbit(x), math.inf, -math.inf), found)


def _polygamma(order: int, x: Any) -> Any:
    """6.4.10."""
    if order == 0:
        return torch.digamma(x)
    sign = math.factorial(order) * (1 if order % 2 else -1)
    return sign * torch.special.zeta(torch.full_like(_wide(x), order + 1.0), _wide(x))


def _erfcx(x: Any) -> Any:
    """exp(x²) erfc(x), by the continued fraction 7.1.14 from 2 on, and by 7.1.5 and 7.1.6 below."""
    size = x.abs()
    far = size.clamp(min=2.0)
    fraction = far
    for n in range(60, 0, -1):
        fraction = far + n / 2 / fraction
    near, term, total = size.clamp(max=2.0), size.clamp(max=2.0), size.clamp(max=2.0)
    for n in range(1, 40):
        term = term * 2 * near * near / (2 * n + 1)
        total = total + term
    small = torch.exp(near * near) - 2 / math.sqrt(math.pi) * total
    found = torch.where(size < 2.0, small, 1 / math.sqrt(math.pi) / fraction)
    return torch.where(x < 0, 2 * torch.exp(x * x) - found, found)


def _erfc(x: Any) -> Any:
    size = x.abs()
    found = torch.exp(-size * size) * _erfcx(size)
    found = torch.where(size > 40.0, 0.0, found)
    found = torch.where(torch.isnan(x), x, found)
    return torch.where(x < 0, 2 - found, found)


def _ndtri(p: Any) -> Any:
    """The quantile of the normal distribution: 26.2.23 and then Halley's steps."""
    low = torch.minimum(p, 1 - p).clamp(min=1e-300)
    t = torch.sqrt(-2 * torch.log(low))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    z = t - top / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):
        tail = 0.5 * _erfc(z / math.sqrt(2))
        step = (tail - low) / (torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
        z = z + step / (1 - 0.5 * step * z)
    found = torch.where(p < 0.5, -z, z)
    found = torch.where(p == 0, -math.inf, torch.where(p == 1, math.inf, found))
    return torch.where((p < 0) | (p > 1), math.nan, found)


def _erfinv(x: Any) -> Any:
    tail = (1 - x.abs()) / 2
    found = torch.where(x.abs() < 1e-8, x * math.sqrt(math.pi) / 2, -torch.sign(x) * _ndtri(tail) / math.sqrt(2))
    return torch.where(x.abs() > 1, math.nan, found)


def _far(x: Any, order: int, signs: Sequence[int]) -> list[Any]:
    """Sums of the terms of 9.2.9, 9.2.10 and 9.7.1, apart for those of even and of odd powers, with ``signs``."""
    sums, term, square = [torch.zeros_like(x), torch.zeros_like(x)], torch.ones_like(x), 4 * order * order
    for n in range(12):
        sums[n % 2] = sums[n % 2] + signs[n % 4] * term
        term = term * (square - (2 * n + 1) ** 2) / ((n + 1) * 8 * x)
    return sums


def _scaled_i(order: int) -> Callable[[Any], Any]:
    """exp(-|x|) times a modified Bessel function: the integral 9.6.19, and the series 9.7.1 from ``FAR`` on."""

    def function(x: Any) -> Any:
        size = x.abs()
        near, found = size.clamp(max=FAR), torch.zeros_like(x)
        for n in range(POINTS):
            angle = math.pi * (n + 0.5) / POINTS
            found = found + torch.exp(near * (math.cos(angle) - 1)) * (math.cos(order * angle) / POINTS)
        far = size.clamp(min=FAR)
        even, odd = _far(far, order, (1, -1, 1, -1))
        found = torch.where(size < FAR, found, (even + odd) / torch.sqrt(2 * math.pi * far))
        return torch.where(x < 0, -found, found) if order % 2 else found

    return function


def _j(order: int) -> Callable[[Any], Any]:
    """A Bessel function: the integral 9.1.21, and the series 9.2.5 from ``FAR`` on."""

    def function(x: Any) -> Any:
        size = x.abs()
        near, found = size.clamp(max=FAR), torch.zeros_like(x)
        for n in range(POINTS):
            angle = math.pi * (n + 0.5) / POINTS
            found = found + torch.cos(order * angle - near * math.sin(angle)) / POINTS
        far = size.clamp(min=FAR)
        even, odd = _far(far, order, (1, 1, -1, -1))
        phase = far - (order / 2 + 0.25) * math.pi
        wave = torch.sqrt(2 / (math.pi * far)) * (even * torch.cos(phase) - odd * torch.sin(phase))
        found = torch.where(size < FAR, found, wave)
        return torch.where(x < 0, -found, found) if order % 2 else found

    return function


def _unscaled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x) * torch.exp(x.abs())


def _spherical(x: Any) -> Any:
    near = x.abs() < 0.5
    square, safe = x * x, torch.where(near, 1.0, x)
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    return torch.where(torch.isinf(x), 0.0, torch.where(near, series, torch.sin(safe) / safe))


def _log_ndtr(x: Any) -> Any:
    low = x < -1
    far = torch.log(_erfcx(torch.where(low, -x, 0.0) / math.sqrt(2)) / 2) - x * x / 2
    return torch.where(low, far, torch.log1p(-_erfc(torch.where(low, 0.0, x) / math.sqrt(2)) / 2))


I0, I1 = _scaled_i(0), _scaled_i(1)
OURS: Mapping[str, Callable[..., Any]] = {
    "lgamma": _double(_lgamma),
    "digamma": _double(_digamma),
    "polygamma": _polygamma,
    "special_erfcx": _double(_erfcx),
    "erfc": _double(_erfc),
    "erfinv": _double(_erfinv),
    "special_ndtri": _double(_ndtri),
    "special_log_ndtr": _double(_log_ndtr),
    "i0": _double(_unscaled(I0)),
    "special_i0e": _double(I0),
    "special_i1": _double(_unscaled(I1)),
    "special_i1e": _double(I1),
    "special_modified_bessel_i0": _double(_unscaled(I0)),
    "special_modified_bessel_i1": _double(_unscaled(I1)),
    "special_bessel_j0": _double(_j(0)),
    "special_bessel_j1": _double(_j(1)),
    "special_spherical_bessel_j0": _double(_spherical),
}
"""By the operator's name, as ``decompositions.OURS``."""
