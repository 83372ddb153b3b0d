from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pair_tasks
import pytest
from effort import THOROUGH, examples
from slow_rows import expected, read_nest
from small_nets import Net

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.model import Costs
from tunesmith.analysis.nest import Kind
from tunesmith.analysis.rows import COLUMNS, Subject, decision_rows
from tunesmith.analysis.running import running
from tunesmith.analysis.shape import Shape, extent, values_of
from tunesmith.operators import parse_operator
from tunesmith.preparation import Preparation
from tunesmith.search.genetic import GeneticSearcher
from tunesmith.space.base import PointBatch
from tunesmith.targets import Target
from tunesmith.types import Decision
from workers.tvm_backend.warm import warm

warm("llvm")

from tvm.s_tir import Schedule  # noqa: E402
from tvm.script import from_source  # noqa: E402

from workers.tvm_backend.design_space import space  # noqa: E402
from workers.tvm_backend.design_space.nests import program as programs  # noqa: E402
from workers.tvm_backend.design_space.nests.derive import Nests  # noqa: E402
from workers.tvm_backend.design_space.nests.forms import NestForms  # noqa: E402
from workers.tvm_backend.design_space.replay import Replayer  # noqa: E402
from workers.tvm_backend.design_space.static_model import prior_of  # noqa: E402
from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: E402

pytestmark = pytest.mark.parallel

TARGET = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
OPERATORS = (
    "gemm:64x96x128",
    "gemm:50x70x30",
    "bmm:4x32x64x32",
    "dense:32x64x48",
    "conv2d:1x16x14x14,32x16x3x3,s1,p1",
    "conv2d:1x16x14x14,32x16x3x3,s2,p1",
    "depthwise:1x32x14x14,k3,s1,p1",
    "softmax:4x16x32",
    "layernorm:16x64",
)
OF_OTHER_EXTENTS = ("gemm:50x70x30", "conv2d:1x16x14x14,32x16x3x3,s2,p1")
"""Operators of which there is another."""


@functools.cache
def traces(spec: str) -> tuple[space.TraceSpace, list[space.SketchBody], Replayer]:
    (task,) = extract_tasks.extract_tasks(pipeline.prepare(import_model.operator_module(parse_operator(spec))).module)
    bodies = space.generate(task.module, TARGET)
    return space.TraceSpace(task.module, TARGET, bodies), bodies, Replayer(task.module, TARGET)


def points(spec: str, n: int) -> PointBatch:
    """Valid canonical points of an operator's space."""
    found, _, _ = traces(spec)
    batch, valid = found.resolve(found.space.sample(np.random.default_rng(3), n))
    return batch.take(valid)


@pytest.mark.parametrize("spec", [each for each in OPERATORS if THOROUGH or each not in OF_OTHER_EXTENTS])
def test_extents_are_those_of_the_scheduled_program(spec: str) -> None:
    found, bodies, replayer = traces(spec)
    batch = points(spec, examples(40))
    understood = 0
    for row, candidate in enumerate(found.space.candidates(batch)):
        body = next(each for each in bodies if each.hash == candidate.sketch)
        nest = found.nests.nest(body.hash, _structure(found, body, candidate.decisions))
        if nest is None:
            continue
        program = programs.read(replayer.apply(body, candidate.decisions))
        values = values_of(nest, body.knobs, batch.choice[row : row + 1])
        if [len(place.loops) for place in program.places] != [len(block.loops) for block in nest.blocks]:
            continue  # locations that clamp differently for other tiles
        understood += 1
        for block, bare, place in zip(nest.blocks, program.bare, program.places, strict=True):
            real = [loop.extent for loop in place.loops]
            for mine, theirs, steps in zip(block.loops, bare.loops, real, strict=True):
                assert steps == 1 or {*theirs.axes} <= {*mine.axes}, f"{block.name}, loop {mine.number}"
                assert steps == 1 or theirs.reduction == mine.reduction, f"{block.name}, loop {mine.number}"
            assert [float(extent(values, loop.extent, 1)[0]) for loop in block.loops] == real, block.name
            assert Shape.make(nest, block, values, 1).iterations == np.prod(real), "with what was fused, taken apart"
    assert understood >= 0.8 * len(batch)


def _structure(found: space.TraceSpace, body: space.SketchBody, decisions: tuple[object, ...]) -> tuple[int, ...]:
    return tuple(int(decisions[at]) for at in found.nests.structural(body.hash))  # type: ignore[call-overload]


@pytest.mark.parametrize("spec", ["gemm:64x96x128", "conv2d:1x16x14x14,32x16x3x3,s1,p1"])
def test_marks_mean_what_the_postprocessing_makes_of_them(spec: str) -> None:
    found, bodies, replayer = traces(spec)
    batch = points(spec, examples(60))
    checked = 0
    for row, candidate in enumerate(found.space.candidates(batch)):
        body = next(each for each in bodies if each.hash == candidate.sketch)
        nest = found.nests.nest(body.hash, _structure(found, body, candidate.decisions))
        if nest is None or nest.marks is None:
            continue
        program = programs.read(replayer.replay(body, candidate.decisions))
        values = values_of(nest, body.knobs, batch.choice[row : row + 1])
        real = {bare.name: place for bare, place in zip(program.bare, program.places, strict=True)}
        for block in nest.blocks:
            names = [name for name in (block.name, f"{block.name}_update") if name in real]
            if not names or not block.loops:
                continue
            shape = Shape.make(nest, block, values, 1)
            run = running(shape, nest.marks, values, CpuModel())
            for flags, kind in ((run.parallel, Kind.PARALLEL), (run.vector, Kind.VECTOR)):
                made = np.prod([loop.extent for loop in real[names[-1]].loops if loop.kind is kind])
                if kind is Kind.VECTOR and run.compiled[0]:
                    assert made == 1
                elif kind is Kind.PARALLEL or block.update:  # copies may go on over whole rows
                    assert np.where(flags, shape.extents, 1.0).prod() == made, (block.name, kind, candidate)
            checked += 1
    assert checked >= examples(20)


@pytest.mark.parametrize("spec", ["gemm:64x96x128", "conv2d:1x16x14x14,32x16x3x3,s1,p1", "softmax:4x16x32"])
def test_decision_rows_are_those_of_the_replayed_schedules(spec: str) -> None:
    found, bodies, replayer = traces(spec)
    batch, cpu, seen = points(spec, examples(40)), CpuModel(), set()
    for row, candidate in enumerate(found.space.candidates(batch)):
        body = next(each for each in bodies if each.hash == candidate.sketch)
        nest = found.nests.nest(body.hash, _structure(found, body, candidate.decisions))
        alone = nest and read_nest(nest, replayer, body, candidate.decisions)
        if nest is None or alone is None:
            continue
        subject = Subject("any", "float32", body.knobs, found.nests.primitives(body.hash))
        mine = batch.choice[batch.sketch == batch.sketch[row]]
        together = decision_rows(Costs(nest, body.knobs, mine, cpu), subject)
        together = together[(batch.sketch[:row] == batch.sketch[row]).sum()]
        made = dict(zip(COLUMNS, together.tolist(), strict=True))
        for name, value in expected(alone, subject, cpu).items():
            if not name.startswith(("tile.", "place.", "category.")):
                assert made[name] == pytest.approx(value, rel=1e-5, nan_ok=True), (name, candidate)
        tiles = [decision for decision in candidate.decisions if isinstance(decision, tuple)]
        for at, factors in enumerate(tiles[:7]):
            logs = [made[f"tile.{at}.{part}"] for part in range(len(factors))]
            assert logs == pytest.approx(np.log2(factors).tolist(), rel=1e-6)
        seen.add(body.hash)
    assert len(seen) > 1


def test_a_packed_product_is_read_as_written() -> None:
    found, bodies, _ = traces("gemm:64x96x128")
    own = [body for body in bodies if not body.postprocs]
    outside = set()
    for body in own:
        nest = found.nests.nest(body.hash, ())
        assert nest is not None
        assert nest.marks is None
        (update,) = [block for block in nest.blocks if block.update]
        assert update.operations == 1.0
        assert update.loops[0].kind is Kind.PARALLEL
        assert update.loops[-1].kind is Kind.VECTOR
        outside.add(len(update.loops) - 5)
        assert [loop.reduction for loop in update.loops[-5:]] == [True] * 2 + [False] * 3
        assert not any(loop.reduction for loop in update.loops[:-5])
        assert [loop.kind for loop in update.loops[-3:]] == [Kind.UNROLLED, Kind.UNROLLED, Kind.VECTOR]
    assert outside == {3, 4}, "a thread that packs for itself has a loop more: over what it packed, around a tile"


def test_our_sketches_of_a_blocked_network_are_all_understood(tmp_path: Path) -> None:
    net = Net(1, 16, 12, 12)
    value = net.conv("x", 32, 3)
    for kernel, stride in ((5, 1), (3, 2)):
        value = net.depthwise(value, kernel, strides=[stride] * 2)
        value = net.op("Mul", value, net.op("Sigmoid", value))
    value = net.op("MaxPool", net.conv(value, 48, 1), kernel_shape=[3, 3], pads=[1] * 4)
    means = net.op("Flatten", net.op("GlobalAveragePool", value))
    first = net.op("Gather", means, net.constant(np.array(0)), axis=0)  # its index is a scalar
    path = net.save(tmp_path / "net.onnx", net.op("Mul", first, means))
    made = pipeline.prepare(import_model.import_model(path, "onnx"), Preparation(blocked=True, fast_math=True))
    seen = 0
    for task in extract_tasks.extract_tasks(made.module):
        bodies = space.generate(task.module, TARGET)
        nests = space.TraceSpace(task.module, TARGET, bodies).nests
        own = [body.hash for body in bodies if not body.postprocs]
        assert all(nests.nest(each, ()) is not None for each in own), task.workload.name
        seen += len(own)
    assert seen > 10


def test_bands_of_a_narrow_convolution_are_understood() -> None:
    task = pair_tasks.convolution((1, 2, 12, 14), 2, (3, 3), padding=(1, 1, 1, 1))
    for cpu in ("znver4", "skylake-avx512", "sapphirerapids"):
        target = Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
        bodies = space.generate(task.module, target)
        nests = space.TraceSpace(task.module, target, bodies).nests
        own = [body for body in bodies if not nests.structural(body.hash)]
        assert own
        assert all(nests.nest(body.hash, ()) is not None for body in own), cpu


def test_nests_of_one_trace_are_found_out_once() -> None:
    """The second of two products costs two replays a nest, and its nests are those that it has alone."""
    forms, replays = NestForms(), list[float]()
    for spec in ("gemm:64x96x128", "gemm:64x96x384"):
        mod = import_model.operator_module(parse_operator(spec))
        (task,) = extract_tasks.extract_tasks(pipeline.prepare(mod).module)
        bodies = [body for body in space.generate(task.module, TARGET) if not body.postprocs]
        alone = space.TraceSpace(task.module, TARGET, bodies).nests
        counting = Counting(task.module, TARGET)
        found = Nests(counting, bodies, forms)
        for body in bodies:
            nest = found.nest(body.hash, ())
            assert nest is not None
            assert nest == alone.nest(body.hash, ())
        replays.append(counting.count / len(bodies))
    assert replays[0] >= 4
    assert replays[1] == 2


class Counting(Replayer):
    count = 0

    def apply(self, body: space.SketchBody, decisions: Sequence[Decision]) -> Schedule:
        self.count += 1
        return super().apply(body, decisions)


RAGGED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((42,), "float32"), B: T.Buffer((42,), "float32")):
    for i in range(6):
        for j in range({steps}):
            with T.sblock("B"):
                v = T.axis.spatial(42, i * 7 + j)
                B[v] = A[v]
"""


def test_a_loop_whose_steps_others_move_has_the_most_of_them() -> None:
    body = from_source(RAGGED.format(steps="i * 4 % 7 // 4 + 1")).body
    (block,) = programs.Program(body).places
    assert [loop.extent for loop in block.loops] == [6, 2]
    with pytest.raises(programs.NotUnderstoodError, match="is no number"):
        programs.Program(from_source(RAGGED.format(steps='T.Cast("int32", A[i])')).body)


def test_a_formula_is_all_of_its_arithmetic() -> None:
    mod = import_model.operator_module(parse_operator("softmax:4x16x32"))
    (task,) = extract_tasks.extract_tasks(pipeline.prepare(mod, Preparation(fast_math=True)).module)
    program = programs.Program(Replayer(task.module, TARGET).fresh().mod["main"].body)
    work = {block.name: block.operations for block in program.bare}
    assert all(block.calls == 0 for block in program.bare)
    assert work["T_softmax_exp"] > 15 > 2 > work["T_softmax_maxelem"], work


SHUFFLED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4, 28, 3136), "float32"), B: T.Buffer((112, 56, 56), "float32")):
    for c in T.parallel(112):
        for f in range(196):
            for l in T.vectorized(16):
                with T.sblock("B"):
                    vc = T.axis.spatial(112, c)
                    vy = T.axis.spatial(56, (f * 16 + l) // 56)
                    vx = T.axis.spatial(56, (f * 16 + l) % 56)
                    B[vc, vy, vx] = A[
                        ((vx // 56 + vy) // 56 + vc) % 4,
                        ((vy * 56 + vx) // 3136 + vc % 112 // 4) % 28,
                        ((vx // 56 + vy) % 56 * 56 + vx % 56) % 3136,
                    ]
"""


def test_what_reshapes_leave_of_an_index_is_settled() -> None:
    (block,) = programs.Program(from_source(SHUFFLED).body).bare
    (read,) = block.reads
    assert [(index.strides, index.divide, index.modulo) for index in read.indices] == [
        (((0, 1),), 1, 4),
        (((0, 1),), 4, 0),
        (((1, 56), (2, 1)), 1, 0),
    ]
    assert [loop.axes for loop in block.loops] == [(0,), (1, 2), (1, 2)], "the outer axis of fused ones first"


CHOSEN = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, {rows}, 16), "float32")):
    for y, i, x in T.grid(8, {rows}, 16):
        with T.sblock("B"):
            vy, vi, vx = T.axis.remap("SSS", [y, i, x])
            B[vy, vi, vx] = T.Select(
                vi == 0,
                A[vy, vx],
                A[vy, vx] * T.Select(vi == 1, T.float32(2), T.float32(-1))
                + A[0, vx] * T.Select(vi == 1, T.float32(3), T.float32(0)),
            )
"""


@pytest.mark.parametrize(("rows", "operations"), [(4, 2 / 4), (100, 1 + 1 + 1 + 1 + 1)])
def test_what_a_body_chooses_by_an_unrolled_axis_counts_in_the_mean(rows: int, operations: float) -> None:
    (block,) = programs.Program(from_source(CHOSEN.format(rows=rows)).body).bare
    assert (block.operations, block.calls) == (operations, 0.0)


def test_what_is_not_understood_has_no_nest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is known to be beyond nests, nor what nobody thought of, ends a search."""
    (task,) = extract_tasks.extract_tasks(
        pipeline.prepare(import_model.operator_module(parse_operator("gemm:32x32x32"))).module
    )
    bodies = space.generate(task.module, TARGET)
    for error in (programs.NotUnderstoodError("a While"), AttributeError("an odd node"), IndexError("an odd one")):

        def fail(sch: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("workers.tvm_backend.design_space.nests.derive.read", fail)
        made = space.TraceSpace(task.module, TARGET, bodies)
        prior = prior_of(made, TARGET, None)
        assert prior is not None
        points = made.space.sample(np.random.default_rng(0), 64)
        assert np.isnan(prior(points)).all()
        assert len(GeneticSearcher(made.space, seed=0).ask(8, prior=prior)) == 8


def test_a_sketch_with_nothing_to_decide_has_an_estimate_too() -> None:
    (task,) = extract_tasks.extract_tasks(
        pipeline.prepare(import_model.operator_module(parse_operator("gemm:8x8x8"))).module
    )
    replayer = Replayer(task.module, TARGET)
    body = space.SketchBody(trace="[]", knobs=(), postprocs=replayer.postprocs)
    made = space.TraceSpace(task.module, TARGET, [body])
    nest = made.nests.nest(body.hash, ())
    assert nest is not None
    assert [len(block.loops) for block in nest.blocks] == [3]
    prior = prior_of(made, TARGET, None)
    assert prior is not None
    assert np.isfinite(prior(made.space.at(np.zeros(1, dtype=np.int64)))).all()
