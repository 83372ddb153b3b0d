"""PyTorch's orthogonal polynomials, whose degrees are data: a recurrence for each element.

The recurrences are of Abramowitz and Stegun, "Handbook of mathematical functions", 1964, 22.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from workers.tvm_backend.frontends.torch.loops import KIND, elementwise
from workers.tvm_backend.frontends.torch.resize import Convert

First = Callable[[Any], Any]
"""The polynomial of degree 1."""
Next = Callable[[Any, Any, Any, Any], Any]
"""The polynomial of the next degree, from ``x``, the degree of the last, and the last two."""


def _chebyshev(x: Any, _: Any, last: Any, before: Any) -> Any:
    return 2.0 * x * last - before


def _hermite(x: Any, k: Any, last: Any, before: Any) -> Any:
    return 2.0 * x * last - 2.0 * k * before


def _hermite_e(x: Any, k: Any, last: Any, before: Any) -> Any:
    return x * last - k * before


def _laguerre(x: Any, k: Any, last: Any, before: Any) -> Any:
    return ((2.0 * k + 1.0 - x) * last - k * before) / (k + 1.0)


def _legendre(x: Any, k: Any, last: Any, before: Any) -> Any:
    return ((2.0 * k + 1.0) * x * last - k * before) / (k + 1.0)


FORMS: Mapping[str, tuple[First, Next]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (lambda x: 2.0 * x, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: 2.0 * x - 1.0, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: 2.0 * x + 1.0, _chebyshev),
    "hermite_polynomial_h": (lambda x: 2.0 * x, _hermite),
    "hermite_polynomial_he": (lambda x: x, _hermite_e),
    "laguerre_polynomial_l": (lambda x: 1.0 - x, _laguerre),
    "legendre_polynomial_p": (lambda x: x, _legendre),
}
"""By the operator's name; the Chebyshev ones exist once more as ``shifted_``, of 2x - 1."""


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    shifted = {f"shifted_{name}": form for name, form in FORMS.items() if name.startswith("chebyshev")}
    return {
        f"special_{name}.{overload}": _convert(name, *form)
        for name, form in {**FORMS, **shifted}.items()
        for overload in ("default", "x_scalar", "n_scalar")
    }


def _convert(name: str, first: First, following: Next) -> Convert:
    def body(x: Any, degree: Any, made: Any, room: Any) -> None:
        at = 2.0 * x[0] - 1.0 if name.startswith("shifted") else x[0]
        count = degree[0].astype("int64")
        made[0] = first(at)
        room[0] = tirx.const(1.0, KIND)
        with T.serial(1, tirx.max(count, 1)) as k:
            room[1] = made[0]
            made[0] = following(at, k.astype(KIND), room[1], room[0])
            room[0] = room[1]
        low = tirx.const(1.0, KIND), tirx.const(0.0, KIND)
        made[0] = tirx.Select(count > 0, made[0], tirx.Select(count == 0, *low))

    return elementwise(name, body, room=2)
