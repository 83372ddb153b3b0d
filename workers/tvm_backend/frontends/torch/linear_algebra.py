"""PyTorch's linear algebra in terms of the factors of ``matrices``, triangles and products."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

torch: Any = importlib.import_module("torch")
SQUARINGS = 8
"""A matrix is divided by two to this power before its exponential's series."""
TERMS = 20
"""Terms of that series: the last is below double precision up to a norm of two to ``SQUARINGS``."""


def _unit(x: Any, rows: int) -> Any:
    return torch.eye(rows, dtype=x.dtype).expand(*x.shape[:-2], rows, rows)


def _diagonal(x: Any) -> Any:
    return x.diagonal(dim1=-2, dim2=-1)


def _root(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    if upper:
        found, status = torch.linalg.cholesky_ex(x.mT)
        return found.mT, status
    return NotImplemented


def _cholesky(x: Any, upper: bool = False) -> Any:
    return torch.ops.aten.linalg_cholesky_ex(x, upper=upper)[0]


def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lower = factor.mT if upper else factor
    middle = torch.linalg.solve_triangular(lower, b, upper=False)
    return torch.linalg.solve_triangular(lower.mT, middle, upper=True)


def _cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    return _cholesky_solve(_unit(factor, factor.shape[-1]), factor, upper)


def _solve_triangular(a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Only a lower triangle to the left of what is sought is left as it is."""
    if not left:
        return torch.linalg.solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.shape[:-2] != b.shape[:-2] or unitriangular:
        a, b = a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:])
        if unitriangular:
            a = torch.where(torch.eye(a.shape[-1], dtype=torch.bool), 1.0, a)
        return torch.linalg.solve_triangular(a, b, upper=upper)
    if upper:
        return torch.linalg.solve_triangular(a.flip(-1, -2), b.flip(-2), upper=False).flip(-2)
    return NotImplemented


def _triangular_solve(b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    b, a = b.expand(*lead, *b.shape[-2:]), a.expand(*lead, *a.shape[-2:])
    side = a.mT if transpose else a
    found = torch.linalg.solve_triangular(side, b, upper=upper != transpose, unitriangular=unitriangular)
    return found, a.clone()


def _order(factors: Any, pivots: Any) -> Any:
    return torch.ops.aten.lu_unpack(factors, pivots, False, True)[0]


def _unpack(factors: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The order alone is left as it is."""
    if not unpack_data and unpack_pivots:
        return NotImplemented
    rows, columns = factors.shape[-2:]
    count = min(rows, columns)
    nothing = factors.new_empty([0])
    order = _order(factors, pivots) if unpack_pivots else nothing
    if not unpack_data:
        return order, nothing, nothing.clone()
    lower = factors[..., :count].tril(-1) + torch.eye(rows, count, dtype=factors.dtype)
    return order, lower, factors[..., :count, :].triu()


def _lu(x: Any, *, pivot: bool = True) -> Any:
    factors, pivots = torch.linalg.lu_factor_ex(x, pivot=pivot)[:2]
    return _unpack(factors, pivots)


def _lu_factor(x: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if pivot:
        return NotImplemented
    raise ValueError("LU factors without pivots are not supported; factor with pivot=True")


def _lu_solve(factors: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    if not left:
        return _lu_solve(factors, pivots, b.mT, adjoint=not adjoint).mT
    order, triangular = _order(factors, pivots), torch.linalg.solve_triangular
    if adjoint:
        middle = triangular(factors.mT, b, upper=False)
        return order @ triangular(factors.mT, middle, upper=True, unitriangular=True)
    middle = triangular(factors, order.mT @ b, upper=False, unitriangular=True)
    return triangular(factors, middle, upper=True)


def _solve(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    factors, pivots, status = torch.linalg.lu_factor_ex(a)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    side = b.unsqueeze(-1) if vector else b
    found = _lu_solve(factors, pivots, side, left=left)
    return found.squeeze(-1) if vector else found, factors, pivots, status


def _inverse(x: Any, *, check_errors: bool = False) -> Any:
    factors, pivots, status = torch.linalg.lu_factor_ex(x)
    return _lu_solve(factors, pivots, _unit(x, x.shape[-1])), status


def _parity(factors: Any, pivots: Any) -> Any:
    moved = (pivots != torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)).sum(-1)
    return (1 - 2 * (moved % 2)).to(factors.dtype)


def _determinant(x: Any) -> Any:
    factors, pivots, _ = torch.linalg.lu_factor_ex(x)
    return _diagonal(factors).prod(-1) * _parity(factors, pivots), factors, pivots


def _log_determinant(x: Any) -> Any:
    factors, pivots, _ = torch.linalg.lu_factor_ex(x)
    diagonal = _diagonal(factors)
    sign = torch.sign(diagonal).prod(-1) * _parity(factors, pivots)
    return sign, diagonal.abs().log().sum(-1), factors, pivots


def _wide_product(vectors: Any, factors: Any) -> Any:
    """The square matrix of a product of reflections."""
    rows = vectors.shape[-2]
    padded = torch.nn.functional.pad(vectors[..., : factors.shape[-1]], (0, rows - factors.shape[-1]))
    return torch.linalg.householder_product(padded, factors)


def _product(vectors: Any, factors: Any) -> Any:
    if factors.shape[-1] > 0:
        return NotImplemented
    return torch.eye(*vectors.shape[-2:], dtype=vectors.dtype).expand(vectors.shape).clone()


def _ormqr(vectors: Any, factors: Any, x: Any, left: bool = True, transpose: bool = False) -> Any:
    square = _wide_product(vectors, factors)
    square = square.mT if transpose else square
    return square @ x if left else x @ square


def _exponential(x: Any) -> Any:
    """The series of a part of the matrix, squared again."""
    part = x.to(torch.float64) / 2**SQUARINGS
    unit = _unit(part, x.shape[-1])
    found = unit
    for n in range(TERMS, 0, -1):
        found = unit + part @ found / n
    for _ in range(SQUARINGS):
        found = found @ found
    return found.to(x.dtype)


def _pseudoinverse(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if x.numel() == 0:
        return x.mT.clone()
    if hermitian:
        signed, left = torch.linalg.eigh(x)
        right, values = left.mT, signed.abs()
    else:
        left, signed, right = torch.linalg.svd(x, full_matrices=False)
        values = signed
    default = torch.finfo(x.dtype).eps * max(x.shape[-2:])
    if rtol is None:
        rtol = default if atol is None else torch.where(atol > 0, 0.0, default)
    share = values.amax(-1, keepdim=True) * _column(rtol)
    bound = share if atol is None else torch.maximum(share, _column(atol))
    kept = values > bound
    inverse = torch.where(kept, 1 / torch.where(kept, signed, 1.0), 0.0)
    return right.mT @ (inverse.unsqueeze(-1) * left.mT)


def _column(value: Any) -> Any:
    return value.unsqueeze(-1) if isinstance(value, torch.Tensor) else value


OURS: Mapping[str, Callable[..., Any]] = {
    "linalg_cholesky_ex": _root,
    "cholesky": _cholesky,
    "cholesky_solve": _cholesky_solve,
    "cholesky_inverse": _cholesky_inverse,
    "linalg_solve_triangular": _solve_triangular,
    "triangular_solve": _triangular_solve,
    "lu_unpack": _unpack,
    "linalg_lu": _lu,
    "linalg_lu_factor_ex": _lu_factor,
    "linalg_lu_solve": _lu_solve,
    "_linalg_solve_ex": _solve,
    "linalg_inv_ex": _inverse,
    "_linalg_det": _determinant,
    "_linalg_slogdet": _log_determinant,
    "linalg_householder_product": _product,
    "ormqr": _ormqr,
    "linalg_matrix_exp": _exponential,
    "linalg_pinv.atol_rtol_tensor": _pseudoinverse,
}
"""By the operator's name, as ``decompositions.OURS``."""
