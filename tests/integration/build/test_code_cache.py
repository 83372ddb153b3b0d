from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import examples

from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.protocol import BuildRequest, Built
from workers.tvm_backend.build.builder import Builder
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.build import code_cache  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.host import describe  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel


def test_programs_that_are_lowered_to_the_same_are_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(describe().target)
    module = pipeline.prepare(import_model.operator_module(parse_operator("softmax:4x16x16:float32"))).module
    (task,) = extract_tasks.extract_tasks(module)
    bodies = space.generate(task.module, target)
    made = space.TraceSpace(task.module, target, bodies)
    points, valid = made.resolve(made.space.sample(np.random.default_rng(0), 60))
    candidates = list(dict.fromkeys(made.space.candidates(points.take(valid))))[: examples(40)]
    by_hash = {body.hash: body.to_json() for body in bodies}

    def build(builder: Builder, name: str) -> list[Built]:
        return [
            builder.build(
                BuildRequest(
                    workload=task.workload.hash,
                    module=task.module,
                    target=target.to_json(),
                    body=by_hash[str(candidate.sketch)],
                    decisions=candidate.decisions,
                    out=tmp_path / f"{name}{number}.so",
                    timeout=60.0,
                )
            )
            for number, candidate in enumerate(candidates)
        ]

    shared = build(Builder(str(tmp_path / "lease")), "shared")
    monkeypatch.setattr(code_cache, "LOWERING", "nothing is called so")
    separate = build(Builder(str(tmp_path / "lease")), "separate")
    assert [built.failure for built in shared] == [None] * len(candidates)
    assert [built.code_hash for built in shared] == [built.code_hash for built in separate]
    assert [Path(built.path or "").read_bytes() for built in shared] == [
        Path(built.path or "").read_bytes() for built in separate
    ]
    assert [built.trace for built in shared] == [built.trace for built in separate]


def test_equal_programs_are_found_and_their_number_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    get = code_cache.CodeCache.get

    def noted(self: code_cache.CodeCache, program: Any) -> code_cache.Code | None:
        code = get(self, program)
        found.append(code is not None)
        return code

    monkeypatch.setattr(code_cache.CodeCache, "get", noted)
    builder, target = Builder(str(tmp_path / "lease")), Target(describe().target)
    module = pipeline.prepare(import_model.operator_module(parse_operator("softmax:4x16x16:float32"))).module
    (task,) = extract_tasks.extract_tasks(module)
    requests = [
        BuildRequest(
            workload=task.workload.hash,
            module=task.module,
            target=target.to_json(),
            body=None,
            decisions=(),
            out=tmp_path / f"{number}.so",
            timeout=60.0,
        )
        for number in range(3)
    ]
    built = [builder.build(request) for request in requests]
    assert found == [False, True, True]
    assert len({one.code_hash for one in built}) == 1
    kept = code_cache.CodeCache(limit=10)
    for number in range(4):
        kept.put(code_cache.Code(number, b"1234", str(number)))
    kept.put(code_cache.Code(3, b"123456", "again"))
    assert [get(kept, number) is not None for number in range(4)] == [False, False, True, True]
