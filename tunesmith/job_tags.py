"""Tags of jobs: words by which they are found. The same rules at every door."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tunesmith.errors import InvalidInput

MAX_TAGS: Final = 20
MAX_LENGTH: Final = 50
PATTERN: Final = f"^[0-9A-Za-z][0-9A-Za-z._:/=+-]{{0,{MAX_LENGTH - 1}}}$"
MAX_COMMENT: Final = 4000
"""Characters of a job's comment."""


def checked_tags(tags: Sequence[str]) -> list[str]:
    """The tags in order, each once.

    Raises:
        InvalidInput: naming the tag, its place and what it may consist of.
    """
    if len(tags) > MAX_TAGS:
        raise InvalidInput(
            f"these are {len(tags)} tags, and a job has at most {MAX_TAGS}: leave some out",
            field="tags",
            value=len(tags),
        )
    for place, tag in enumerate(tags, 1):
        if not re.fullmatch(PATTERN, tag):
            raise InvalidInput(
                f"tag {place}, {tag[:100]!r}, is no tag: give 1 to {MAX_LENGTH} letters, digits and . _ : / = + -, "
                "the first one a letter or a digit",
                field="tags",
                value=tag[:100],
            )
    return sorted(set(tags))


def split_tags(text: str | None) -> list[str]:
    """Tags that were written in one field, with spaces or commas between them."""
    return (text or "").replace(",", " ").split()
