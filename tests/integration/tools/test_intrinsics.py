"""The tensor intrinsics of exported folders are those that the tool makes."""

from __future__ import annotations

import json

import pytest

from tools.intrinsics import as_texts
from tunesmith import metaschedule

pytestmark = pytest.mark.parallel


def test_the_file_is_up_to_date() -> None:
    text = metaschedule.INTRINSICS.read_text().replace(metaschedule.QUOTE, metaschedule.ESCAPED_QUOTE)
    known, made = json.loads(text), as_texts()
    assert known.keys() == made.keys()
    assert known == made, "run: python -m tools.intrinsics"
