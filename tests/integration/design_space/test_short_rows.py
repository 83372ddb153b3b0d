from __future__ import annotations

import pytest
import rule_checks

from tunesmith.targets import Target

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
    task = rule_checks.operator(spec)
    whole = f"_init in T.vectorized(T.int64({task.workload.args[-1].shape[-1]}))"
    assert any(whole in mod.script() for mod in rule_checks.scheduled(task, AVX512, each=1)) == vectors
