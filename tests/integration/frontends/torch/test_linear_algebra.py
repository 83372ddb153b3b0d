"""PyTorch's linear algebra, polynomials, series and writes through views: what PyTorch makes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, linalg
from torch_function import Function

from tools.sweep.base import AGREES, Case
from tools.sweep.running import compare

pytestmark = pytest.mark.parallel
X = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(3)) + 2 * torch.eye(4)


def factors(x: Tensor) -> Any:
    """Each result is unique; the signs of vectors are not."""
    symmetric, definite = x + x.mT, x @ x.mT + torch.eye(4)
    lower, (lu, pivots) = linalg.cholesky(definite), linalg.lu_factor(x)
    left, values, right = linalg.svd(x[:, :3], full_matrices=True)
    return (
        *linalg.lu(x),
        linalg.det(x),
        linalg.lu_solve(lu, pivots, x, adjoint=True),
        lower,
        linalg.solve_triangular(x, x, upper=True, left=False, unitriangular=True),
        *linalg.qr(x[..., :2], mode="complete"),
        linalg.eigh(symmetric, "U")[1].abs(),
        left.abs(),
        values,
        right.abs(),
        linalg.det(x[:, :0, :0]),
        linalg.svd(x[:, :0])[2],
    )


def others(x: Tensor) -> Any:
    degrees = torch.arange(4) - 1
    whole = (x[0] * 5).to(torch.int64)
    return (
        torch.special.chebyshev_polynomial_t(x, degrees),
        torch.special.shifted_chebyshev_polynomial_w(x[0], 3),
        torch.special.laguerre_polynomial_l(x, degrees + 2),
        whole << (whole.T * 20),
        whole >> whole.T,
        (x[0] > 0) != (x[1] > 0),
        torch.where(x > 1, torch.nan, x).nanmean(),
        torch.diagonal_scatter(x[0], x[1, 0, :3], 1),
        torch.nextafter(x[0], x[1]),
        torch.igamma(x[0].abs() * 9, x[1].abs() * 9),
        torch.polygamma(1, x[0] - 3),
        torch.addr(x[0], x[0, 0] * torch.inf, x[0, 1], beta=0, alpha=0),
    )


@pytest.mark.parametrize("function", [factors, others])
def test_results_are_those_of_pytorch(tmp_path: Path, function: Callable[[Tensor], Any]) -> None:
    file, expected = io.BytesIO(), tuple(each.numpy() for each in function(X))
    torch.export.save(torch.export.export(Function(function), (X,)), file)
    case = Case("all", "all", "pt2", file.getvalue(), (X.numpy(),), expected, (), 2e-4, 2e-5)
    assert compare(case, tmp_path) == (AGREES, "")
