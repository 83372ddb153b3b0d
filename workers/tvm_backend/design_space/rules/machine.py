"""The CPU model of a target."""

from __future__ import annotations

from dataclasses import replace

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.arithmetic import NARROW
from tunesmith.messages import Calibration
from tunesmith.names import BF16, INT8
from tunesmith.targets import Target
from workers.tvm_backend import tir

BF16_DOT, I8_DOT, I16_DOT = (
    NARROW[BF16].features,
    NARROW[INT8].features,
    {64: ("avx512bw",), 32: ("avx2",)},
)
"""By the bytes of a register: features with an instruction of ``CpuModel``. LLVM aborts on one that is missing."""


def cpu_model_of(target: Target, found: Calibration | None = None) -> CpuModel:
    """Registers by the features of the target's processor, limits as they were measured or typical ones.

    ``llvm_get_vector_width`` tells the same width for all processors.
    """
    from tvm.target import codegen

    made = tir.tvm_target(target)
    for feature, vector_bytes, registers in (("avx512f", 64, 32), ("avx", 32, 16), ("neon", 16, 32)):
        if codegen.target_has_features(feature, made):
            cpu = CpuModel.of(target.num_cores, vector_bytes, registers, found)
            bf16, i8, i16 = (
                any(codegen.target_has_features(each, made) for each in features.get(vector_bytes, ()))
                for features in (BF16_DOT, I8_DOT, I16_DOT)
            )
            bf16_tiles, i8_tiles = (
                all(codegen.target_has_features(each, made) for each in NARROW[narrow].tiles) for narrow in (BF16, INT8)
            )
            # Cores with a matrix unit multiply pairs in vectors at half the rate of float32 (Sapphire Rapids).
            bf16 = bf16 and not bf16_tiles
            return replace(cpu, bf16_dot=bf16, i8_dot=i8, i16_dot=i16, bf16_tiles=bf16_tiles, i8_tiles=i8_tiles)
    return CpuModel.of(target.num_cores, 16, 16, found)
