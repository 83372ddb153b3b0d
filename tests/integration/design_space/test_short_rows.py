from __future__ import annotations

import pytest

from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.design_space.rules.machine import cpu_model_of  # noqa: E402
from workers.tvm_backend.design_space.rules.windows import Depthwise  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import pipeline  # noqa: E402
from workers.tvm_backend.passes.extract_tasks import extract_tasks  # noqa: E402

pytestmark = pytest.mark.parallel

AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


@pytest.mark.parametrize(
    ("spec", "vectors"),
    [
        ("depthwise:1x6x13x13,k3,s1,p1", True),
        ("depthwise:1x6x13x12,k3,s1,p1", True),
        ("depthwise:1x6x13x16,k3,s1,p1", True),  # a whole vector anyway
        ("depthwise:1x6x17x17,k3,s1,p1", False),  # more than a vector
        ("depthwise:1x6x3x3,k3,s1,p1", False),
        ("depthwise:1x6x13x13,k5,s1,p2", False),
        ("depthwise:1x6x13x13,k3,s2,p1", False),
    ],
)
def test_a_short_row_is_one_vector(spec: str, vectors: bool) -> None:
    (task,) = extract_tasks(pipeline.prepare(import_model.operator_module(parse_operator(spec))).module)
    row, replayer = task.workload.args[-1].shape[-1], Replayer(task.module, AVX512)
    found = list(Depthwise().variants(replayer.fresh(), cpu_model_of(AVX512)))
    programs = [replayer.fresh() for _ in found]
    for variant, sch in zip(found, programs, strict=True):
        variant(sch)
    assert any(f"in T.vectorized(T.int64({row}))" in sch.mod.script() for sch in programs) == vectors
