"""What a job can be asked for, by name and type."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict


class JobChoices(TypedDict, total=False):
    """Further arguments of :meth:`Client.submit`; what is None or missing is the server's default.

    Attributes:
        name: name of the job; the model's by default.
        tags: words by which the job is found.
        comment: for people.
        kind: ``tune`` or ``collect``.
        per_task: labels that a collecting job takes of each task.
        shard: which part of each space a collecting job takes, from 0.
        shards: in how many parts each space is.
        search: search strategy.
        cost_model: cost model.
        allocator: how tasks share the budget.
        priority: -10 to 10; higher runs first.
        seed: seed of the search.
        warm_start: start from what earlier jobs found, and from the shipped ranker.
        verify: compile the model at the end, check its outputs and time it.
        fast_math: allow polynomials for exp, log, erf, tanh and sigmoid.
        winograd: allow Winograd's algorithm for convolutions.
        space: ``all``, or ``tvm`` for TVM's own design space.
        precision: ``float32``, ``bf16``, ``int8`` or ``auto``.
        tolerance: with precision ``auto``, how far outputs may lie from float32's, as a part of theirs.
        proposal_share: part of each batch that candidates proposed from outside may have.
    """

    name: str | None
    tags: Sequence[str] | None
    comment: str | None
    kind: str | None
    per_task: int | None
    shard: int | None
    shards: int | None
    search: str | None
    cost_model: str | None
    allocator: str | None
    priority: int | None
    seed: int | None
    warm_start: bool | None
    verify: bool | None
    fast_math: bool | None
    winograd: bool | None
    space: str | None
    precision: str | None
    tolerance: float | None
    proposal_share: float | None
