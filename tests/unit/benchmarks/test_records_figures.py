"""``tunesmith bench records``: storing and finding on a small SQLite database, and the table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.records.figures import report
from benchmarks.records.measure import QUESTIONS, measure


def test_records_are_stored_and_every_question_finds_some(tmp_path: Path) -> None:
    timed = measure(f"sqlite:///{tmp_path / 'r.db'}", records=1000, looks=2, among=2500)
    assert timed.rate > 0
    assert timed.among == 2500
    assert {name: len(looks) for name, looks in timed.looks.items()} == dict.fromkeys(QUESTIONS, 2)
    rows = report({"SQLite": timed}, 1000, {}).rows
    assert len(rows) == 1 + len(QUESTIONS)
