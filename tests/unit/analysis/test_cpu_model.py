from __future__ import annotations

from dataclasses import Field, fields, replace
from typing import Any

import numpy as np
import pytest
from marked_nests import AVX512, MEASURED, marked

from tools.reference import cpu_model
from tunesmith.analysis.cpu_model import Cache, CpuModel
from tunesmith.analysis.model import Costs


@pytest.mark.parametrize("figure", fields(CpuModel), ids=lambda figure: figure.name)
def test_every_figure_is_documented(figure: Field[Any]) -> None:
    (row,) = (line for line in cpu_model().splitlines() if line.startswith(f"| `{figure.name}` |"))
    default, unit, source, meaning = (cell.strip() for cell in row.strip("|").split("|")[1:])
    assert all(cell[0].isalnum() for cell in (default, unit, source, meaning))
    assert meaning.endswith(".")


def test_a_cpu_of_which_little_is_known() -> None:
    little, measured = CpuModel.of(4, 32, 16), CpuModel.of(2, 64, 32, MEASURED)
    assert little.lanes() == 8
    assert little.clock == pytest.approx(3e9)
    assert len(little.caches) == 3
    assert little.bandwidth == 35e9
    assert measured.clock == pytest.approx(5e11 / (2 * 2 * 2 * 16))
    assert (measured.peak_flops, measured.bandwidth) == (5e11, 4e10)
    assert [cache.size for cache in measured.caches] == [32768, 1 << 20, 1 << 24]


def test_the_reference_brings_a_byte_in_seven_multiply_adds() -> None:
    assert CpuModel().byte_macs == 7.0
    assert CpuModel().conversion_macs == 32.0
    assert CpuModel.of(2, 64, 32, MEASURED.model_copy(update={"bandwidth": 4e9})).byte_macs == pytest.approx(62.5)


def test_slow_memory_makes_slow_candidates_and_spills_do() -> None:
    nest, knobs = marked()
    choice = np.array([[0, 0, 0], [2, 3, 1]], dtype=np.int64)
    cold = replace(AVX512, caches=(Cache(64, 1e12),))
    slow = replace(cold, bandwidth=cold.bandwidth / 1000)
    assert (Costs(nest, knobs, choice, slow).seconds() > Costs(nest, knobs, choice, cold).seconds()).all()
    assert not Costs(nest, knobs, choice, replace(AVX512, max_spill=0.0)).feasible().any()
    assert Costs(nest, knobs, choice, AVX512).feasible().all()
