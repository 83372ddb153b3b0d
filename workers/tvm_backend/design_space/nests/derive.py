"""From sketches to nests: what a trace makes of a workload, with extents as functions of the decisions.

A sketch is replayed with some vectors of decisions. The trace says which loops come from which knob (splits and what is
fused of them), the scheduled program says what each block does; a loop that no split made (where a block is computed
at another's loop) covers what the other block needs. A loop that has as many steps as one part of a tile in every
replay is taken for it (a reduction that was factored has such copies). What a replay contradicts is not understood.
"""

from __future__ import annotations

import collections
import functools
import itertools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Kind, Marks, Nest, Product
from tunesmith.analysis.shape import extent, values_of
from tunesmith.errors import InvalidCandidate
from tunesmith.space.base import Ints
from tunesmith.space.knobs import ComputeLocation, Knob
from tunesmith.types import Decision
from workers.tvm_backend.design_space.nests.errors import AmbiguousError, NotUnderstoodError
from workers.tvm_backend.design_space.nests.extents import common_sizes, resolve
from workers.tvm_backend.design_space.nests.forms import NestForms, alike, explained
from workers.tvm_backend.design_space.nests.moved import told_by_all
from workers.tvm_backend.design_space.nests.program import Program, read
from workers.tvm_backend.design_space.nests.trace_loops import Tags
from workers.tvm_backend.design_space.replay import Replayer, decisions_of, together
from workers.tvm_backend.design_space.sketch import SketchBody

MAX_NESTS = 512
"""Nests of a space at most, each sketch having its share; many blocks have hundreds of places, at some 40 ms each."""
MIN_NESTS_PER_SKETCH = 1
"""Nests of a sketch that may be made in any case: at a time, and in all."""
REPLAYS, MORE_REPLAYS = 4, 8
"""Vectors of decisions, and how many where few leave it open what a loop follows."""
FEW_REPLAYS = 2
"""How many show that a nest is that of another workload with the same trace, up to constants."""
TRIALS, MAX_FRUITLESS_TRIALS = 6, 8
"""Vectors that are tried for each that is wanted, and how many before a place counts as one that does not exist."""
MAX_CHOICES_PER_KNOB = 4096
"""Choices of a knob that are looked at."""
log = logging.getLogger("tunesmith.search")


class Nests:
    """Nests of a workload's sketches, each made when it is asked for, up to ``MAX_NESTS``. One thread at a time.

    Args:
        replayer: replayer of the workload.
        bodies: the workload's sketches.
        forms: nests of other workloads; what they have in common with these need not be found again.
    """

    def __init__(self, replayer: Replayer, bodies: Sequence[SketchBody], forms: NestForms | None = None) -> None:
        self._replayer, self._forms = replayer, forms or NestForms()
        self._bodies = {body.hash: body for body in bodies}
        self._found: dict[tuple[str, tuple[int, ...]], Nest | None] = {}
        self._made: collections.Counter[str] = collections.Counter()
        self._allowed = MAX_NESTS
        self._primitives: dict[str, Mapping[str, int]] = {}

    def ration(self, count: int) -> None:
        """Make some ``count`` more at most until this is called again; each sketch has its share."""
        each = max(MIN_NESTS_PER_SKETCH, count // max(1, len(self._bodies)))
        self._allowed = max(self._made.values(), default=0) + each

    @property
    def made(self) -> int:
        """How many were tried so far, those included that are not understood."""
        return self._made.total()

    def structural(self, sketch: str) -> tuple[int, ...]:
        """Positions of the compute locations."""
        knobs = self._bodies[sketch].knobs
        return tuple(at for at, knob in enumerate(knobs) if isinstance(knob, ComputeLocation))

    def primitives(self, sketch: str) -> Mapping[str, int]:
        """How often a sketch's trace has each kind of instruction."""
        if sketch not in self._primitives:
            self._primitives[sketch] = collections.Counter(each[0] for each in json.loads(self._bodies[sketch].trace))
        return self._primitives[sketch]

    def nest(self, sketch: str, decided: tuple[int, ...]) -> Nest | None:
        """The nest of a sketch with its blocks at these locations; None when it is not understood."""
        key = sketch, decided
        if key not in self._found and self._made[sketch] < min(
            self._allowed, max(MIN_NESTS_PER_SKETCH, MAX_NESTS // len(self._bodies))
        ):
            self._made[sketch] += 1
            body, places = self._bodies[sketch], self.structural(sketch)
            try:
                self._found[key] = self._derive(body, dict(zip(places, decided, strict=True)))
            except (NotUnderstoodError, InvalidCandidate):
                self._found[key] = None
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                # A program of a shape that nobody thought of: the search goes on without an opinion of it.
                log.warning("no nest of sketch %s: %s: %s", sketch[:12], type(error).__name__, error)
                self._found[key] = None
        return self._found.get(key)

    def _derive(self, body: SketchBody, fixed: dict[int, int]) -> Nest:
        places = tuple(fixed.values())
        like = self._forms.get(body.trace, places)
        nest = None if like is None else self._like(body, fixed, like)
        if nest is None:
            nest = self._found_out(body, fixed)
            self._forms.put(body.trace, places, nest)
        return nest

    def _like(self, body: SketchBody, fixed: dict[int, int], other: Nest) -> Nest | None:
        """The nest if it differs from another workload's in constants alone."""
        try:
            nest = _nest(body, next(self._replays(body, fixed, (FEW_REPLAYS,))), other)
        except NotUnderstoodError:
            return None
        return nest if alike(nest, other) else None

    def _found_out(self, body: SketchBody, fixed: dict[int, int]) -> Nest:
        replays = self._replays(body, fixed, (FEW_REPLAYS, REPLAYS, MORE_REPLAYS))
        _ = next(replays)[0].program  # many sketches that are not understood are given up here
        try:
            return _nest(body, next(replays))
        except AmbiguousError:
            return _nest(body, next(replays))

    def _replays(self, body: SketchBody, fixed: dict[int, int], counts: Sequence[int]) -> Iterator[list[_Replay]]:
        """As many as the first of ``counts``, then more with these among them, that apply and put their blocks at the
        wanted places. Where these seem not to exist, it is the places that most are moved to."""
        exact, tried = tuple(fixed.values()), 0
        if len(fixed) == len(body.knobs):  # nothing else moves
            counts = [1] * len(counts)
        found: dict[tuple[Decision, ...], list[_Replay]] = {exact: []}
        vectors = _vectors(body, fixed)
        for wanted in counts:
            matching = found[exact]
            while len(matching) < wanted and tried < TRIALS * max(wanted, REPLAYS):
                some = list(itertools.islice(vectors, wanted - len(found[exact])))
                if not some:  # nothing to decide
                    break
                tried += len(some)
                for replay in together(lambda vector: self._replay(body, vector), some):
                    if replay is not None:
                        found.setdefault(tuple(replay.decisions[at] for at in fixed), []).append(replay)
                usual = max(found.values(), key=len)
                matching = usual if tried > MAX_FRUITLESS_TRIALS and not found[exact] else found[exact]
            if len(matching) < wanted:
                raise NotUnderstoodError("too few vectors of decisions apply alike")
            yield matching[:wanted]

    def _replay(self, body: SketchBody, decisions: Sequence[Decision]) -> _Replay | None:
        try:
            sch = self._replayer.apply(body, decisions)
        except InvalidCandidate:
            return None
        return _Replay(sch, decisions_of(sch, len(decisions)))


def _telling(rng: np.random.Generator, knob: Knob, n: int) -> Ints:
    """``n`` choices, distinct while there are so many. In turn those with the fewest parts of 1, which say least and
    take places from other blocks, and any."""
    drawn = (
        rng.permutation(knob.size)
        if knob.size <= MAX_CHOICES_PER_KNOB
        else np.unique(rng.integers(knob.size, size=MAX_CHOICES_PER_KNOB))
    )
    units = (knob.values(drawn.astype(np.int64)) == 1).sum(axis=1) + rng.random(len(drawn))
    both = np.stack([np.resize(drawn[np.argsort(units)], n), np.resize(drawn, n)], axis=1)
    return both.reshape(-1)[:n].astype(np.int64)


def _vectors(body: SketchBody, fixed: dict[int, int]) -> Iterator[list[Decision]]:
    """Vectors of decisions that tell much, with what is ``fixed``."""
    if not body.knobs:
        yield []
        return
    rng = np.random.default_rng(0)
    columns = [knob.decisions(_telling(rng, knob, TRIALS * MORE_REPLAYS)) for knob in body.knobs]
    for drawn in zip(*columns, strict=True):
        yield [fixed.get(at, each) for at, each in enumerate(drawn)]


def _nest(body: SketchBody, replays: Sequence[_Replay], other: Nest | None = None) -> Nest:
    """``other``: another workload's nest of the same trace, which may tell what the replays leave open."""
    tags = Tags.of(replays[0].sch)
    programs = [replay.program for replay in replays]
    extents = resolve(programs, tags, [replay.decisions for replay in replays], explained(other) if other else {})
    first = programs[0]
    nest = Nest(
        told_by_all(programs, extents, other.blocks if other else ()),
        first.buffers,
        tuple(tags.tables.get(at, ()) for at in range(len(body.knobs))),
        _marks(first, tags),
    )
    _check(nest, body, [replay.decisions for replay in replays], programs)
    return _common(nest, programs)


@dataclass(frozen=True)
class _Replay:
    sch: Schedule
    decisions: tuple[Decision, ...]

    @functools.cached_property
    def program(self) -> Program:
        return read(self.sch)


def _marks(program: Program, tags: Tags) -> Marks | None:
    """What the root's annotations leave to TVM's postprocessing; None when they leave nothing."""
    notes = {name: value for name, value in program.notes.items() if name.startswith("meta_schedule.")}
    parallel, vector = (int(notes.get(f"meta_schedule.{name}", 0)) for name in ("parallel", "vectorize"))
    steps = max((int(notes.get(f"meta_schedule.unroll_{how}", 0)) for how in ("explicit", "implicit")), default=0)
    if not notes:
        return None
    if any(loop.kind is not Kind.SERIAL for place in program.places for loop in place.loops):
        raise NotUnderstoodError("loops are marked, and left to be marked")
    return Marks(parallel, vector, Product(1, (tags.unroll,)) if tags.unroll else Product(steps))


def _common(nest: Nest, programs: Sequence[Program]) -> Nest:
    """Sizes of axes and buffers that decisions change are open."""
    blocks = [
        replace(block, axes=common_sizes([program.bare[at].axes for program in programs]))
        for at, block in enumerate(nest.blocks)
    ]
    buffers = [
        replace(buffer, shape=common_sizes([program.buffers[at].shape for program in programs]))
        for at, buffer in enumerate(nest.buffers)
    ]
    return replace(nest, blocks=tuple(blocks), buffers=tuple(buffers))


def _check(nest: Nest, body: SketchBody, decisions: Sequence[Sequence[Decision]], programs: Sequence[Program]) -> None:
    """Every extent of a nest is that of each program, and the model can work with it.

    Raises:
        NotUnderstoodError: one is not.
    """
    columns = [knob.find(list(taken)) for knob, taken in zip(body.knobs, zip(*decisions, strict=True), strict=True)]
    n, choice = len(programs), np.array(columns, dtype=np.int64).reshape(len(columns), len(programs)).T
    values = values_of(nest, body.knobs, choice)
    for number, block in enumerate(nest.blocks):
        for depth, loop in enumerate(block.loops):
            real = [program.places[number].loops[depth].extent for program in programs]
            if extent(values, loop.extent, n).tolist() != real:
                raise NotUnderstoodError(f"a loop of {block.name} has {real} steps, not what {loop.extent} says")
    if not np.isfinite(Costs(nest, body.knobs, choice, CpuModel()).seconds()).all():
        raise NotUnderstoodError("no estimate is possible")
