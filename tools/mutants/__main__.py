"""``python -m tools.mutants [COUNT] [--seed SEED] [--import-only]``: a table, and what is not refused by name."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.mutants import running


def main() -> int:
    """Run the command; 1 where a mutant was neither imported nor refused by name."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=500, help="mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the changes")
    parser.add_argument("--import-only", action="store_true", help="do not lower what is imported")
    options = parser.parse_args()
    outcomes: list[running.ImportOutcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for each in running.run_mutants(Path(folder), options.count, options.seed, not options.import_only):
            outcomes.append(each)
            if each.kind in (running.UNTYPED, running.CRASH, running.TIMEOUT):
                print(f"{each.model} {each.number}: {each.kind}: {each.detail[:300]}", file=sys.stderr, flush=True)
    print(running.table(outcomes))
    return int(any(each.kind in (running.UNTYPED, running.CRASH, running.TIMEOUT) for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
