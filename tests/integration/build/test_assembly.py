"""What LLVM prints of candidates: loops of vector code for a target that this machine need not have."""

from __future__ import annotations

import numpy as np
import pytest

from tunesmith.analysis.machine_code import PLACE, code_row
from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.build.assembly import assembly  # noqa: E402
from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel
LANES = {"skylake-avx512": 16, "haswell": 8}


@pytest.mark.parametrize("mcpu", LANES)
def test_a_products_vectors_are_found_in_its_code(mcpu: str) -> None:
    target = Target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
    module = pipeline.prepare(import_model.operator_module(parse_operator("gemm:64x64x64"))).module
    (task,) = extract_tasks.extract_tasks(module)
    bodies = space.generate(task.module, target)
    made = space.TraceSpace(task.module, target, bodies)
    points, valid = made.resolve(made.space.sample(np.random.default_rng(0), 12))
    candidates = made.space.candidates(points.take(valid))[:6]
    by_hash, replayer = {body.hash: body for body in bodies}, Replayer(task.module, target)
    rows = [code_row(assembly(replayer, by_hash[str(each.sketch)], each.decisions)) for each in candidates]
    for found in rows:
        assert found[PLACE["hot.products"]] > 0
        assert found[PLACE["loops.depth"]] >= 1
        assert found[PLACE["hot.product_lanes"]] <= LANES[mcpu] * found[PLACE["hot.products"]]
    assert max(row[PLACE["hot.product_lanes"]] / row[PLACE["hot.products"]] for row in rows) == LANES[mcpu]
    assert len({row.tobytes() for row in rows}) > 1
