"""What a source of cases offers, and what can become of a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

AGREES, REFUSED, DIFFERS, FAULT, APART = "agrees", "refused", "differs", "fault", "apart"
"""Kinds of outcomes.

A fault is an error without a name, a crash or a timeout. What is apart is no case: its source makes no model of it.
"""


@dataclass(frozen=True)
class Case:
    """A model with inputs and the outputs that are right for them.

    Attributes:
        name: name of the case, unique in its source.
        group: operator that the case belongs to, for counts.
        source: format of the model, ``onnx`` or ``pt2``.
        model: bytes of the model's file.
        inputs: arrays in the order in which the model takes them. Anything else has to be refused at import.
        expected: arrays that the model returns. Anything else has to be refused at import.
        shapes: shapes by input name, for inputs with dynamic dimensions.
        relative: relative tolerance.
        absolute: absolute tolerance.
        of_largest: tolerance as a part of the largest number of an output.
        seconds: time limit.
    """

    name: str
    group: str
    source: str
    model: bytes
    inputs: tuple[NDArray[Any], ...]
    expected: tuple[NDArray[Any], ...]
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    relative: float = 1e-3
    absolute: float = 1e-5
    of_largest: float = 0.0
    seconds: float = 60.0


@dataclass(frozen=True)
class CaseOutcome:
    """What became of a case.

    Attributes:
        name, group: those of the case.
        kind: one of ``AGREES``, ``REFUSED``, ``DIFFERS``, ``FAULT`` and ``APART``.
        detail: text of the refusal or the error, what is different, or why it is no case; the error of what agrees, if
            that is relative to the largest number of an output.
    """

    name: str
    group: str
    kind: str
    detail: str = ""


Source = Callable[[Sequence[str]], Iterator[Case | CaseOutcome]]
"""Makes the cases whose names contain one of the given parts, and all cases without parts; outcomes are apart."""
