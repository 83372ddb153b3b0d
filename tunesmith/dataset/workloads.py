"""Lists of operator specs: a file with one spec a line, and the text that names a list by its content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tunesmith.errors import InvalidInput, InvalidOperator
from tunesmith.operators import OperatorSpec, parse_operator

MAX_OPERATORS = 1000
"""Operators of one job."""
COMMENT = "#"


def read_workloads(path: Path) -> list[OperatorSpec]:
    """The specs of a file, each once; empty lines, and what follows a ``#``, do not count.

    Raises:
        InvalidInput, InvalidOperator: naming file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput(
            f"cannot read --workloads {path}: {reason}; give a text file with one operator spec a line",
            field="workloads",
            value=str(path),
        ) from error
    found: dict[str, OperatorSpec] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition(COMMENT)[0].strip()
        if text:
            spec = _parsed(text, f"{path}, line {number}")
            found[spec.canonical] = spec
    if not found:
        raise InvalidInput(
            f"--workloads {path} has no operator; write one a line, such as gemm:512x512x512:float32",
            field="workloads",
            value=str(path),
        )
    return list(found.values())


def parse_operators(texts: Sequence[str]) -> list[OperatorSpec]:
    """The specs of one job, each once, all of one precision.

    Raises:
        InvalidInput, InvalidOperator: naming the place in the list.
    """
    if not 0 < len(texts) <= MAX_OPERATORS:
        raise InvalidInput(
            f"operators must be a list of 1 to {MAX_OPERATORS} specs, not {len(texts)}; split it into several jobs",
            field="operators",
            value=len(texts),
        )
    specs = [_parsed(text, f"operators[{place}]") for place, text in enumerate(texts)]
    for place, spec in enumerate(specs):
        if spec.precision != specs[0].precision:
            raise InvalidInput(
                f"operators[{place}]: {texts[place]} is of precision {spec.precision} and the first of "
                f"{specs[0].precision}; a job has one precision, so submit a job for each",
                field="operators",
                value=texts[place],
            )
    return list({spec.canonical: spec for spec in specs}.values())


def list_text(specs: Sequence[OperatorSpec]) -> str:
    """The list as text, one canonical spec a line, sorted: the same list in any order is the same text."""
    return "".join(f"{text}\n" for text in sorted({spec.canonical for spec in specs}))


def content_hash(specs: Sequence[OperatorSpec]) -> str:
    """SHA-256 of :func:`list_text`."""
    return hashlib.sha256(list_text(specs).encode()).hexdigest()


def _parsed(text: str, place: str) -> OperatorSpec:
    try:
        return parse_operator(text)
    except InvalidOperator as error:
        raise InvalidOperator(f"{place}: {error.detail}", field="operators", value=text) from error
