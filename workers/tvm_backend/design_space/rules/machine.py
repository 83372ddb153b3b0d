"""The CPU model of a target."""

from __future__ import annotations

from dataclasses import replace

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.arithmetic import NARROW
from tunesmith.messages import Calibration
from tunesmith.names import BF16
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
            dots = any(codegen.target_has_features(each, made) for each in NARROW[BF16].features)
            return replace(CpuModel.of(target.num_cores, vector_bytes, registers, found), bf16_dot=dots)
    return CpuModel.of(target.num_cores, 16, 16, found)
