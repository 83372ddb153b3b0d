"""What a rule must know of a CPU: its vector registers."""

from __future__ import annotations

from dataclasses import dataclass

from tunesmith.targets import Target
from workers.tvm_backend import tir

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Machine:
    """Vector registers of a CPU.

    Attributes:
        vector_bytes: width of one vector register in bytes.
        registers: number of vector registers.
    """

    vector_bytes: int
    registers: int

    @property
    def lanes(self) -> int:
        """Floats of four bytes in one register."""
        return self.vector_bytes // FLOAT_BYTES


def machine_of(target: Target) -> Machine:
    """By the features of the target's processor; ``llvm_get_vector_width`` tells the same width for all of them."""
    from tvm.target import codegen

    made = tir.tvm_target(target)
    if codegen.target_has_features("avx512f", made):
        return Machine(64, 32)
    if codegen.target_has_features("avx", made):
        return Machine(32, 16)
    if codegen.target_has_features("neon", made):
        return Machine(16, 32)
    return Machine(16, 16)
