"""Candidates by names: what they become, and how each mistake is named."""

from __future__ import annotations

from typing import Any

import pytest

from tunesmith.errors import InvalidProposal
from tunesmith.space.proposed import NamedSketch, candidate_of
from tunesmith.types import Candidate

TRACE = [
    ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l0", "l1"]],
    ["SamplePerfectTile", ["l0"], [3, 8], ["v0", "v1", "v2"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v3"]],
    ["Annotate", ["b0", "v3"], ["meta_schedule.unroll_explicit"], []],
    ["SampleComputeLocation", ["b0"], [], ["v4"]],
]
KNOBS = [
    {"kind": "perfect_tile", "extent": 64, "parts": 3, "max_innermost": 8},
    {"kind": "categorical", "size": 3},
    {"kind": "compute_location", "low": -2, "high": 5},
]
SKETCHES = {"s": NamedSketch.of("s", {"trace": TRACE, "knobs": KNOBS})}
GOOD: dict[str, Any] = {"matmul.loop_0": [4, 2, 8], "unroll": 2, "matmul.compute_location": -1}


def test_knobs_by_name_become_decisions_in_the_traces_order() -> None:
    turned = dict(reversed(GOOD.items()))
    assert candidate_of("s", turned, SKETCHES) == Candidate("s", ((4, 2, 8), 2, -1))


@pytest.mark.parametrize(
    ("sketch", "change", "code", "field", "said"),
    [
        ("other", {}, "unknown_sketch", "candidate.sketch", "no sketch 'other': it has s"),
        ("s", {"unrol": 1}, "unknown_knob", "candidate.knobs", "did you mean 'unroll'?"),
        ("s", {"threads": 1}, "unknown_knob", "candidate.knobs", "it has matmul.loop_0, unroll"),
        ("s", {"unroll": ...}, "missing_knob", "candidate.knobs", "unroll missing"),
        ("s", {"unroll": 3}, "knob_out_of_range", "candidate.knobs.unroll", "one of 3 choices, 0 to 2"),
        ("s", {"unroll": -1}, "knob_out_of_range", "candidate.knobs.unroll", "0 to 2"),
        ("s", {"unroll": True}, "knob_out_of_range", "candidate.knobs.unroll", "0 to 2"),
        ("s", {"unroll": "1"}, "knob_out_of_range", "candidate.knobs.unroll", "0 to 2"),
        ("s", {"unroll": [1]}, "knob_out_of_range", "candidate.knobs.unroll", "0 to 2"),
        ("s", {"matmul.compute_location": 6}, "knob_out_of_range", "candidate.knobs.matmul.compute_location", "to 5"),
        *(
            ("s", {"matmul.loop_0": tile}, "knob_out_of_range", "candidate.knobs.matmul.loop_0", "product is 64")
            for tile in ([4, 2, 4], [4, 1, 16], [64, 1], [-4, -2, 8], [0, 0, 0], [2**70, 1, 1], [4.0, 2, 8], None, {})
        ),
    ],
)
def test_each_mistake_has_a_name(sketch: str, change: dict[str, Any], code: str, field: str, said: str) -> None:
    knobs = {name: value for name, value in {**GOOD, **change}.items() if value is not ...}
    with pytest.raises(InvalidProposal) as caught:
        candidate_of(sketch, knobs, SKETCHES)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert said in caught.value.detail
