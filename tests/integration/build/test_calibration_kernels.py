"""The kernels that show a CPU's limits: they compute what they should, and a real device is calibrated with them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rpc_device import RpcDevice

from tunesmith.host import cache_sizes, core_caches
from tunesmith.types import DeviceHealth
from workers.measure.calibration import Calibrator
from workers.measure.drift import Rules
from workers.sandbox.pool import Actor, Pool
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.build import calibration_kernels
from workers.tvm_backend.build.calibration_kernels import (
    CHAINS,
    LANES,
    PAIR_CHAINS,
    ROW,
    Kernel,
    Peak,
    QuadPeak,
    Read,
    Reference,
)
from workers.tvm_backend.build.tile_peak import TilePeak
from workers.tvm_backend.host import describe_from_outside
from workers.tvm_backend.run.runner import RpcRunner
from workers.tvm_backend.warm import warm

X86 = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}


@pytest.fixture(scope="module", autouse=True)
def _warmed() -> None:
    warm("llvm")


def computed(kernel: Kernel, folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs and output of a run here, for a plain target."""
    import tvm

    built = calibration_kernels.build(kernel, X86, folder / "kernel.so")
    assert (built.args, built.flops) == (kernel.args, kernel.work)
    arrays = [random_array(spec, seed) for seed, spec in enumerate(kernel.args)]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.runtime.load_module(str(built.path))[built.function](*tensors)
    return arrays[:-1], tensors[-1].numpy()


@pytest.mark.parametrize("lanes", LANES)
def test_multiply_adds_go_as_often_as_they_say(tmp_path: Path, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_kernels, "ROUNDS", 3)  # few enough not to have converged
    kernel = Peak(threads=2, lanes=lanes)
    assert kernel.work == 2 * 2 * CHAINS * lanes * 3
    (x, y), out = computed(kernel, tmp_path)
    acc = y * np.arange(1, CHAINS + 1, dtype="float32")[:, None]
    for _ in range(3):
        acc = acc * x + y
    np.testing.assert_allclose(out.reshape(2, CHAINS, lanes), np.stack([acc, acc]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("passes", [1, 3])
def test_every_byte_is_read_in_every_pass(tmp_path: Path, passes: int) -> None:
    kernel = Read(threads=2, size=1 << 18, passes=passes)
    assert kernel.work == passes * (1 << 18)
    (data,), out = computed(kernel, tmp_path)
    expected = passes * data.reshape(2, -1, ROW).sum(axis=1)
    np.testing.assert_allclose(out.reshape(2, ROW), expected, rtol=1e-3, atol=1e-3)


def test_the_reference_is_a_gemm(tmp_path: Path) -> None:
    (a, b), out = computed(Reference(64), tmp_path)
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kernel", [*calibration_kernels.peaks(4), Read(4, 1 << 20), Reference()])
def test_other_cpus_get_them_as_well(kernel: Kernel) -> None:
    """Cross-compiled only: there is no such device here."""
    import tvm

    arm = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 4}
    text = str(tvm.compile(kernel.module(), target=tvm.target.Target(arm)).mod.inspect_source("asm"))
    assert "fmla" in text or isinstance(kernel, Read)
    assert ".4s" in text


def test_a_cpu_with_instructions_for_narrow_types_has_their_peaks() -> None:
    """Cross-compiled only: nothing but the instruction is in the loop, as often for each chain."""
    import tvm

    assert calibration_kernels.narrow_peaks(X86) == {}
    zen4 = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
    found = calibration_kernels.narrow_peaks(zen4)
    assert list(found) == ["bf16", "int8"]
    for kernel, group, name in zip(found.values(), (2, 4), ("vdpbf16ps", "vpdpbusd"), strict=True):
        text = str(tvm.compile(kernel.module(), target=tvm.target.Target(zen4)).mod.inspect_source("asm"))
        loop = max(re.findall(rf"(?:\t{name}\t.*\n|\t(?:add|dec|sub)l\t.*\n)+", text), key=len)
        assert loop.count(name) >= PAIR_CHAINS
        assert loop.count(name) % PAIR_CHAINS == 0
        assert kernel.work == 2 * group * 2 * PAIR_CHAINS * LANES[0] * calibration_kernels.ROUNDS
    units = calibration_kernels.narrow_peaks({**zen4, "mcpu": "sapphirerapids"})
    assert units == {"bf16": TilePeak(2, "bf16"), "int8": TilePeak(2, "int8")}
    for kernel, name in zip(units.values(), ("tdpbf16ps", "tdpbusd"), strict=True):
        sapphire = tvm.target.Target({**zen4, "mcpu": "sapphirerapids"})
        text = str(tvm.compile(kernel.module(), target=sapphire).mod.inspect_source("asm"))
        assert text.count(f"\t{name}\t") % 6 == 0 < text.count(name), "as many for each accumulator"
    assert calibration_kernels.narrow_peaks({**zen4, "mcpu": "alderlake"}) == {"int8": QuadPeak(2, lanes=8)}


def test_a_small_read_is_repeated_and_a_large_one_is_not() -> None:
    assert calibration_kernels.cached_read(2, 1 << 15).passes == 2048
    assert calibration_kernels.cached_read(2, 1 << 28).passes == 1
    low, high = calibration_kernels.UNCACHED_BYTES
    assert low <= calibration_kernels.uncached_read(2).work <= high


def test_caches_that_cores_share_count_once(tmp_path: Path) -> None:
    def cache(core: int, index: int, level: str, kind: str, size: str, shared: str) -> None:
        folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            (folder / name).write_text(text + "\n")

    for core in (0, 1, 10):
        cache(core, 0, "1", "Data", "48K", str(core))
        cache(core, 1, "1", "Instruction", "32K", str(core))
        cache(core, 2, "3", "Unified", "32768K", "0-1" if core < 10 else "10")
    assert cache_sizes([0, 1], tmp_path) == {1: 2 * 48 << 10, 3: 32 << 20}
    assert cache_sizes([0, 1, 10], tmp_path) == {1: 3 * 48 << 10, 3: 64 << 20}
    assert cache_sizes([7], tmp_path) == {}


def test_caches_of_one_core(tmp_path: Path) -> None:
    first = min(os.sched_getaffinity(0))
    for core, size in ((first, "48K"), (first + 1, "64K")):
        folder = tmp_path / f"cpu{core}" / "cache" / "index0"
        folder.mkdir(parents=True)
        for name, text in (("level", "1"), ("type", "Data"), ("size", size), ("shared_cpu_list", str(core))):
            (folder / name).write_text(text)
    assert core_caches(tmp_path) == (48 << 10,)
    assert core_caches(tmp_path / "none") == ()


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcDevice]:
    made = RpcDevice(tmp_path_factory.mktemp("device"))
    yield made
    made.stop()


def test_a_real_device_is_calibrated_and_its_calibration_kept(device: RpcDevice, tmp_path: Path) -> None:
    target = {**describe_from_outside().target, "num-cores": 1}
    rules = Rules(quarantine=1e9)  # this machine may be busy
    with Pool(Actor("workers.tvm_backend.build.builder:Builder", (str(device.lease),)), 1) as builders:
        runner = RpcRunner(device.tracker, device.key, device.lease, wait=30.0)
        try:
            first = Calibrator(builders, runner, tmp_path, rules=rules)
            first.refresh(target)
            later = Calibrator(builders, runner, tmp_path, rules=rules)
            later.refresh(target)
        finally:
            runner.close()
    found, repeated = first.calibration(target), later.calibration(target)
    assert found is not None
    assert repeated is not None
    assert 1e8 < found.peak_flops < 1e12
    assert 1e7 < found.bandwidth < 1e12
    assert found.noise_floor > 0
    assert found.peak_flops > Reference().work / found.reference_seconds * 0.9  # nothing is faster than the peak
    assert (repeated.peak_flops, repeated.reference_seconds) == (found.peak_flops, found.reference_seconds)
    assert repeated.latest_seconds != found.latest_seconds
    assert later.health(target) is not DeviceHealth.QUARANTINED
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".so"]
