"""The CPU model of a target."""

from __future__ import annotations

from dataclasses import replace

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.messages import Calibration
from tunesmith.targets import Target
from workers.tvm_backend import tir


def cpu_model_of(target: Target, found: Calibration | None = None) -> CpuModel:
    """Registers by the features of the target's processor, limits as they were measured or typical ones.

    ``llvm_get_vector_width`` tells the same width for all processors.
    """
    from tvm.target import codegen

    made = tir.tvm_target(target)
    for feature, vector_bytes, registers in (("avx512f", 64, 32), ("avx", 32, 16), ("neon", 16, 32)):
        if codegen.target_has_features(feature, made):
            dots = codegen.target_has_features("avx512bf16", made)
            return replace(CpuModel.of(target.num_cores, vector_bytes, registers, found), bf16_dot=bool(dots))
    return CpuModel.of(target.num_cores, 16, 16, found)
