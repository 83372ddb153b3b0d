"""Knobs in words, from traces."""

from __future__ import annotations

from tunesmith.space.knob_names import described, knob_names

TILED = [
    ["GetSBlock", [], ["matmul", "main"], ["b0"]],
    ["GetSBlock", [], ["root", "main"], ["b1"]],
    ["CacheWrite", ["b0", []], [0, "local"], ["b3"]],
    ["GetLoops", ["b0"], [], ["l4", "l5", "l6"]],
    ["Split", ["l4", "None", 4], [True, False], ["l7", "l8"]],
    ["SamplePerfectTile", ["l7"], [2, 64], ["v9", "v10"]],
    ["SamplePerfectTile", ["l5"], [3, 3], ["v15", "v16", "v17"]],
    ["SamplePerfectTile", ["l5"], [3, 3], ["v18", "v19", "v20"]],
    ["SampleComputeLocation", ["b3"], [], ["l21"]],
    ["SampleCategorical", [], [[0, 16, 64, 512], [0.25, 0.25, 0.25, 0.25]], ["v26"]],
    ["Annotate", ["b1", "v26"], ["meta_schedule.unroll_explicit"], []],
]


def test_names_say_the_block_and_the_loop_and_differ() -> None:
    names = [knob.name for knob in knob_names(TILED)]
    assert names == [
        "matmul.loop_0.outer",
        "matmul.loop_1",
        "matmul.loop_1_2",
        "matmul.write.compute_location",
        "unroll",
    ]


def test_a_category_has_the_value_that_it_stands_for() -> None:
    found = described(TILED, [[1, 64], [1, 2, 3], [1, 2, 3], -1, 2])
    assert [knob["value"] for knob in found] == [[1, 64], [1, 2, 3], [1, 2, 3], -1, 64]
    assert found[-1]["decision"] == 2


def test_instructions_that_nobody_knows_are_passed_over() -> None:
    trace = [["Blockize", ["l1"], [True], ["b9"]], ["SamplePerfectTile", ["l2"], [2, 64], ["v5", "v6"]]]
    assert [knob.name for knob in knob_names(trace)] == ["l2"]
