"""From what the user asked for to a concrete target."""

from __future__ import annotations

from db.queries import devices
from tunesmith.targets import Target, choose, parse_target
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
        known = devices.targets_of_kind(session, context.settings.device_timeout, parsed.kind)
    if not known and parsed.kind == "llvm":
        known = [host.describe().target]
    return choose(parsed, known)
