"""The assembly text of a candidate, compiled as it is to be measured, and neither linked nor run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from workers.tvm_backend.build.builder import fetching_ahead, lowering
from workers.tvm_backend.design_space import replay

if TYPE_CHECKING:
    from tunesmith.types import Candidate, Decision
    from workers.tvm_backend.design_space.replay import Replayer
    from workers.tvm_backend.design_space.sketch import SketchBody
    from workers.tvm_backend.design_space.space import TraceSpace


def assembly_of(traces: TraceSpace, candidate: Candidate) -> str:
    """As :func:`assembly`, of a candidate of a space."""
    return assembly(traces.replayer, traces.body(candidate), candidate.decisions)


def assembly(replayer: Replayer, body: SketchBody, decisions: Sequence[Decision]) -> str:
    """What LLVM prints of a candidate.

    Raises:
        InvalidCandidate: the sketch does not apply with these decisions.
    """
    done = replay.scheduled(replayer.replay(body, decisions))
    mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(fetching_ahead(done.mod, replayer.target))
    with replayer.target, tvm.transform.PassContext(config=lowering(mod, replayer.target)):
        return str(tvm.compile(mod, target=replayer.target).mod.inspect_source("asm"))
