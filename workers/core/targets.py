"""From what the user asked for to a concrete target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from db.repositories import devices
from tunesmith.errors import TargetUnavailable
from tunesmith.targets import Target, TargetSpec, parse_target
from workers.core.context import Context
from workers.tvm_backend import host


def resolve(context: Context, spec: str) -> Target:
    """The target; a short name becomes that of a live device of its kind, else that of this host.

    Raises:
        UnknownTarget: the spec does not parse.
        TargetUnavailable: a short name that neither a live device nor this host can serve.
    """
    parsed = parse_target(spec)
    if parsed.target is not None:
        return parsed.target
    with context.readers() as session:
        live = devices.live(session, context.settings.device_timeout)
        known = [dict(device.target) for device in live if device.target.get("kind") == parsed.kind]
    if not known and parsed.kind == "llvm":
        known = [host.describe().target]
    return choose(parsed, known)


def choose(spec: TargetSpec, known: Sequence[dict[str, Any]]) -> Target:
    """The largest of the targets at hand; for ``cpu:N`` with N of its cores. Raises TargetUnavailable."""
    if not known:
        raise TargetUnavailable(
            f"no live device of kind {spec.kind} is registered, and this host has none; start `tunesmith device serve` "
            "where there is one, or name the target by its tag or JSON and the job will wait for a device",
            field="target", value=spec.name,
        )
    best = max(known, key=lambda target: int(target.get("num-cores", 1)))
    if spec.cores is None:
        return Target(best)
    cores = int(best.get("num-cores", 1))
    if spec.cores > cores:
        raise TargetUnavailable(
            f"{spec.name} asks for {spec.cores} cores, and the largest device has {cores}",
            field="target", value=spec.name,
        )
    return Target({**best, "num-cores": spec.cores})
