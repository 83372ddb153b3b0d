"""A ranker that learns from a data folder's records, as a file: ``python -m tools.pretrain FOLDER FILE``.

With counts of machine code (``--code``) it is a code ranker, as the one in ``costmodels/pretrained``.
Workloads that ``bench replay`` has recordings of are left out, so that what is learned can be judged by them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.operators import program
from benchmarks.replay.workloads import DATA, load_all
from costmodels.code_ranker import CodeRankerModel
from costmodels.labelled import Labelled, Measured
from costmodels.ranker import RankerModel
from tunesmith.dataset import again, code
from tunesmith.names import DEFAULT_PRECISION
from tunesmith.targets import Target
from workers.core import labelled
from workers.tvm_backend.warm import warm


def recorded() -> frozenset[str]:
    """Hashes of the workloads that there are recordings of."""
    found = ((each.name, Target(json.loads(str(each.facts["target"])))) for each in load_all(DATA))
    return frozenset(program(name, target).workload.hash for name, target in found)


def write(measured: Sequence[Measured], path: Path) -> str:
    """Fit a ranker, or a code ranker where code was read, and write it; what it learned from, in a line."""
    data = Labelled.of(measured)
    model = RankerModel() if data.data.features.code is None else CodeRankerModel()
    model.fit(data.data)
    path.write_bytes(model.save())
    size = path.stat().st_size
    return f"{len(data.data)} programs of {len(data.names)} workloads, strength {model.strength}, {size} bytes"


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="data folder of a service, or recordings")
    parser.add_argument("file", type=Path, help="what to write")
    parser.add_argument("--sampler", help="only labels of collecting jobs with it")
    parser.add_argument("--precision", default=DEFAULT_PRECISION)
    parser.add_argument("--imported", action="store_true", help="take what was imported, too")
    parser.add_argument(
        "--again", type=Path, action="append", default=[], help="latencies of a second measurement; repeatable"
    )
    parser.add_argument("--code", type=Path, action="append", default=[], help="counts of machine code; repeatable")
    given = parser.parse_args()
    warm("llvm")
    found = labelled.of_folder(
        given.folder,
        precision=given.precision,
        sampler=given.sampler,
        without=recorded(),
        imported=given.imported,
        again=[again.read(each) for each in given.again],
        code=dict(item for each in given.code for item in code.read(each).items()),
    )
    print(write(found, given.file))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
