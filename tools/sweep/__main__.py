"""``python -m tools.sweep SOURCE [PART OF A NAME ...]``: count what agrees, and list what does not."""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Mapping

from tools.sweep import onnx_cases, running
from tools.sweep.base import AGREES, DIFFERS, FAULT, REFUSED, CaseOutcome, Source

SOURCES: Mapping[str, Source] = {"onnx": onnx_cases.cases}


def main() -> int:
    """Run the command; 1 where a case is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=__doc__)
    parser.add_argument("source", choices=sorted(SOURCES), help="where the cases come from")
    parser.add_argument("parts", nargs="*", help="parts of names of the cases to run; all cases by default")
    options = parser.parse_args()
    made = list(SOURCES[options.source](options.parts))
    running.prepare_process()
    outcomes: list[CaseOutcome] = []
    for each in running.run_cases(made):
        outcomes.append(each)
        if each.kind != AGREES:
            print(f"{each.name}: {each.kind}: {each.detail}".replace("\n", " ")[:500], flush=True)
    print(counts(outcomes))
    return int(any(each.kind == FAULT for each in outcomes))


def counts(outcomes: list[CaseOutcome]) -> str:
    """Outcomes as Markdown: one row for cases, one for operators that agree in all of theirs."""
    cases = collections.Counter(each.kind for each in outcomes)
    groups: dict[str, set[str]] = {}
    for each in outcomes:
        groups.setdefault(each.group, set()).add(each.kind)
    order = (FAULT, DIFFERS, REFUSED, AGREES)
    operators = collections.Counter(next(kind for kind in order if kind in found) for found in groups.values())
    rows = [
        f"| {name} | {sum(found.values())} | " + " | ".join(str(found[kind]) for kind in reversed(order)) + " |"
        for name, found in (("cases", cases), ("operators, by their worst case", operators))
    ]
    return "\n".join([f"| | all | {' | '.join(reversed(order))} |", "|---|" + "---:|" * 5, *rows])


if __name__ == "__main__":
    sys.exit(main())
