"""How a model is made ready for tuning: the choices that change what its tasks compute or how its tensors lie."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, fields

from tunesmith.errors import PrecisionUnavailable
from tunesmith.names import AUTO, BF16, FLOAT32, INT8, TVM_SPACE
from tunesmith.operators import OperatorSpec
from tunesmith.options import JobOptions

PIPELINE = "tunesmith.prepare/14"
"""Version of the preparing passes. A module prepared by other passes has other structural hashes."""
OLDER = tuple(f"tunesmith.prepare/{version}" for version in range(6, 14))
"""Versions whose logs are still read: tasks that are computed as before have the same hashes."""
BLOCKED, FAST_MATH, WINOGRAD, TILES = "blocked", "fast-math", "winograd", "tiles"


@dataclass(frozen=True)
class Preparation:
    """The choices.

    Attributes:
        blocked: feature maps in blocks of channels and weights packed once, which CPUs want and GPUs do not.
        fast_math: exp, log, erf, tanh and sigmoid as formulas that a compiler can vectorise.
        winograd: convolutions by Winograd's algorithm as well, where that may be faster; only of blocked models
            without int8 or tiles.
        bf16: products of operands that are rounded to bfloat16, and maps stored so; only of blocked models.
        int8: products of bytes where a model is quantised, and maps stored so; only of blocked models.
        tiles: blocks as deep as a tile of a matrix unit for these products; only with bf16 or int8.
    """

    blocked: bool = False
    fast_math: bool = False
    winograd: bool = False
    bf16: bool = False
    int8: bool = False
    tiles: bool = False

    @property
    def key(self) -> str:
        """What names it for ever: the pipeline's version and the choices."""
        choices = (
            (BLOCKED, self.blocked),
            (FAST_MATH, self.fast_math),
            (WINOGRAD, self.winograd),
            (BF16, self.bf16),
            (INT8, self.int8),
            (TILES, self.tiles),
        )
        return "+".join([PIPELINE, *(name for name, on in choices if on)])

    @property
    def precision(self) -> str:
        """The precision of the arithmetic."""
        return BF16 if self.bf16 else INT8 if self.int8 else FLOAT32

    @classmethod
    def parse(cls, key: str) -> Preparation:
        """Inverse of :attr:`key`, which an older version may have written.

        Raises:
            ValueError: the passes of this version make no such preparation.
        """
        every = (cls(*choice) for choice in itertools.product((False, True), repeat=len(fields(cls))))
        known = {made.key: made for made in every}
        version, plus, choices = key.partition("+")
        if version in OLDER:
            key = f"{PIPELINE}{plus}{choices}"
        if key not in known:
            raise ValueError(f"the preparation {key!r} is not one of this version's: {', '.join(known)}")
        return known[key]


PLAIN = Preparation()
"""Only what TVM itself would do."""


def for_target(
    kind: str, operator: bool, options: JobOptions = JobOptions(), tiled: Collection[str] = ()
) -> Preparation:
    """What suits a target of ``kind``.

    Args:
        kind: TVM's, such as ``llvm``.
        operator: a single operator, whose tensors keep the layouts of its spec.
        options: what the user allows; TVM's space is that of the plain program. A model of precision auto is prepared
            in float32 until that is chosen.
        tiled: precisions in which the target multiplies in tiles, see ``Target.tiled``.

    Raises:
        PrecisionUnavailable: the precision is for models on CPUs in Tunesmith's space, and this is none.
    """
    if options.precision == AUTO and not operator:
        options = options.model_copy(update={"precision": FLOAT32})
    if options.precision != FLOAT32:
        _check_narrow(kind, operator, options)
        bf16, int8, tiles = options.precision == BF16, options.precision == INT8, options.precision in tiled
        return Preparation(True, options.fast_math, options.winograd and bf16 and not tiles, bf16, int8, tiles)
    if options.space == TVM_SPACE:
        return PLAIN
    blocked = kind == "llvm" and not operator
    return Preparation(blocked, kind == "llvm" and options.fast_math, blocked and options.winograd)


def of_operator(
    kind: str, spec: OperatorSpec, options: JobOptions = JobOptions(), tiled: Collection[str] = ()
) -> Preparation:
    """What suits a single operator: tensors keep their layouts, unless its type asks for a narrow precision.

    Args:
        kind, options, tiled: see :func:`for_target`.

    Raises:
        PrecisionUnavailable: see :func:`for_target`.
    """
    if spec.precision == FLOAT32:
        return for_target(kind, True, options)
    return for_target(kind, False, options.model_copy(update={"precision": spec.precision}), tiled)


def _check_narrow(kind: str, operator: bool, options: JobOptions) -> None:
    if kind != "llvm":
        raise PrecisionUnavailable(
            f"precision {options.precision} is for CPUs, and the target is of kind {kind}: use float32",
            field="precision",
        )
    if operator:
        raise PrecisionUnavailable(
            f"precision {options.precision} is for models; a single operator has its precision in its type: write it "
            "as bf16 or int8, such as gemm:128x768x3072:bf16, and leave precision out",
            field="precision",
        )
    if options.space == TVM_SPACE:
        raise PrecisionUnavailable(
            f"precision {options.precision} needs Tunesmith's design space: use space all, or precision float32",
            field="precision",
        )
