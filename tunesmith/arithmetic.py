"""The narrow types that a CPU may multiply faster than float32: one table for every peak, width and limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tunesmith.names import BF16, FLOAT32

FLOAT32_BYTES: Final = 4


@dataclass(frozen=True)
class NarrowType:
    """A type of operands whose products are summed in 32 bits.

    Attributes:
        numbers: type of the values.
        storage: element type of the tensors that hold them.
        bytes: bytes of an element.
        speed: multiply-adds of the CPU's instruction for them, for each one of float32.
        features: LLVM's names of what brings that instruction; one of them is enough.
    """

    numbers: str
    storage: str
    bytes: int
    speed: float
    features: tuple[str, ...]


NARROW: Final[Mapping[str, NarrowType]] = MappingProxyType(
    {BF16: NarrowType("bfloat16", "uint16", 2, 2.0, ("avx512bf16",))}
)
"""By the precision of a job that rounds float32 to them. Other runtimes read a quantised model's whole numbers, too."""


def precision_of(numbers: str) -> str:
    """The precision whose operands are ``numbers``, such as ``bfloat16``; float32 for any other type."""
    return next((precision for precision, each in NARROW.items() if each.numbers == numbers), FLOAT32)
