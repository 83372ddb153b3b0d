"""``python -m tools.sweep SOURCE [PART OF A NAME ...]``: count what agrees, and list what does not."""

from __future__ import annotations

import argparse
import collections
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.sweep import model_cases, onnx_cases, running, torch_cases
from tools.sweep.base import AGREES, APART, DIFFERS, FAULT, REFUSED, CaseOutcome, Source
from tunesmith.errors import MissingDependency

SOURCES: Mapping[str, Source] = {"models": model_cases.cases, "onnx": onnx_cases.cases, "torch": torch_cases.cases}


def main() -> int:
    """Run the command; 1 where a case is a fault, 2 where a library is missing."""
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=__doc__)
    parser.add_argument("source", choices=sorted(SOURCES), help="where the cases come from")
    parser.add_argument("parts", nargs="*", help="parts of names of the cases to run; all cases by default")
    parser.add_argument("--markdown", type=Path, help="page to write, with counts and what does not agree by operator")
    options = parser.parse_args()
    running.prepare_process()
    outcomes: list[CaseOutcome] = []
    try:
        for each in running.run_cases(SOURCES[options.source](options.parts)):
            outcomes.append(each)
            if each.kind != AGREES or each.detail:
                print(f"{each.name}: {each.kind}: {each.detail}".replace("\n", " ")[:500], flush=True)
    except MissingDependency as missing:
        print(missing.detail, file=sys.stderr)
        return 2
    print(counts(outcomes))
    if options.markdown:
        options.markdown.write_text(page(options.source, outcomes))
    return int(any(each.kind == FAULT for each in outcomes))


def counts(outcomes: list[CaseOutcome]) -> str:
    """Outcomes as Markdown: one row for cases, one for operators that agree in all of theirs."""
    cases = collections.Counter(each.kind for each in outcomes)
    groups: dict[str, set[str]] = {}
    for each in outcomes:
        groups.setdefault(each.group, set()).add(each.kind)
    order = (FAULT, DIFFERS, REFUSED, AGREES, APART)
    operators = collections.Counter(next(kind for kind in order if kind in found) for found in groups.values())
    rows = [
        f"| {name} | {sum(found.values())} | " + " | ".join(str(found[kind]) for kind in reversed(order)) + " |"
        for name, found in (("cases", cases), ("operators, by their worst case", operators))
    ]
    return "\n".join([f"| | all | {' | '.join(reversed(order))} |", "|---|" + "---:|" * 6, *rows])


def page(source: str, outcomes: list[CaseOutcome]) -> str:
    """Counts, and what does not agree by operator and reason, as a page in Markdown."""
    others = collections.Counter((each.kind, *reason(each)) for each in outcomes if each.kind != AGREES)
    rows = [f"| `{name}` | {count} | {kind} | {why} |" for (kind, name, why), count in sorted(others.items())]
    parts = (
        f"# Cases of operators: {source}",
        f"`python -m tools.sweep {source} --markdown PAGE` writes this page. See [what can be tuned](models.md).",
        counts(outcomes),
        "## What does not agree",
        "\n".join(["| operator | cases | outcome | reason |", "|---|---:|---|---|", *rows]),
    )
    return "\n\n".join(parts) + "\n"


LACKS = re.compile(r"TVM's importer lacks operators of this model \(opset \d+\): ([\w.]+)")
LABEL = re.compile(r"([\w.]+)(?:, which makes '[^']*',| '[^']*')? (?=is not|cannot|has )")


def reason(outcome: CaseOutcome) -> tuple[str, str]:
    """The operator that a refusal names, or the case's own, and the reason without names of values and remedies."""
    text = re.sub(r"^[a-z_]+: ", "", outcome.detail.replace("\n", " ").split("; ")[0])
    if found := LACKS.match(text):
        return found[1], "missing"
    found = LABEL.match(text)
    name, text = (found[1], text[found.end() :]) if found else (outcome.group, text)
    text = re.sub(r", '[^']*', that", " that", text)
    text = re.sub(r"(input|weight) '[^']*'", r"\1", text)
    return name, text.replace("|", "/").strip()[:110]


if __name__ == "__main__":
    sys.exit(main())
