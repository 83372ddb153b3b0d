"""The shipped code ranker, and candidates that are compiled to be read before one is taken."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import costmodels.pretrained
from costmodels.base import Features, Floats
from costmodels.pretrained import code_ranker
from tunesmith import extras
from tunesmith.analysis.machine_code import COLUMNS as COUNTS
from tunesmith.analysis.prior import StaticPrior
from tunesmith.analysis.rows import BLOCKS, PLACE, STATIC
from tunesmith.errors import InvalidCandidate
from tunesmith.names import CODE_RANKER
from tunesmith.search.construction import construct
from tunesmith.space.base import PointBatch
from tunesmith.targets import Target
from tunesmith.unmeasured import Source
from workers.tvm_backend.warm import warm

warm("llvm")

from benchmarks.harness.operators import Operator, load  # noqa: E402
from workers.core import code_reader  # noqa: E402
from workers.core.code_reader import ALWAYS, DOUBT, SECONDS, CodeReader, reader  # noqa: E402
from workers.tvm_backend.build import assembly  # noqa: E402
from workers.tvm_backend.design_space.space import TraceSpace  # noqa: E402
from workers.tvm_backend.design_space.static_model import prior_of  # noqa: E402
from workers.tvm_backend.design_space.unmeasured import choose  # noqa: E402

pytestmark = pytest.mark.parallel
TARGET = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


class Model:
    """Adds to the static model's scores what it is told of each program in turn, and counts them."""

    def __init__(self, *added: float) -> None:
        self.added, self.read = added, 0

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        assert len(features) == 1
        assert features.code is not None
        assert features.code.shape == (1, len(COUNTS))
        assert features.code.max() > 1, "its code was counted"
        self.read += 1
        return -features.rows[:, PLACE[STATIC]].astype(np.float64) + self.added[self.read - 1], np.zeros(1)


class Against:
    """Ranks against the static model."""

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        return features.rows[:, PLACE[STATIC]].astype(np.float64), np.zeros(len(features))


class Agreeing:
    """Ranks as the static model does."""

    def predict(self, features: Features) -> tuple[Floats, Floats]:
        return -features.rows[:, PLACE[STATIC]].astype(np.float64), np.zeros(len(features))


class Backwards:
    """Takes the last of what the static model constructs."""

    def __init__(self) -> None:
        self.shown: list[Floats] = []

    def guide(self, prior: StaticPrior, unit: object) -> StaticPrior:
        return prior

    def __call__(self, traces: TraceSpace, prior: StaticPrior, batch: PointBatch, unit: object) -> np.ndarray:
        self.shown.append(prior(batch))
        return np.arange(len(batch))[::-1]


@pytest.fixture(scope="module")
def operator() -> Operator:
    return load("gemm:32x48x64", TARGET)


@pytest.fixture(scope="module")
def opened(operator: Operator) -> tuple[TraceSpace, StaticPrior, PointBatch]:
    """A space, its static model, and four points of it, the one with the best estimate first."""
    traces = TraceSpace(operator.task.module, TARGET, list(operator.bodies.values()))
    prior = prior_of(traces, TARGET, None)
    assert prior is not None
    made = construct(traces.space, prior, np.random.default_rng(0), 4)
    return traces, prior, made.take(np.argsort(prior(made), kind="stable"))


Order = Callable[[Model], list[int]]


@pytest.fixture
def order(opened: tuple[TraceSpace, StaticPrior, PointBatch]) -> Order:
    traces, prior, batch = opened

    def of(model: Model) -> list[int]:
        made = CodeReader(model, Against(), "matmul")  # type: ignore[arg-type]
        return made(traces, prior, batch, contextlib.nullcontext).tolist()

    return of


def test_where_code_is_as_expected_only_the_first_two_are_read(order: Order) -> None:
    model = Model(0.0, 0.0)
    assert order(model) == [0, 1, 2, 3]
    assert model.read == ALWAYS == 2


def test_what_both_guides_like_best_is_all_that_is_read(opened: tuple[TraceSpace, StaticPrior, PointBatch]) -> None:
    traces, prior, batch = opened
    assert prior(batch)[0] < prior(batch)[1:].min()
    for added, read in ((0.0, 1), (-9.0, 3)):
        model = Model(added, -9.0, 0.0)
        CodeReader(model, Agreeing(), "matmul")(traces, prior, batch, contextlib.nullcontext)  # type: ignore[arg-type]
        assert model.read == read


@pytest.mark.parametrize(("family", "blocks", "read"), [("conv2d", 8, 0), ("conv2d", 7, 2), ("matmul", 8, 2)])
def test_programs_of_another_algorithm_are_not_read(
    opened: tuple[TraceSpace, StaticPrior, PointBatch],
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    blocks: int,
    read: int,
) -> None:
    traces, prior, batch = opened
    rows = prior.rows(batch, "matmul", "float32")
    rows[:, PLACE[BLOCKS]] = blocks
    monkeypatch.setattr(prior, "rows", lambda *_: rows)
    model = Model(*[9.0] * 4)
    found = CodeReader(model, Against(), family)(traces, prior, batch, contextlib.nullcontext)  # type: ignore[arg-type]
    assert (found.tolist(), model.read) == ([0, 1, 2, 3], read)


def test_one_that_is_worse_gives_way_to_the_first_that_is_not(order: Order) -> None:
    model = Model(-9.0, -9.0, 0.0)
    assert order(model) == [2, 0, 1, 3]
    assert model.read == 3, "the last one is thought to be slower"


def test_little_worse_is_no_reason(order: Order) -> None:
    model = Model(*[-9.0] * 4)
    assert order(model)[0] == 0, "where all are worse by as much, the best estimate counts"
    assert model.read == 4
    model = Model(-0.9 * DOUBT, 0.0)
    assert order(model)[0] == 0
    assert model.read == 2


def test_what_cannot_be_compiled_is_not_taken(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = code_reader.assembly_within, []

    def refused(*arguments: object) -> str:
        asked.append(arguments)
        if len(asked) < 3:
            raise RuntimeError("LLVM has no such instruction")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(code_reader, "assembly_within", refused)
    assert order(Model(0.0)) == [2, 3]


def test_where_nothing_can_be_compiled_none_is_left(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> str:
        raise RuntimeError("LLVM has no such instruction")

    monkeypatch.setattr(code_reader, "assembly_within", refused)
    assert order(Model()) == []


def test_a_program_that_nobody_can_read_has_its_estimate(order: Order) -> None:
    assert order(Model(np.nan, np.nan)) == [0, 1, 2, 3]


def test_a_task_has_so_many_seconds(opened: tuple[TraceSpace, StaticPrior, PointBatch]) -> None:
    traces, prior, batch = opened
    model, ticks = Model(*[-9.0] * 4), iter((0.0, 1.0, SECONDS + 0.1))
    made = CodeReader(model, Against(), "matmul", clock=lambda: next(ticks))  # type: ignore[arg-type]
    assert made(traces, prior, batch, contextlib.nullcontext).tolist() == [0, 1, 2, 3]
    assert model.read == 2


def test_the_rankers_choice_is_read_beside_the_static_models(operator: Operator) -> None:
    bodies = list(operator.bodies.values())
    about = (("gemm", operator.task.workload.hash), operator.task.module, TARGET, bodies)
    alone = choose(*about)
    model = Model(0.0, 99.0)
    made = choose(*about, reader=CodeReader(model, Against(), "matmul"))  # type: ignore[arg-type]
    assert model.read == 2
    assert made.seconds is not None
    assert alone.seconds is not None
    assert made.seconds > 2 * alone.seconds, "it took what the ranker likes best"
    kept = choose(*about, reader=CodeReader(Model(0.0, 0.0), Against(), "matmul"))  # type: ignore[arg-type]
    assert kept.trace == alone.trace


def test_a_space_of_which_nothing_is_known_is_not_read(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Backwards()
    monkeypatch.setattr(StaticPrior, "__call__", lambda self, batch: np.full(len(batch), np.inf))
    bodies = list(operator.bodies.values())
    made = choose(("gemm", operator.task.workload.hash), operator.task.module, TARGET, bodies, reader=read)
    assert made.source is Source.DEFAULT
    assert read.shown == []


def test_without_lightgbm_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "here", lambda module: module != "lightgbm")
    assert reader("matmul", ["float32"], TARGET) is None
    lean = "import sys; sys.modules['lightgbm'] = None; import workers.core.prepare, workers.core.unmeasured_model"
    assert subprocess.run([sys.executable, "-c", lean], timeout=120).returncode == 0


def test_only_what_was_learned_of_is_read() -> None:
    assert reader("matmul", ["float32", "float32"], TARGET) is not None
    assert reader("matmul", ["bfloat16", "float32"], TARGET) is None
    assert reader("max_pool2d", ["float32", "float32"], TARGET) is None
    assert reader("matmul", ["float32"], Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})) is None
    neon = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 2}
    assert reader("matmul", ["float32"], Target(neon)) is None
    assert reader("matmul", ["float32"], Target({"kind": "cuda", "arch": "sm_90"})) is None


def test_an_answer_is_chosen_by_the_shipped_model(operator: Operator) -> None:
    read = reader("matmul", ["float32"], TARGET)
    bodies = list(operator.bodies.values())
    made = choose(("gemm", operator.task.workload.hash), operator.task.module, TARGET, bodies, reader=read)
    assert made.source is Source.ESTIMATED
    assert made.trace is not None
    backwards = Backwards()
    last = choose(("gemm", operator.task.workload.hash), operator.task.module, TARGET, bodies, reader=backwards)
    (estimates,) = backwards.shown
    assert (np.diff(estimates) >= 0).all(), "it is shown the best by their estimates"
    assert last.seconds == estimates[-1]


def test_the_shipped_model_is_small_and_has_a_card() -> None:
    folder = Path(costmodels.pretrained.__file__).parent
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.json")}
    card = (folder / "CARD.md").read_text(encoding="utf-8")
    assert sum(sizes.values()) <= 2_000_000
    for name, size in sizes.items():
        assert re.search(rf"`{re.escape(name)}`.*{size:,} bytes", card), "it is the one that was described"
    assert code_ranker().kind == CODE_RANKER


def test_code_is_read_in_a_process_that_ends(
    opened: tuple[TraceSpace, StaticPrior, PointBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, _, batch = opened
    (candidate, *_) = traces.space.candidates(batch)
    children, fork = [], os.fork

    def forked() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", forked)
    assert assembly.assembly_within(traces, candidate, 60.0) == assembly.assembly_of(traces, candidate)
    monkeypatch.setattr(assembly, "assembly_of", lambda *_: threading.Event().wait())
    with pytest.raises(InvalidCandidate, match="too long"):
        assembly.assembly_within(traces, candidate, 0.1)
    monkeypatch.setattr(assembly, "assembly_of", lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
    with pytest.raises(InvalidCandidate, match="does not compile"):
        assembly.assembly_within(traces, candidate, 60.0)
    assert len(children) == 3
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
