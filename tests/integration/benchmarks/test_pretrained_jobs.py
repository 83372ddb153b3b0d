"""Two jobs on an operator, and the timing of what they found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import jobs
from benchmarks.operators.cases import Case
from benchmarks.pretrained import study
from tunesmith.preparation import PLAIN
from tunesmith.targets import Target

pytestmark = pytest.mark.servers


def test_both_jobs_are_run_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[jobs.Request] = []

    def tune(model: Path, request: jobs.Request, folder: Path) -> jobs.Tuned:
        asked.append(request)
        return jobs.Tuned([], PLAIN, 2, 1.0)

    monkeypatch.setattr(jobs, "tune", tune)
    plan = study.TrialPlan(trials=2, slice=0.02, passes=2)
    found = study.run(Case("gemm:16x32x48:float32", 1), 3, plan, tmp_path, lambda _: None)
    assert [request.warm_start for request in asked] == [True, False]
    assert all((request.trials, request.seed) == (2, 3) for request in asked)
    assert found.learned
    assert found.alone


@pytest.mark.parametrize("warm", [True, False])
def test_a_job_is_told_whether_to_take_over_what_is_known(warm: bool) -> None:
    class Known:
        def submit(self, **asked: Any) -> dict[str, Any]:
            return asked

    request = jobs.Request(Target({"kind": "llvm"}), 0, 2, 9.0, warm_start=warm)
    assert jobs._submit(Known(), "m", request, 9.0)["warm_start"] is warm  # type: ignore[arg-type,index]
