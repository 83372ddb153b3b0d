"""What each process of the embedded stack finds in its environment: what it needs, and no secret of another's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from services.coordinator.settings import Settings

PREFIX = "TUNESMITH_"
MARK = f"{PREFIX}BENCH_TREE"
"""How a benchmark finds again what it started; no secret."""

_SYSTEM = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", MARK})
_SYSTEM_PREFIXES = ("LC_", "PYTHON")
_COMPUTE = frozenset({"CC", "CXX", "VIRTUAL_ENV", "XDG_CACHE_HOME"})
_COMPUTE_PREFIXES = ("TVM_", "CUDA_", "NVIDIA_", "OMP_", "OPENBLAS_", "MKL_", "GOMP_", "KMP_", "MALLOC_", "ZIG_")
"""What the compiler, the linker and kernels read."""

WORKER_SETTINGS = frozenset(
    {
        "data_dir",
        "database_url",
        "broker_url",
        "reports_url",
        "blob_dir",
        "queues",
        "concurrency",
        "work_timeout",
        "ingest_timeout",
        "max_attempts",
        "device_timeout",
        "lease_file",
        "tracker",
        "device_key",
        "device_classes",
        "memory_share",
        "calibration_interval",
        "drift_limit",
        "quarantine_limit",
        "quarantine_seconds",
        "simulate",
        "umask",
        "log_level",
        "coordinator_url",
        "enrolment_key",
        "import_seconds",
        "import_cpu_seconds",
        "import_memory_share",
        "trust_models",
        "device_failures",
        "device_rest_seconds",
        "references",
    }
)
"""The settings of ``workers.settings``, which services may not import; a test compares the two."""

DATABASE = frozenset({"database_url"})
TRACKER_SETTINGS = frozenset({"data_dir", "lease_file", "tracker", "device_key", "log_level"})
DEVICE_SETTINGS = frozenset({"memory_share", "trust_models"})
"""A device runs candidates, code that nobody has read: no setting of the service is near that it does without."""
_NO_DEVICES = frozenset({MARK, "CELERY_LOADER", "XDG_CACHE_HOME"})


def for_service(env: Mapping[str, str]) -> dict[str, str]:
    """For Redis, which needs no setting."""
    return _pick(env, _SYSTEM, _SYSTEM_PREFIXES, ())


def for_coordinator(env: Mapping[str, str]) -> dict[str, str]:
    """For the coordinator: the only one that gets the admin key and the key that signs."""
    return _pick(env, _SYSTEM, _SYSTEM_PREFIXES + _COMPUTE_PREFIXES, Settings.model_fields)


def for_worker(env: Mapping[str, str], without: frozenset[str] = frozenset()) -> dict[str, str]:
    """For a worker, ``without`` some settings of workers."""
    return _pick(env, _SYSTEM | _COMPUTE, _SYSTEM_PREFIXES + _COMPUTE_PREFIXES, WORKER_SETTINGS - without)


def for_tracker(env: Mapping[str, str]) -> dict[str, str]:
    """For the tracker, which hands the device out."""
    return for_worker(env, WORKER_SETTINGS - TRACKER_SETTINGS)


def for_device(env: Mapping[str, str]) -> dict[str, str]:
    """For the device: where it finds more than this, it starts anew without it, once it has loaded everything."""
    found = for_worker(env, WORKER_SETTINGS - DEVICE_SETTINGS)
    return {key: value for key, value in found.items() if key not in _NO_DEVICES}


def _pick(
    env: Mapping[str, str], names: frozenset[str], prefixes: tuple[str, ...], settings: Iterable[str]
) -> dict[str, str]:
    wanted = names | {PREFIX + name.upper() for name in settings}
    found = {key: value for key, value in env.items() if key in wanted or key.startswith(prefixes)}
    if "PYTHONPATH" in found:  # an empty entry means the working folder
        found["PYTHONPATH"] = os.pathsep.join(path for path in found["PYTHONPATH"].split(os.pathsep) if path)
    found.pop("PYTHONIOENCODING", None)  # the terminal's encoding; logs and paths are UTF-8, whatever the locale says
    return found | {"PYTHONSAFEPATH": "1", "PYTHONUTF8": "1", "CELERY_LOADER": "app"}
