"""Tasks that nobody measured are shared out to processes, and lose nothing by it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from process_probe import CHILD_ENV

from tunesmith.targets import Target
from tunesmith.unmeasured import Source
from workers.tvm_backend.warm import warm

warm("llvm")

from benchmarks.harness.operators import load  # noqa: E402
from workers.core import choosers  # noqa: E402
from workers.core.answering import Question  # noqa: E402
from workers.core.choosers import beside_others, here, processes, shared_out  # noqa: E402
from workers.core.leased import LeaseLost  # noqa: E402
from workers.sandbox.lease import HostLease  # noqa: E402
from workers.sandbox.pool import Actor, Pool  # noqa: E402
from workers.tvm_backend.design_space.nests.forms import NestForms  # noqa: E402

pytestmark = pytest.mark.parallel
TARGET = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    made = []
    for spec in ("gemm:32x48x64", "softmax:8x64", "gemm:64x48x32"):
        operator = load(spec, TARGET)
        task, bodies = operator.task, tuple(operator.bodies.values())
        dtypes = tuple(str(each.dtype) for each in task.workload.args)
        made.append(Question((spec, task.workload.hash), task.workload.family, dtypes, task.module, TARGET, bodies))
    return made


def test_processes_answer_what_this_one_does(questions: list[Question], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosers, "visible_cores", lambda: 2)
    with processes("model.onnx") as answers:
        assert answers is not here
        made = answers(questions)
    assert made == here(questions)
    assert [each.task for each in made] == [question.task[0] for question in questions]
    assert {each.source for each in made} == {Source.ESTIMATED}


def test_an_operator_and_one_core_are_answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosers, "visible_cores", lambda: 2)
    with processes("gemm:32x48x64") as answers:
        assert answers is here
    monkeypatch.setattr(choosers, "visible_cores", lambda: 1)
    with processes("model.onnx") as answers:
        assert answers is here


def test_many_tasks_of_a_job_are_answered_in_processes_that_share_the_hosts_lease(
    questions: list[Question], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosers, "visible_cores", lambda: 2)
    units: list[bool] = []

    @contextmanager
    def unit() -> Iterator[None]:
        units.append(True)
        yield

    lease = tmp_path / "host.lease"
    about = (NestForms(), unit, lease, lambda: None)
    with beside_others(len(questions), *about) as answers:
        on_threads = answers(questions)
    assert units
    assert not lease.exists()
    units.clear()
    monkeypatch.setattr(choosers, "FEW", 2)
    with beside_others(len(questions), *about) as answers:
        assert answers(questions) == on_threads == here(questions)
    assert not units, "no thread of this process did it"
    assert lease.exists()


def test_who_lost_interest_does_not_wait(
    questions: list[Question], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosers, "visible_cores", lambda: 2)
    monkeypatch.setattr(choosers, "FEW", 2)
    monkeypatch.setattr(choosers, "CHECK_SECONDS", 0.01)

    def check() -> None:
        raise LeaseLost

    about = (NestForms(), nullcontext, tmp_path / "host.lease", check)
    with HostLease(tmp_path / "host.lease").exclusive(), beside_others(len(questions), *about) as answers:
        with pytest.raises(LeaseLost):
            answers(questions)


def test_a_compiler_that_ends_its_process_costs_no_answer(questions: list[Question]) -> None:
    with Pool(Actor("choosers:Crashing", env=CHILD_ENV), 2) as pool:
        pool.begin()
        made = shared_out(pool, questions)
    assert made == here([replace(question, read=False) for question in questions])


def test_what_leaves_nothing_to_choose_keeps_its_default_schedule(questions: list[Question]) -> None:
    (made,) = here([replace(questions[0], bodies=())])
    assert made.source is Source.DEFAULT
    assert made.trace is None


def test_processes_can_begin_before_anything_heavy_is_imported() -> None:
    heavy = ("tvm", "numpy", "sqlalchemy", "lightgbm", "torch")
    seen = f"import sys, workers.core.choosers; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
