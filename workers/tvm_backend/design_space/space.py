"""Design spaces: TVM's generator turned into numeric sketches, and points turned back into schedules."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.s_tir import Schedule, ScheduleError

from costmodels.base import Features
from tunesmith.analysis.prior import Samples
from tunesmith.errors import InvalidCandidate
from tunesmith.names import DEFAULT_SPACE, TVM_SPACE
from tunesmith.space.base import Bools, PointBatch, Resolver
from tunesmith.space.knobs import Categorical, ComputeLocation, Knob, PerfectTile
from tunesmith.space.space import Space
from tunesmith.targets import Target
from tunesmith.types import Candidate, Decision
from workers.tvm_backend import tir
from workers.tvm_backend.design_space import rules, thread_registers, vector_limit
from workers.tvm_backend.design_space.features import Extractor
from workers.tvm_backend.design_space.nests.derive import Nests
from workers.tvm_backend.design_space.nests.forms import NestForms
from workers.tvm_backend.design_space.replay import Replayer, decisions_of, together
from workers.tvm_backend.design_space.rules.dots import POSTPROC
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.passes.extract_tasks import arguments

__all__ = ["SketchBody", "TraceSpace", "generate", "tunable"]

BEYOND = 1 << 20
"""A compute location past any loop: TVM clamps it to the innermost valid one."""

CACHED_POINTS = 4096
CACHED_SCHEDULES = 256
BOUNDS = 16
"""Candidates of a sketch that are read for bounds of the others, at most."""


def generate(module: bytes, target: Target, space: str = DEFAULT_SPACE) -> list[SketchBody]:
    """The sketches that TVM's rules for the target's kind, and Tunesmith's rules next to them, make of a workload.

    TVM's ``space`` has none of Tunesmith's sketches, and TVM's are as TVM makes them.

    Deterministic. A workload without anything to decide has one sketch without knobs.

    Raises:
        ScheduleError: TVM's rules do not fit the workload, and there is no sketch of Tunesmith's.
    """
    replayer = Replayer(module, target)
    if space == TVM_SPACE:
        return _sketches(_by_tvms_rules(replayer), replayer, None)
    ours = _by_our_rules(replayer, target)
    try:
        made = _by_tvms_rules(replayer)
    except ScheduleError:  # such as a norm whose scale is a tensor: one of its two sums would lose the other
        if not ours:
            raise
        made = []
    return _sketches([*made, *ours], replayer, _widest(replayer, target))


def generate_own(module: bytes, target: Target) -> list[SketchBody]:
    """The sketches of :func:`generate` that Tunesmith's rules make, in a part of the time that all of them take."""
    replayer = Replayer(module, target)
    return _sketches(_by_our_rules(replayer, target), replayer, _widest(replayer, target))


def _by_tvms_rules(replayer: Replayer) -> list[tuple[Schedule, tuple[str, ...]]]:
    return [(sch, replayer.postprocs) for sch in replayer.context.generate_design_space()]


def _by_our_rules(replayer: Replayer, target: Target) -> list[tuple[Schedule, tuple[str, ...]]]:
    """Schedules, and the postprocessors of each."""
    return [(sch, rules.postprocs(sch)) for sch in rules.schedules(replayer.fresh, target)]


def _widest(replayer: Replayer, target: Target) -> int | None:
    """Most steps that become one vector."""
    args = arguments(replayer.mod)
    return vector_limit.widest(args[-1], target) if args else None


def _sketches(
    made: Sequence[tuple[Schedule, tuple[str, ...]]], replayer: Replayer, widest: int | None
) -> list[SketchBody]:
    """Those of schedules, each once."""
    found: dict[str, SketchBody] = {}
    for sch, postprocs in made:
        body = sketch_body(sch, replayer, postprocs, widest)
        found.setdefault(body.hash, body)
    return list(found.values())


def is_generated(body: SketchBody) -> bool:
    """Whether TVM's generator made a sketch, and not one of our rules."""
    return bool(set(body.postprocs) - {POSTPROC})


def tunable(bodies: Sequence[SketchBody]) -> bool:
    """True when there is a decision to take: some knob with more than one choice, or several sketches."""
    return sum(math.prod(knob.size for knob in body.knobs) for body in bodies) > 1


def sketch_body(sch: Schedule, replayer: Replayer, postprocs: tuple[str, ...], widest: int | None = None) -> SketchBody:
    """The sketch of a schedule: its trace, and a knob for each decision in it.

    Args:
        replayer: replays traces of the workload that ``sch`` schedules.
        postprocs: names of the postprocessors to run after a replay.
        widest: most steps that become one vector; None: no limit.
    """
    trace = sch.trace
    instructions = tir.canonical_json(vector_limit.limited(tir.plain(trace.as_json())[0], widest))
    sampling = [i for i in trace.insts if tir.is_knob(i)]
    decisions = [tir.plain_decision(trace.decisions[i]) for i in sampling]
    knobs = [_knob(i, d) for i, d in zip(sampling, decisions, strict=True)]
    draft = SketchBody(instructions, tuple(knobs), postprocs)
    places = [i for i, knob in enumerate(knobs) if isinstance(knob, ComputeLocation)]
    for i, (low, high) in _location_ranges(replayer, draft, decisions, places).items():
        knobs[i] = ComputeLocation(low, high)
    return SketchBody(instructions, tuple(knobs), postprocs)


def _knob(instruction: Any, decision: Decision) -> Knob:
    kind, attrs = str(instruction.kind.name), tir.plain(instruction.attrs)
    if kind == "SamplePerfectTile":
        assert isinstance(decision, tuple)
        return PerfectTile(math.prod(decision), int(attrs[0]), int(attrs[1]))
    if kind == "SampleCategorical":
        return Categorical(len(attrs[0]))
    if kind == "SampleComputeLocation":
        assert isinstance(decision, int)
        return ComputeLocation(min(decision, -1), max(decision, -1))
    raise ValueError(f"a sampling instruction of unknown kind {kind!r}")


def _location_ranges(
    replayer: Replayer, body: SketchBody, decisions: list[Decision], places: list[int]
) -> dict[int, tuple[int, int]]:
    """What each compute location may become: its extremes, alone and together with the others', tiles as generated
    and all in one piece."""
    seen = {i: {-1, int(decisions[i])} for i in places}  # type: ignore[arg-type]
    whole = [
        (k.extent, *[1] * (k.parts - 1)) if isinstance(k, PerfectTile) else d
        for k, d in zip(body.knobs, decisions, strict=True)
    ]
    trials = [{i: value} for i in places for value in (-2, BEYOND)]
    trials += [dict.fromkeys(places, value) for value in (-2, BEYOND)] if len(places) > 1 else []
    wanted = [tuple(trial.get(i, d) for i, d in enumerate(base)) for base in (decisions, whole) for trial in trials]
    for values in dict.fromkeys(wanted):
        try:
            taken = decisions_of(replayer.apply(body, values), len(values))
        except InvalidCandidate:
            continue
        for i in places:
            seen[i].add(int(taken[i]))  # type: ignore[arg-type]
    return {i: (min(values), max(values)) for i, values in seen.items()}


@dataclass
class _Point:
    """What is known of a candidate: its canonical form (None: invalid) and, once asked for, its features."""

    canonical: Candidate | None
    features: np.ndarray[Any, Any] | None = None


class TraceSpace(Resolver):
    """The design space of a workload on a target.

    Replays are remembered, so that resolving a batch and then extracting its features costs one replay a point.

    Args:
        module: JSON of the workload.
        target: what it is tuned for.
        bodies: sketches of the space.
        threads: replays at a time; TVM releases the GIL.
        forms: what is known of nests of other workloads.

    Attributes:
        space: the numeric side.
        replayer: replays traces of the workload.
        nests: what the sketches make of the workload, for the static model.
        generated: hashes of the sketches that TVM's generator made.
        samples: what static models of the space found of its random points.
    """

    def __init__(
        self,
        module: bytes,
        target: Target,
        bodies: Sequence[SketchBody],
        threads: int = 1,
        forms: NestForms | None = None,
    ) -> None:
        self.space = Space([body.sketch for body in bodies])
        self._bodies = {body.hash: body for body in bodies}
        self.replayer = Replayer(module, target)
        self._target, self._gpu = target, "gpu" in self.replayer.target.keys
        self._bounds: dict[str, list[thread_registers.Bounds]] = {}
        self.nests = Nests(self.replayer, bodies, forms)
        self.samples: Samples = {}
        self.generated = frozenset(body.hash for body in bodies if is_generated(body))
        self._extractor = Extractor(self.replayer)
        self._points: collections.OrderedDict[Candidate, _Point] = collections.OrderedDict()
        self._schedules: collections.OrderedDict[Candidate, Schedule] = collections.OrderedDict()
        self._threads = threads
        for body in bodies:
            self.replayer.skeleton(body)

    def body(self, candidate: Candidate) -> SketchBody:
        """The sketch of a candidate."""
        return self._bodies[str(candidate.sketch)]

    def resolve(self, batch: PointBatch) -> tuple[PointBatch, Bools]:
        """Canonical form and validity of each point."""
        points = self._ask(self.space.candidates(batch), self._resolved)
        return self._rows(batch, points)

    def features(self, batch: PointBatch) -> tuple[PointBatch, Features | None, Bools]:
        """Canonical form, per-store features of the valid points in order (None without any), and validity."""
        points = self._ask(self.space.candidates(batch), self._featured)
        resolved, valid = self._rows(batch, points)
        rows = [p.features for p in points if p.features is not None]
        if not rows:
            return resolved, None, valid
        offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
        return resolved, Features(np.concatenate(rows), offsets), valid

    def trace(self, candidate: Candidate) -> str:
        """The candidate's complete trace as JSON.

        Raises:
            InvalidCandidate: it does not apply.
        """
        sch = self.replayer.replay(self.body(candidate), candidate.decisions)
        return tir.trace_json(sch.trace)

    def why_invalid(self, candidate: Candidate) -> str:
        """Why a candidate that :meth:`resolve` calls invalid is so, in a sentence."""
        try:
            self.trace(candidate)
        except InvalidCandidate as error:
            return error.detail
        return "its program does not fit the target"

    def _rows(self, batch: PointBatch, points: list[_Point]) -> tuple[PointBatch, Bools]:
        valid = np.array([p.canonical is not None for p in points], dtype=np.bool_)
        resolved = PointBatch(batch.sketch.copy(), batch.choice.copy())
        known = self.space.batch([p.canonical for p in points if p.canonical is not None])
        resolved.sketch[valid], resolved.choice[valid] = known.sketch, known.choice
        return resolved, valid

    def _ask(self, candidates: list[Candidate], answer: Callable[[Candidate], _Point]) -> list[_Point]:
        distinct = list(dict.fromkeys(candidates))
        found = dict(zip(distinct, together(answer, distinct, self._threads), strict=True))
        for candidate, point in found.items():
            self._remember(candidate, point)
        return [found[c] for c in candidates]

    def _remember(self, candidate: Candidate, point: _Point) -> None:
        for key in {candidate, point.canonical or candidate}:
            self._points[key] = point
            self._points.move_to_end(key)
        while len(self._points) > CACHED_POINTS:
            self._points.popitem(last=False)
        while len(self._schedules) > CACHED_SCHEDULES:
            self._schedules.popitem(last=False)

    def _resolved(self, candidate: Candidate) -> _Point:
        point = self._points.get(candidate)
        if point is not None:
            return point
        sch = None if self._surely_refused(candidate) else self._replay(candidate)
        if sch is None:
            return _Point(None)
        taken = decisions_of(sch, len(candidate.decisions))
        canonical = Candidate(candidate.sketch, taken)
        if not self.space.known([canonical])[0]:
            return _Point(None)
        known = self._points.get(canonical)
        if known is None or known.features is None:
            self._schedules[canonical] = sch
        return known or _Point(canonical)

    def _featured(self, candidate: Candidate) -> _Point:
        point = self._resolved(candidate)
        if point.canonical is None or point.features is not None:
            return point
        sch = self._schedules.pop(point.canonical, None) or self._replay(point.canonical)
        rows = None if sch is None else self._extractor.extract(sch)
        return _Point(None) if rows is None else _Point(point.canonical, rows)

    def _replay(self, candidate: Candidate) -> Schedule | None:
        try:
            sch = self.replayer.replay(self.body(candidate), candidate.decisions)
        except InvalidCandidate:
            return None
        return sch if not self._gpu or thread_registers.fits(sch, self._target) else None

    def _surely_refused(self, candidate: Candidate) -> bool:
        """True for a GPU's candidate whose decisions alone say that a replay would refuse it."""
        if not self._gpu:
            return False
        known = self._bounds.setdefault(str(candidate.sketch), [])
        if len(known) < BOUNDS and not any(each.whole for each in known):
            try:
                sch = self.replayer.apply(self.body(candidate), candidate.decisions)
            except InvalidCandidate:
                return True
            known.append(thread_registers.Bounds.of(sch, self._target, candidate.decisions))
        return not all(each.hold(candidate.decisions) for each in known)
