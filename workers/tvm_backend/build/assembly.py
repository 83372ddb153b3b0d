"""The assembly text of a candidate, compiled as it is to be measured, and neither linked nor run."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from tunesmith.errors import InvalidCandidate
from workers.sandbox.parent_death import die_with_parent
from workers.tvm_backend.build.builder import fetching_ahead, lowering
from workers.tvm_backend.design_space import replay

END = b"\0"

if TYPE_CHECKING:
    from tunesmith.types import Candidate, Decision
    from workers.tvm_backend.design_space.replay import Replayer
    from workers.tvm_backend.design_space.sketch import SketchBody
    from workers.tvm_backend.design_space.space import TraceSpace


def assembly_of(traces: TraceSpace, candidate: Candidate) -> str:
    """As :func:`assembly`, of a candidate of a space."""
    return assembly(traces.replayer, traces.body(candidate), candidate.decisions)


def assembly_within(traces: TraceSpace, candidate: Candidate, seconds: float) -> str:
    """As :func:`assembly_of`, in a process of its own: for some programs LLVM takes minutes, and nothing else stops it.

    Raises:
        InvalidCandidate: the sketch does not apply with these decisions, or it was not compiled within ``seconds``.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            die_with_parent()
            with open(theirs, "wb") as out:
                out.write(assembly_of(traces, candidate).encode() + END)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        return _received(ours, time.monotonic() + seconds)
    finally:
        os.close(ours)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _received(end: int, deadline: float) -> str:
    """What comes through a pipe, whose last byte says that it is all: another child may hold the pipe open."""
    found = b""
    while not found.endswith(END):
        ready, _, _ = select.select([end], [], [], max(0.0, deadline - time.monotonic()))
        some = os.read(end, 1 << 16) if ready else b""
        if not some:
            raise InvalidCandidate("it does not compile" if ready else "it takes LLVM too long")
        found += some
    return found[: -len(END)].decode()


def assembly(replayer: Replayer, body: SketchBody, decisions: Sequence[Decision]) -> str:
    """What LLVM prints of a candidate.

    Raises:
        InvalidCandidate: the sketch does not apply with these decisions.
    """
    done = replay.scheduled(replayer.replay(body, decisions))
    mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(fetching_ahead(done.mod, replayer.target))
    with replayer.target, tvm.transform.PassContext(config=lowering(mod, replayer.target)):
        return str(tvm.compile(mod, target=replayer.target).mod.inspect_source("asm"))
