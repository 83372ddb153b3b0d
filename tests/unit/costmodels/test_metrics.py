from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from costmodels.metrics import (
    evaluate,
    network_top_k_score,
    pairwise_accuracy,
    peak_at_k,
    recall_at_k,
    top_k_score,
)

INF = float("inf")


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


LATENCY = array(1.0, 2.0, 4.0, 8.0)


def test_pairwise_by_hand() -> None:
    assert pairwise_accuracy(array(4, 3, 2, 1), LATENCY) == 1.0
    assert pairwise_accuracy(array(1, 2, 3, 4), LATENCY) == 0.0
    assert pairwise_accuracy(array(3, 4, 2, 1), LATENCY) == pytest.approx(5 / 6)
    assert pairwise_accuracy(array(1, 1, 1, 1), LATENCY) == 0.5


def test_pairwise_leaves_equal_latencies_and_pairs_of_failures_out() -> None:
    assert pairwise_accuracy(array(3, 1, 2, 0), array(1, 1, INF, INF)) == pytest.approx(3 / 4)
    assert math.isnan(pairwise_accuracy(array(1, 2), array(INF, INF)))
    assert math.isnan(pairwise_accuracy(array(1), array(1)))


def test_pairwise_with_a_gap() -> None:
    latency = array(1.0, 1.04, 2.0)
    scores = array(1, 2, 0)
    assert pairwise_accuracy(scores, latency) == pytest.approx(2 / 3)
    assert pairwise_accuracy(scores, latency, gap=0.05) == 1.0


def brute_pairwise(scores: np.ndarray, latency: np.ndarray) -> float:
    hits = []
    for i in range(len(scores)):
        for j in range(i + 1, len(scores)):
            if latency[i] != latency[j]:
                right = (scores[i] > scores[j]) == (latency[i] < latency[j])
                hits.append(0.5 if scores[i] == scores[j] else float(right))
    return float(np.mean(hits)) if hits else float("nan")


@given(
    arrays(np.float64, 8, elements=st.integers(0, 5)),
    arrays(np.float64, 8, elements=st.sampled_from([1.0, 2.0, 3.0, INF])),
)
def test_pairwise_agrees_with_the_definition(scores: np.ndarray, latency: np.ndarray) -> None:
    assert pairwise_accuracy(scores, latency) == pytest.approx(brute_pairwise(scores, latency), nan_ok=True)


def test_top_k_by_hand() -> None:
    scores = array(1, 4, 3, 2)  # order of prediction: 2.0, 4.0, 8.0, 1.0
    assert top_k_score(scores, LATENCY, 1) == 0.5
    assert top_k_score(scores, LATENCY, 3) == 0.5
    assert top_k_score(scores, LATENCY, 4) == 1.0
    assert top_k_score(array(2, 1), array(INF, 1.0), 1) == 0.0
    assert math.isnan(top_k_score(array(1), array(INF), 1))
    assert math.isnan(top_k_score(array(), array(), 1))


def test_peak_by_hand() -> None:
    scores = array(1, 4, 3, 2)
    # labels in order of prediction 0.5, 0.25, 0.125, 1: running best 0.5, 0.5, 0.5, 1
    assert peak_at_k(scores, LATENCY, 1) == 0.5
    assert peak_at_k(scores, LATENCY, 4) == pytest.approx(2.5 / 4)
    assert math.isnan(peak_at_k(array(1), array(INF), 1))


def test_recall_by_hand() -> None:
    scores = array(1, 4, 3, 2)
    assert recall_at_k(scores, LATENCY, 1) == 0.0
    assert recall_at_k(scores, LATENCY, 2) == 0.5
    assert recall_at_k(scores, LATENCY, 4) == 1.0
    assert recall_at_k(array(2, 1, 0), array(1.0, INF, INF), 2) == 1.0
    assert math.isnan(recall_at_k(array(1), array(INF), 1))


def test_network_by_hand() -> None:
    tasks = [(2.0, array(1, 2), array(1.0, 3.0)), (1.0, array(2, 1), array(4.0, 8.0)), (9.0, array(1), array(INF))]
    assert network_top_k_score(tasks, 1) == pytest.approx((2 * 1 + 4) / (2 * 3 + 4))
    assert network_top_k_score(tasks, 2) == 1.0
    assert math.isnan(network_top_k_score(tasks[2:], 1))


def test_evaluate_weighs_workloads_by_their_programs() -> None:
    scores = array(2, 1, 1, 2, 3, 7)
    latency = array(1, 2, 1, 2, 3, INF)
    metrics = evaluate(scores, latency, np.array([0, 0, 1, 1, 1, 2]))
    assert (metrics.programs, metrics.workloads) == (6, 3)
    assert metrics.pairwise == pytest.approx((2 * 1.0 + 3 * 0.0) / 5)
    assert metrics.top1 == pytest.approx((2 * 1.0 + 3 / 3) / 5)
    assert metrics.to_json()["programs"] == 6
    nothing = evaluate(array(), array(), np.zeros(0, dtype=np.int64)).to_json()
    assert nothing["pairwise"] is None
