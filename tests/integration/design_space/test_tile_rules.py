"""Rules with a matrix unit: right whatever is decided, all of a product on its instruction, preferred by estimates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pair_tasks
import pytest
import quad_tasks
import rule_checks
from emulated import emulated
from pair_tasks import arguments, convolution, dense, of_groups

import tvm  # isort: skip
from tvm.target import codegen  # isort: skip

from tunesmith.arithmetic import NARROW
from tunesmith.search.construction import construct
from tunesmith.targets import Target
from workers.tvm_backend import tir
from workers.tvm_backend.design_space import space
from workers.tvm_backend.design_space.rules.matrix import blocks_of_tiles
from workers.tvm_backend.design_space.rules.registers import Tile
from workers.tvm_backend.design_space.static_model import prior_of

pytestmark = pytest.mark.parallel

SAPPHIRE = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
HIDDEN = Target(
    {"kind": "llvm", "mcpu": "rocketlake", "mattr": ["+amx-tile", "+amx-bf16", "+amx-int8"], "num-cores": 2}
)
"""A virtual machine may show a name that says nothing of the unit."""
UNIT = re.compile(r"\btdp(?:bf16ps|busd)\b")


def in_tiles(task: Any, each: int = 1) -> list[Any]:
    """Scheduled modules of a task that use the unit."""
    mods = rule_checks.scheduled(task, SAPPHIRE, each)
    return [mod for mod in mods if "ts_amx" in str(tvm.ir.save_json(mod))]


PAIRS = {
    "rows of full tiles": lambda: dense((32,), 6, 32),
    "rows that pad the last tile": lambda: dense((37,), 4, 16, residual=True),
    "several row axes": lambda: dense((3, 14), 4, 8),
    "panels of several tiles": lambda: dense((16,), 2, 16, lanes=32),
    "a border": lambda: convolution((1, 2, 7, 7), 3, (3, 3), padding=(1, 1, 1, 1), residual=True),
    "two images, a dilated kernel": lambda: convolution((2, 2, 9, 14), 2, (2, 3), dilation=(1, 2), rounded=False),
    "a stride": lambda: convolution((1, 2, 9, 15), 3, (3, 3), stride=(2, 2), padding=(1, 1, 1, 1)),
    "a stride without a window": lambda: convolution((1, 2, 8, 14), 3, (1, 1), stride=(2, 2)),
    "rows of a window": lambda: convolution((1, 2, 20, 23), 2, (7, 7), stride=(2, 2), padding=(3, 3, 3, 3), inner=2),
    "one pixel of a kernel": lambda: convolution((1, 3, 4, 16), 4, (1, 1)),
    "blocks as deep as a tile": lambda: convolution((1, 2, 6, 7), 3, (3, 3), padding=(1,) * 4, inner=32, lanes=32),
    "a stride over deep blocks": lambda: convolution((1, 2, 8, 14), 2, (1, 1), stride=(2, 2), inner=32, lanes=32),
    "products of groups": lambda: of_groups(2, 20, 34, 49, fill=32, residual=True),
    "shallow products of groups": lambda: of_groups(2, 14, 6, 32, fill=16),
    "a window, into deep blocks": lambda: convolution((1, 2, 8, 14), 2, (3, 3), inner=2, lanes=32),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    task = PAIRS[name]()
    here = rule_checks.here()
    expected = pair_tasks.run(tir.load_module(task.module), task, here)
    step = 2.0**-7 if arguments(task)[-1].meaning != "float32" else 1e-5
    mods = in_tiles(task)
    assert mods
    for mod in mods:
        found = pair_tasks.run(emulated(mod), task, here)
        np.testing.assert_allclose(found, expected, rtol=step, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize(
    "case",
    [
        lambda: quad_tasks.dense((20,), 64, 64),
        lambda: quad_tasks.dense((16,), 32, 48),
        lambda: quad_tasks.convolution((1, 32, 7, 7), 48, 3, padding=(1, 1, 1, 1)),
        lambda: quad_tasks.convolution((1, 64, 5, 7), 128, 3, padding=(1, 1, 1, 1), widest=64),
        lambda: quad_tasks.convolution((1, 96, 4, 8), 96, 1, stride=(2, 2), widest=64),
    ],
    ids=["dense layer", "a quarter of the depth", "convolution", "blocks as deep as a tile", "half as deep"],
)
def test_quads(case: Any) -> None:
    made = case()
    mods = in_tiles(made.task)
    assert mods
    for mod in mods:
        np.testing.assert_array_equal(made.run(emulated(mod), rule_checks.here()), made.expected)


@pytest.mark.parametrize("target", [SAPPHIRE, HIDDEN], ids=["by name", "by feature"])
def test_the_compiled_code_multiplies_on_the_unit_alone(target: Target) -> None:
    task = convolution((1, 2, 7, 7), 3, (3, 3), padding=(1, 1, 1, 1))
    mods = [mod for mod in rule_checks.scheduled(task, target, 1) if "ts_amx" in str(tvm.ir.save_json(mod))]
    assert mods
    text = str(tvm.compile(mods[0], target=tir.tvm_target(target)).mod.inspect_source("asm"))
    assert UNIT.search(text)
    assert "tilestored" in text
    assert ("vcvtneps2bf16" in text) == ("avx512bf16" in str(target.json) or target is SAPPHIRE)
    assert "vpmovdw" not in text or target is not SAPPHIRE, "nothing is rounded by integers"
    assert not re.search(r"\bvfn?madd|\bvdpbf16ps|\bcallq?\b.*ts_amx_(?:zero|store|bf16)", text)


def test_llvm_knows_the_same_cpus_to_have_the_unit() -> None:
    for name in codegen.llvm_get_cpu_archlist(tir.tvm_target(SAPPHIRE)):
        target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": str(name), "num-cores": 2})
        made = tir.tvm_target(target)
        has = [
            precision
            for precision, narrow in NARROW.items()
            if all(codegen.target_has_features(each, made) for each in narrow.tiles)
        ]
        assert target.tiled == tuple(has), name


def test_wide_strides_and_few_rows_are_left_to_vectors() -> None:
    assert not in_tiles(convolution((1, 2, 13, 13), 2, (3, 3), stride=(3, 3)))
    assert not in_tiles(dense((2,), 4, 32))


def test_rows_of_a_map_are_divided_and_enough_tiles_are_accumulated() -> None:
    assert blocks_of_tiles(7, 60, whole=True) == [Tile(1, 6), Tile(1, 5)], "seven rows are no multiple of two"
    assert blocks_of_tiles(7, 60)[0] == Tile(2, 3), "the last rows are padded"
    assert blocks_of_tiles(28, 6, whole=True) == [Tile(2, 3), Tile(2, 2)]
    assert blocks_of_tiles(7, 2, whole=True) == [Tile(1, 2)], "there are no more"


@pytest.mark.parametrize(
    "made_of",
    [lambda: dense((64,), 8, 64), lambda: of_groups(4, 136, 136, 49, fill=32)],
    ids=["a dense layer", "groups whose last pixels fill no tile"],
)
def test_the_static_model_prefers_the_unit(made_of: Callable[[], Any]) -> None:
    task = made_of()
    bodies = space.generate(task.module, SAPPHIRE)
    traces = space.TraceSpace(task.module, SAPPHIRE, bodies)
    prior = prior_of(traces, SAPPHIRE, None)
    assert prior is not None
    made = construct(traces.space, prior, np.random.default_rng(0), 8, 256)
    best = traces.space.candidates(made)[int(np.nanargmin(prior(made)))]
    assert "ts_amx" in str({body.hash: body.trace for body in bodies}[best.sketch])
