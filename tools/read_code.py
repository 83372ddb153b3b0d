"""Count what LLVM made of a data folder's records: ``python -m tools.read_code FOLDER FILE [--imported]``.

Every program is compiled, and neither linked nor run: other work on the machine changes nothing. A run that is
repeated goes on with the records that the file lacks.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tunesmith.analysis.machine_code import Floats32, code_row
from tunesmith.dataset import code
from tunesmith.errors import InvalidCandidate
from tunesmith.targets import Target
from tunesmith.types import Decision
from workers.core import labelled
from workers.tvm_backend.warm import warm

Program = tuple[str, bytes, tuple[Decision, ...]]
"""Key of its record, sketch, decisions."""


def rows(module: bytes, target: dict[str, Any], programs: Sequence[Program]) -> dict[str, Floats32]:
    """Counts of programs of one workload by their records' keys, in a process of its own."""
    warm("llvm")
    from workers.tvm_backend.build.assembly import assembly
    from workers.tvm_backend.design_space.replay import Replayer
    from workers.tvm_backend.design_space.sketch import SketchBody

    replayer, out = Replayer(module, Target(target)), dict[str, Floats32]()
    bodies = {body: SketchBody.from_json(body) for body in {body for _, body, _ in programs}}
    for key, body, decisions in programs:
        try:
            out[key] = code_row(assembly(replayer, bodies[body], decisions))
        except InvalidCandidate:  # it was one when it was measured: a version of TVM between
            continue
    return out


def programs_of(found: labelled.Found, workload: str, known: dict[str, Floats32]) -> list[Program]:
    """Records with a latency that nothing is known of."""
    from workers.tvm_backend.design_space.sketch import SketchBody

    rows = found.rows[workload]
    sketches = {str(row.candidate.sketch) for row in rows}
    bodies = {key: SketchBody.from_json(found.bodies[key]).to_json() for key in sketches}
    return [
        (code.key(row.content), bodies[str(row.candidate.sketch)], tuple(row.candidate.decisions))
        for row in rows
        if row.latency is not None and row.content is not None and code.key(row.content) not in known
    ]


def read_all(found: labelled.Found, blobs: Any, file: Path, pool: Executor, parts: int) -> None:
    """Count, workload by workload, and write what there is after each."""
    known = code.read(file) if file.is_file() else {}
    for workload in found.workloads:
        wanted = programs_of(found, workload.hash, known)
        if not wanted:
            continue
        began, module = time.monotonic(), blobs.get_bytes(workload.module_blob)
        each = [wanted[part::parts] for part in range(parts)]
        made = pool.map(rows, [module] * parts, [dict(found.target.json)] * parts, each)
        for some in made:
            known |= some
        code.write(known, file)
        print(f"{workload.name}: {len(wanted)} records, {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="data folder of a service")
    parser.add_argument("file", type=Path, help="what to write, or to go on with")
    parser.add_argument("--imported", action="store_true", help="take what was imported, too")
    given = parser.parse_args()
    found = labelled.in_database(given.folder, imported=given.imported)
    if found is None:
        raise SystemExit(f"{given.folder} has no records")
    parts = os.cpu_count() or 1
    with ProcessPoolExecutor(parts, multiprocessing.get_context("spawn")) as pool:
        read_all(found, labelled.blobs_of(given.folder), given.file, pool, parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
