"""Streams that print everything: what a terminal has no character for, it gets in plain ASCII."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from io import TextIOWrapper

PLAIN = {
    "µ": "u",
    "μ": "u",
    "×": "x",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "→": "->",
    "←": "<-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "±": "+-",
    "·": "*",
    "•": "*",
    "√": "sqrt",
    "✓": "ok",
    "✔": "ok",
    "✗": "x",
    "✘": "x",
    "ß": "ss",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "„": '"',
    "«": '"',
    "»": '"',
}
"""Characters that have no decomposition, or another one than a reader expects."""
_HANDLER = "tunesmith-plain"


def plain(character: str) -> str:
    """What stands for a character: its letter without the accent, a word of ASCII, or its number."""
    if character in PLAIN:
        return PLAIN[character]
    letters = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return letters or character.encode("ascii", "backslashreplace").decode()


def printed(text: str) -> str:
    """A text as standard output shows it."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, _HANDLER).decode(encoding)


def print_anything() -> None:
    """From now on no print to standard output or error fails, or hides a line, because of a character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(plain, error.object[error.start : error.end])), error.end


codecs.register_error(_HANDLER, _replace)
