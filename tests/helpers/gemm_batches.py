"""Batches of a small matrix product for a measure worker, and a mailbox for what it reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tunesmith.messages import BatchReport, MeasureBatch, MeasureLimits, Message, Payload, WireCandidate, WireResult
from tunesmith.operators import parse_operator
from tunesmith.targets import Target
from workers.protocol import RunOutcome, RunRequest

LIMITS = MeasureLimits(build_timeout=30.0, run_timeout=5.0, repeats=3, min_repeat_seconds=0.002)


@dataclass
class Mailbox:
    """Takes what the worker sends."""

    messages: list[Message] = field(default_factory=list)

    def send(self, message: Message) -> bool:
        self.messages.append(message)
        return True

    def results(self, batch_id: int, attempt: int = 1, error: str = "") -> dict[int, WireResult]:
        """By index, each reported once; the last report, which alone is final, has words of ``error`` in its own."""
        reports = [m for m in self.messages if isinstance(m, BatchReport)]
        mine = [r for r in reports if (r.batch_id, r.attempt) == (batch_id, attempt)]
        assert [r.final for r in mine] == [False] * (len(mine) - 1) + [True]
        assert error in mine[-1].error
        assert bool(error) == bool(mine[-1].error), mine[-1].error
        found = [result for r in mine for result in r.results]
        assert len({r.index for r in found}) == len(found)
        return {r.index: r for r in found}

    def last(self, kind: type[Any]) -> Any:
        return [m for m in self.messages if isinstance(m, kind)][-1]


@dataclass(frozen=True)
class Gemm:
    """The product: its prepared model, its task, some candidates."""

    module: bytes
    task: Any
    bodies: list[Any]
    candidates: list[Any]
    target: Target

    @classmethod
    def make(cls, target: Target, count: int, size: int = 64) -> Gemm:
        """With ``count`` candidates that apply, all different."""
        from workers.tvm_backend.design_space import space
        from workers.tvm_backend.frontends import import_model
        from workers.tvm_backend.passes import extract_tasks, pipeline

        prepared = pipeline.prepare(import_model.operator_module(parse_operator(f"gemm:{size}x{size}x{size}:float32")))
        (task,) = extract_tasks.extract_tasks(prepared.module)
        bodies = space.generate(task.module, target)
        points = space.TraceSpace(task.module, target, bodies)
        batch, valid = points.resolve(points.space.sample(np.random.default_rng(0), 6 * count))
        found = list(dict.fromkeys(points.space.candidates(batch.take(valid))))
        assert len(found) >= count
        return cls(prepared.module, task, bodies, found[:count], target)

    def batch(self, batch_id: int, chosen: Sequence[Any] | None = None, **changes: Any) -> MeasureBatch:
        """The default schedule at index 0, then the ``chosen``, by default all candidates; fields as in ``changes``."""
        chosen = self.candidates if chosen is None else chosen
        wire = [WireCandidate(index=0, sketch=None)]
        wire += [
            WireCandidate(index=i, sketch=c.sketch, decisions=c.to_json()[1]) for i, c in enumerate(chosen, start=1)
        ]
        values = {
            "batch_id": batch_id,
            "attempt": 1,
            "job_id": "job",
            "target": self.target.to_json(),
            "workload": self.task.workload.hash,
            "module": Payload.pack(self.task.module),
            "candidates": wire,
            "sketches": {b.hash: Payload.pack(b.to_json()) for b in self.bodies},
            "limits": LIMITS,
        }
        return MeasureBatch(**{**values, **changes})


def slow_champion(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a race champions take a thousand times as long as they do, so that all others are faster on a busy machine."""
    from workers.tvm_backend.run.runner import RpcRunner

    race = RpcRunner.race

    def slowed(runner: RpcRunner, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        found = race(runner, requests, incumbent)
        slow = [replace(outcome, samples=tuple(1e3 * sample for sample in outcome.samples)) for outcome in found]
        return [late if asked.champion else own for asked, own, late in zip(requests, found, slow, strict=True)]

    monkeypatch.setattr(RpcRunner, "race", slowed)
