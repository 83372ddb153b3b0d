"""One word for one thing: identifiers that other names have replaced do not come back, and prose names its subject."""

from __future__ import annotations

import ast
import io
import re
import token
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
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
    "crown": "champion",
    "crowned": "confirmed",
    "reign": "champion",
    "heir": "champion",
    "yardsticks_first": "references_first",
    "pacemaker": "champion",
    "Offer": "Champion",
    "Ticker": "PeriodicThread",
    "_beat": "record_heartbeat",
    "LAST_WORDS": "STDERR_FILE",
    "OwnPages": "OriginGuard",
    "glance": "FIRST_CANDIDATES",
    "sparing": "trial_limited",
    "_roomy": "trial_limited",
    "_hopeless": "out_of_time",
    "_yielding": "dominated",
    "outrun": "dominated",
    "hope": "largest_gain",
    "awaited": "first_round_in_flight",
    "of_place": "shared_first_gains",
    "Sight": "Visibility",
    "_Around": "_TaskContext",
    "SAYINGS": "OUT_OF_MEMORY_TEXTS",
    "Look": "EventBatch or ClockReading",
    "news": "new_records",
    "NEAR": "a noun and a unit",
    "BURST": "MAX_MESSAGES_PER_PASS",
    "LIMIT": "a noun and a unit",
    "FIRST": "a noun and a unit",
    "heat": "first_run",
    "Plan": "qualified, such as TuningPlan",
    "Outcome": "qualified, such as RunOutcome",
}


ANY_RETIRED = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b")


def retired(source: str) -> set[str]:
    if not ANY_RETIRED.search(source):  # reading the tokens of every module takes seconds
        return set()
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


MAX_WORDS = 25
"""In the first sentence of a docstring; code in it counts as one."""


def docstrings(source: str) -> list[str]:
    return [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def long_sentences(texts: list[str]) -> list[str]:
    """First sentences that have too many words."""
    first = (re.split(r"\n\s*\n|(?<=[.?!])\s", text, maxsplit=1)[0] for text in texts)
    return [text for text in first if len(re.sub("``.*?``", "code", text, flags=re.S).split()) > MAX_WORDS]


def nameless(source: str, docs: list[str]) -> list[str]:
    """Parts of docstrings, and comments, that begin with "of" or "its": they leave out what they are about."""
    texts = [part for text in docs for part in PART.split(text)]
    continued = -1
    for found in tokenize.generate_tokens(io.StringIO(source).readline):
        if found.type == token.COMMENT:
            row, own_line = found.start[0], found.line.lstrip().startswith("#")
            if not (own_line and row == continued):
                texts.append(found.string.lstrip("#: "))
            continued = row + 1 if own_line else -1
    return [text.strip() for text in texts if NAMELESS.match(text.strip())]


@pytest.mark.parametrize("package", PROSE)
def test_docstrings_and_comments_are_short_and_name_what_they_are_about(package: str) -> None:
    unclear = []
    for path in sorted((ROOT / package).rglob("*.py")):
        docs = docstrings(source := path.read_text("utf-8"))
        found = nameless(source, docs) + [f"{MAX_WORDS} words at most: {text}" for text in long_sentences(docs)]
        unclear += [f"{path.relative_to(ROOT)}: {text}" for text in found]
    assert unclear == []


def test_it_reads_docstrings_their_fields_and_comments() -> None:
    source = '"""Bounds.\n\nAttributes:\n    rows: of a tile.\n    size: bytes\n        of a tile.\n"""\n'
    comments = "x = 1  # its size\n# a part\n# of a comment\n"
    assert nameless(source + comments, docstrings(source)) == ["rows: of a tile.", "its size"]
    short, long = "word " * 24 + "``f(x, y)``. More words.", "word " * 26 + "."
    assert long_sentences([short, long]) == [long]


WHIMSICAL = re.compile(
    r"\b(?:crown(?:s|ed)?|reign(?:s|ed)?|heirs?|yardsticks?|pacemakers?|epitaphs?|luck|bury|buried)\b", re.I
)
BENCH_COMMAND = re.compile(r"(?:bench[ :]|benchmarks[./]|tunesmith-|\")yardstick\b")
"""The public command ``tunesmith bench yardstick``, its folder and its section."""
HISTORY = {ROOT / "CHANGELOG.md", *(ROOT / "docs" / "decisions").iterdir(), Path(__file__).resolve()}


def prose(path: Path) -> str:
    """A page, or the comments and strings of a module."""
    text = path.read_text("utf-8")
    if path.suffix != ".py" or not WHIMSICAL.search(text):
        return text
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(each.string for each in found if each.type in (token.COMMENT, token.STRING))


def whimsical(text: str) -> list[str]:
    return WHIMSICAL.findall(BENCH_COMMAND.sub("", text))


@pytest.mark.parametrize("folder", [*PACKAGES, "docs", "."])
def test_prose_uses_the_fields_words(folder: str) -> None:
    root = ROOT / folder
    paths = root.glob("*.md") if root == ROOT else (p for p in root.rglob("*") if p.suffix in (".py", ".md"))
    found = {path: whimsical(prose(path)) for path in sorted(paths) if path not in HISTORY}
    assert {str(path.relative_to(ROOT)): words for path, words in found.items() if words} == {}


def test_it_reads_comments_and_strings_and_no_identifiers() -> None:
    assert whimsical("Crowned by luck; run tunesmith bench yardstick, which is no yardstick") == [
        "Crowned",
        "luck",
        "yardstick",
    ]
    assert whimsical("the luckiest, crown_refused and a crowning") == []
