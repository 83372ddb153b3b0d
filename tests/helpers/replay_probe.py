"""A fresh process that rebuilds candidates: reads JSON on standard input, prints traces and structural hashes."""

from __future__ import annotations

import json
import sys


def main() -> None:
    from workers.tvm_backend.warm import warm

    work = json.load(sys.stdin)
    warm(work["target"]["kind"])
    import tvm_ffi

    from tunesmith.targets import Target
    from tunesmith.types import Candidate
    from workers.tvm_backend.design_space import replay
    from workers.tvm_backend.design_space.sketch import SketchBody

    found = []
    for module, body, decisions in work["items"]:
        candidate = Candidate.from_json(["sketch", decisions])
        done = replay.schedule(module.encode(), Target(work["target"]), SketchBody.from_json(body), candidate.decisions)
        found.append([done.trace, str(tvm_ffi.structural_hash(done.mod))])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
