"""A fresh process that rebuilds candidates: reads JSON on standard input, prints traces and structural hashes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tunesmith.targets import Target


def main() -> None:
    from workers.tvm_backend.warm import warm

    work = json.load(sys.stdin)
    warm(work["target"]["kind"])
    from tunesmith.targets import Target

    json.dump(rebuilt(Target(work["target"]), work["items"]), sys.stdout)


def rebuilt(target: Target, items: Iterable[tuple[str, str, Any]]) -> list[list[str]]:
    """Traces and hashes of candidates, each a module, a sketch and its decisions in JSON."""
    import tvm_ffi

    from tunesmith.types import Candidate
    from workers.tvm_backend.design_space import replay
    from workers.tvm_backend.design_space.sketch import SketchBody

    found = []
    for module, body, decisions in items:
        candidate = Candidate.from_json(["sketch", decisions])
        done = replay.schedule(module.encode(), target, SketchBody.from_json(body), candidate.decisions)
        found.append([str(done.trace), str(tvm_ffi.structural_hash(done.mod))])
    return found


if __name__ == "__main__":
    main()
