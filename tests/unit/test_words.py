"""One word for one thing: identifiers that other names have replaced do not come back."""

from __future__ import annotations

import io
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
