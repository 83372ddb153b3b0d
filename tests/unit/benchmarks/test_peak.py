from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.peak.command import COLUMNS, build
from benchmarks.peak.machine import Limits, Rates, measure, sweep, thread_counts
from tunesmith.cli.main import run_command_line


def limits(threads):
    """L1 of 64 KiB and L2 of 1 MiB a core; twice as fast for each thread, but for the memory."""
    reads = {4 << 10: 900e9, 32 << 10: 400e9, 512 << 10: 200e9, 256 << 20: 20e9}
    scaled = {at * threads: Rates((rate * threads, rate)) for at, rate in reads.items() if rate > 20e9}
    return Limits(
        threads,
        Rates((100e9 * threads, 90e9)),
        {1: 65536 * threads, 2: threads << 20},
        scaled | {256 << 20: Rates((20e9, 10e9))},
    )


def test_limits_are_the_fastest_samples_of_half_a_cache():
    peak = limits(2).peak
    assert peak.flops == 200e9
    assert [(level.name, level.size, level.bandwidth) for level in peak.levels] == [
        ("L1", 131072, 800e9),
        ("L2", 2 << 20, 400e9),
        ("memory", math.inf, 20e9),
    ]


def test_a_machine_that_tells_no_caches_has_its_memory():
    found = Limits(1, Rates((1e9,)), {}, {1 << 20: Rates((5e9, 3e9))})
    assert [level.name for level in found.peak.levels] == ["memory"]
    assert found.peak.levels[0].bandwidth == 5e9


def test_the_table_has_every_level_for_every_number_of_threads():
    pair = [replace(limits(n), narrow={"bf16": Rates((200e9 * n,))}) for n in (1, 2)]
    report = build(pair)
    assert pair[0].peak.of("bf16").flops == 200e9
    assert report.columns == COLUMNS
    assert [row[:2] for row in report.rows] == [
        (threads, what)
        for threads in (1, 2)
        for what in ("float32 arithmetic", "bf16 arithmetic", "read L1", "read L2", "read memory")
    ]
    assert [row[-1] for row in report.rows[5:]] == pytest.approx([2.0, 2.0, 2.0, 2.0, 1.0])


@pytest.mark.parametrize(("cores", "expected"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_threads_are_the_powers_of_two_and_all_cores(cores, expected):
    assert thread_counts(cores) == expected


def test_the_sweep_goes_up_to_the_memory_in_doublings():
    assert sweep(2, 128 << 10) == [16 << 10, 32 << 10, 64 << 10, 128 << 10]
    assert sweep(4, 1 << 10) == [32 << 10]


def test_this_machine_has_limits():
    found = measure(1, repeats=2)
    assert found.threads == 1
    assert found.flops.best > 1e8
    assert all(rates.best > 1e7 for rates in found.reads.values())
    assert found.peak.levels[-1].size == math.inf


def test_more_threads_than_cores_are_refused(capsys):
    assert run_command_line(["bench", "peak", "--threads", "100000"]) == 2
    assert "cores here, not 100000" in capsys.readouterr().err
