"""Which device this worker measures on, and what it is called."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.client import Client
from tunesmith.errors import InvalidInput
from tunesmith.resources import process_name
from tunesmith.signing import ensure_key, has_key, not_enrolled
from tunesmith.targets import Target, cpu_of_class, local_cpu_classes, parse_target, slug, tags
from workers.settings import MEASURE, Settings
from workers.tvm_backend.build.cuda_compiler import require_compiler
from workers.tvm_backend.host import Host


@dataclass(frozen=True)
class DeviceIdentity:
    """The device as the fleet knows it.

    Attributes:
        worker: this process's life: host, pid and a random part.
        name: stable: host and key.
        classes: device classes that it serves.
        target: target JSON of the whole device.
    """

    worker: str
    name: str
    host: str
    key: str
    classes: tuple[str, ...]
    target: dict[str, Any]
    cores: int
    simulated: bool


def identify(settings: Settings, host: Host) -> DeviceIdentity:
    """The device that the settings describe, by default this host's CPU."""
    classes = served_classes(settings, host)
    key = device_key(settings)
    return DeviceIdentity(
        worker=process_name(host.name),
        name=f"{host.name}/{key}",
        host=host.name,
        key=key,
        classes=classes,
        target=target_of(classes, host),
        cores=host.cores,
        simulated=settings.simulate,
    )


def device_key(settings: Settings) -> str:
    """The device's key at the tracker; a simulated device is none, and must not pass for this host's real one."""
    if settings.device_key:
        return settings.device_key
    kind = "simulated-" + "-".join(_named_classes(settings)[:1] or ("cpu",)) if settings.simulate else "cpu"
    return f"{socket.gethostname()}-{kind}"


def served_classes(settings: Settings, host: Host) -> tuple[str, ...]:
    """Device classes: those of the settings, those named as queues, else this CPU with one to all of its cores."""
    return _named_classes(settings) or local_cpu_classes(host.mcpu, host.cores, host.features)


def _named_classes(settings: Settings) -> tuple[str, ...]:
    queues = tuple(name.partition(".")[2] for name in settings.queues if name.startswith(f"{MEASURE}."))
    return settings.device_classes or queues


def check_device(settings: Settings) -> None:
    """Refuse, before anything is loaded, a worker that could not serve the device classes that it names.

    Raises:
        InvalidInput: a simulated device that would pass for this host's own.
        MissingDependency: a class that is built with CUDA, and no compiler for it; names both remedies.
    """
    named = _named_classes(settings)
    if settings.simulate and not named:
        raise InvalidInput(
            "a simulated device needs its device classes: set TUNESMITH_DEVICE_CLASSES, for example to "
            "nvidia-nvidia-h100",
            field="device_classes",
            value="",
        )
    require_compiler(expected_kind(settings))


def check_enrolled(settings: Settings) -> None:
    """Refuse a worker without a key: nobody would believe its reports. With a key for it, it enrols itself.

    Raises:
        NotEnrolled: naming the remedy.
        TunesmithError: the coordinator refuses it, or does not answer.
    """
    if settings.enrolment_key is not None:
        with Client(settings.coordinator_url, settings.enrolment_key.get_secret_value() or None) as client:
            client.enrol_worker(socket.gethostname()[:100], ensure_key(settings.data_dir))
    if not has_key(settings.data_dir):
        raise not_enrolled(settings.data_dir)


def expected_kind(settings: Settings) -> str:
    """Kind of the targets that this worker will build for, as far as the settings tell; else this host's CPU."""
    kinds = {str((_known_target(name) or {}).get("kind", "llvm")) for name in _named_classes(settings)}
    return "cuda" if "cuda" in kinds else "llvm"


def target_of(classes: Sequence[str], host: Host) -> dict[str, Any]:
    """The target of a device that serves ``classes``.

    Raises:
        InvalidInput: a class is neither this CPU's, nor a tag's, nor ``cuda-<arch>``.
    """
    own = local_cpu_classes(host.mcpu, host.cores, host.features)
    if set(classes) <= set(own):
        return host.target
    name = classes[0]
    found = _known_target(name)
    if found is not None:
        return found
    raise InvalidInput(
        f"device class {name!r} is neither this host's ({', '.join(own)}), nor the slug of "
        "a TVM tag such as nvidia-nvidia-h100, nor cuda-<arch>, nor llvm-<mcpu>-<cores>",
        field="device_classes",
        value=name,
    )


def _known_target(name: str) -> dict[str, Any] | None:
    """The target of a device class, as far as its name tells."""
    for tag in tags():
        if slug(tag) == name:
            target = parse_target(tag).target
            return target.to_json() if target is not None else None
    if name.startswith("cuda-"):
        return Target({"kind": "cuda", "arch": name.removeprefix("cuda-")}).to_json()
    return cpu_of_class(name)
