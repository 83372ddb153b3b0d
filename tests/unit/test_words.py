"""One word for one thing: identifiers that other names have replaced do not come back, and prose names its subject."""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tunesmith", "costmodels", "db", "workers", "services", "benchmarks", "tools", "tests", "deploy")
RETIRED = {
    "Hunt": "CandidatePool",
    "bury": "mark_invalid",
    "opinion": "is_informative",
    "Draft": "KernelRidgeSurrogate",
    "Belief": "Prediction",
    "believe": "predict",
    "Trust": "ScoreReliability",
    "luck": "p_value",
    "Shelf": "LibraryCache",
    "PoisonBook": "CrashBlocklist",
    "Twins": "CodeCache",
    "Lookout": "ReuseCheck",
    "Presence": "Heartbeat",
    "sign_of_life": "record_heartbeat",
    "last_word": "send_final_report",
    "epitaph": "exit_reason",
    "last_words": "captured_stderr",
    "Elsewhere": "LazyMount",
    "Standing": "TaskMemory",
    "Lab": "LocalMeasurer",
    "Station": "LocalMeasurer",
    "open_lab": "open_measurer",
    "teller": "progress_of",
    "Tell": "Progress",
    "Say": "Progress",
    "contest": "comparison",
    "Lineup": "Comparison",
    "lineup": "contenders",
    "PEERS": "CONTENDERS",
    "Crown": "Confirmation",
    "Rival": "Baseline",
    "RIVALS": "METASCHEDULE",
    "Course": "TrialRun",
    "Chase": "TimedRun",
}


def retired(source: str) -> set[str]:
    names = {
        found.string for found in tokenize.generate_tokens(io.StringIO(source).readline) if found.type == token.NAME
    }
    return names & RETIRED.keys()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_retired_identifier_is_used(package: str) -> None:
    found = {path: retired(path.read_text("utf-8")) for path in sorted((ROOT / package).rglob("*.py"))}
    uses = [f"{path.relative_to(ROOT)}: {name}, now {RETIRED[name]}" for path, names in found.items() for name in names]
    assert uses == []


def test_it_reads_identifiers_and_no_prose() -> None:
    assert retired('"""A Hunt for luck."""\nx = Shelf(luck)  # epitaph\n') == {"Shelf", "luck"}


PROSE = ("tunesmith", "costmodels", "db", "workers", "services", "tools", "deploy")
NAMELESS = re.compile(r"(?:(?:[a-z_]\w*, )*[a-z_]\w*: )?(?:[Oo]f|[Ii]ts) ")
PART = re.compile(r"\n\s*\n|\n\s*(?=[a-z_][\w, ]*: )")


def nameless(source: str) -> list[str]:
    """Parts of docstrings, and comments, that begin with "of" or "its": they leave out what they are about."""
    texts = [
        part
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for part in PART.split(node.value.value)
    ]
    continued = -1
    for found in tokenize.generate_tokens(io.StringIO(source).readline):
        if found.type == token.COMMENT:
            row, own_line = found.start[0], found.line.lstrip().startswith("#")
            if not (own_line and row == continued):
                texts.append(found.string.lstrip("#: "))
            continued = row + 1 if own_line else -1
    return [text.strip() for text in texts if NAMELESS.match(text.strip())]


@pytest.mark.parametrize("package", PROSE)
def test_docstrings_and_comments_name_what_they_are_about(package: str) -> None:
    found = {path: nameless(path.read_text("utf-8")) for path in sorted((ROOT / package).rglob("*.py"))}
    assert [f"{path.relative_to(ROOT)}: {text}" for path, texts in found.items() for text in texts] == []


def test_it_reads_docstrings_their_fields_and_comments() -> None:
    source = '"""Bounds.\n\nAttributes:\n    rows: of a tile.\n    size: bytes\n        of a tile.\n"""\n'
    assert nameless(source + "x = 1  # its size\n# a part\n# of a comment\n") == ["rows: of a tile.", "its size"]
