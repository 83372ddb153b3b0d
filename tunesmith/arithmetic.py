"""The narrow types that a CPU may multiply faster than float32: one table for every peak, width and limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tunesmith.names import BF16, FLOAT32, INT8

FLOAT32_BYTES: Final = 4
WITH_AMX: Final = (
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
    "graniterapids-d",
    "graniterapids_d",
    "diamondrapids",
)
"""LLVM's names of CPUs with AMX, for what has to do without LLVM."""


@dataclass(frozen=True)
class NarrowType:
    """A type of operands whose products are summed in 32 bits.

    Attributes:
        numbers: type of the values.
        storage: element type of the tensors that hold them.
        bytes: bytes of an element.
        speed: multiply-adds of the CPU's instruction for them, for each one of float32.
        features: LLVM's names of what brings that instruction, by the bytes of a register; one of them is enough.
        tiles: LLVM's names of what brings a matrix unit for them: all of them are needed.
        tiled: LLVM's names of CPUs that have it, whatever else is said of them.
        most: multiply-adds of such a unit, for each one of float32.
        products: how the names of families of their products end.
        otherwise: how a CPU without it computes.
        rounded: float32 is rounded to them. Else a quantised model has them, which other runtimes compute alike.
    """

    numbers: str
    storage: str
    bytes: int
    speed: float
    features: Mapping[int, tuple[str, ...]]
    tiles: tuple[str, ...]
    tiled: tuple[str, ...]
    most: float
    products: str
    otherwise: str
    rounded: bool


NARROW: Final[Mapping[str, NarrowType]] = MappingProxyType(
    {
        BF16: NarrowType(
            "bfloat16",
            "uint16",
            2,
            2.0,
            {64: ("avx512bf16",)},
            ("amx-tile", "amx-bf16"),
            WITH_AMX,
            16.0,
            "_pairs",
            "float32 on 16-bit storage",
            rounded=True,
        ),
        INT8: NarrowType(
            "int8",
            "int8",
            1,
            4.0,
            {64: ("avx512vnni",), 32: ("avxvnni",)},
            ("amx-tile", "amx-int8"),
            WITH_AMX,
            32.0,
            "_quads",
            "products of 16 or 32 bits",
            rounded=False,
        ),
    }
)
"""By the precision of a job that computes with them."""
ROUNDED: Final = tuple(precision for precision, each in NARROW.items() if each.rounded)
"""Precisions that any model can be computed in."""
FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        feature: {"avxvnni": "avx_vnni", "avx512bf16": "avx512_bf16", "avx512vnni": "avx512_vnni"}.get(
            feature, feature.replace("-", "_")
        )
        for each in NARROW.values()
        for feature in (*(name for names in each.features.values() for name in names), *each.tiles)
    }
)
"""Linux's words for what LLVM calls features, of all that brings instructions for narrow types."""


def precision_of(numbers: str) -> str:
    """The precision whose operands are ``numbers``, such as ``bfloat16``; float32 for any other type."""
    return next((precision for precision, each in NARROW.items() if each.numbers == numbers), FLOAT32)
