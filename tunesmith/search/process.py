"""Gaussian process regression of latencies (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006).

The kernel is Matérn's of order 3/2: latency is continuous in the knobs' numbers, not smooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tunesmith.search.extras import extra
from tunesmith.space.base import Floats

ORDER = 1.5


class Process:
    """A Gaussian process of prior mean 0 and prior variance 1, by scikit-learn.

    Args:
        codes: float64 [n, dims], the known points.
        values: float64 [n], standardised.
        noise: float64 [n], the variance of each value's error.
        length: the kernel's length scale, in units of the codes.

    Attributes:
        likelihood: logarithm of the marginal likelihood of the values.
    """

    def __init__(self, codes: Floats, values: Floats, noise: Floats, length: float) -> None:
        module: Any = extra("sklearn.gaussian_process", "bayesian")
        kernel = module.kernels.Matern(length, "fixed", nu=ORDER)
        self._model = module.GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(codes, values)
        self.likelihood = float(self._model.log_marginal_likelihood_value_)

    def each(self, codes: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation at each point: two float64 [n]."""
        mean, deviation = self._model.predict(codes, return_std=True)
        return mean, deviation

    def joint(self, codes: Floats) -> tuple[Floats, Floats]:
        """Means, float64 [n], and covariances, float64 [n, n]."""
        mean, covariance = self._model.predict(codes, return_cov=True)
        return mean, covariance


def likeliest(codes: Floats, values: Floats, lengths: Sequence[float], noises: Sequence[float]) -> tuple[float, float]:
    """The length scale and the noise under which the values are most likely."""
    found = [
        (Process(codes, values, np.full(len(values), noise), length).likelihood, length, noise)
        for length in lengths
        for noise in noises
    ]
    _, length, noise = max(found)
    return length, noise
