"""Measured programs as decision rows: from recordings and from a database, judged by the command line."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import core_flow
import numpy as np
import pytest
import sqlalchemy as sa
from core_flow import row
from marked_nests import MEASURED

from benchmarks.replay.workloads import DATA
from costmodels.labelled import Labelled
from costmodels.metrics import rank_correlation
from costmodels.ranker import RankerModel, RankerOptions
from costmodels.testing import decision_part
from costmodels.training import assemble
from db.models import CostModelRow, Job, Round
from db.transactions import training
from tunesmith.analysis.rows import COLUMNS, PLACE, STATIC
from tunesmith.cli import main
from tunesmith.dataset import again, code
from tunesmith.dataset.again import Again, Processor
from tunesmith.errors import InvalidInput
from tunesmith.messages import IngestModel, TrainCostModel
from tunesmith.names import DECISIONS
from tunesmith.states import WorkState
from tunesmith.targets import Target
from tunesmith.testing.replay import Recording
from workers.tvm_backend.warm import warm

warm("llvm")

from benchmarks.replay import rates  # noqa: E402
from tools import measure_again, read_code  # noqa: E402
from workers.core import ingest, labelled, train  # noqa: E402
from workers.core.context import Context  # noqa: E402
from workers.core.features import BatchFeatures  # noqa: E402
from workers.tvm_backend.design_space import metaschedule_model  # noqa: E402

pytestmark = pytest.mark.parallel
NAMES = ("dense-128x512x256.npz", "gemm-256x256x256.npz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recordings")
    for name in NAMES:
        shutil.copy(DATA / name, made)
    return made


def test_recordings_become_rows_with_a_useful_estimate(folder: Path) -> None:
    found = Labelled.of(labelled.of_recordings(folder))
    assert found.kin == ("dense", "matmul")
    assert found.data.features.rows.shape == (len(found.data), len(COLUMNS))
    for group, name in enumerate(NAMES):
        recording, mine = Recording.load(folder / name), found.data.group == group
        assert (found.data.latency[mine] == recording.seconds[recording.points]).all()
        scores = -found.data.features.rows[mine, PLACE[STATIC]].astype(np.float64)
        assert rank_correlation(scores, found.data.latency[mine]) > 0.6
    with pytest.raises(InvalidInput, match="no complete recording"):
        labelled.of_recordings(folder / "none")


def test_contenders_are_judged_by_a_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("costmodels", "evaluate", str(folder), "--contender", "static model", "--folds", "2")
    assert main.run_command_line((*asked, "--json")) == 0
    body = json.loads(capsys.readouterr().out)
    found = {(row["study"], row["contender"]): row["figures"] for row in body["rows"]}
    assert len(body["workloads"]) == 2
    assert {study for study, _ in found} == {"workload", "kind", *(f"{shots} shots" for shots in (0, 4, 8, 16, 32))}
    assert 0.5 < found["workload", "static model"]["pairs"]["mean"] < found["workload", "noise bound"]["pairs"]["mean"]
    assert main.run_command_line(asked) == 0
    assert "held out by workload" in capsys.readouterr().out
    assert main.run_command_line((*asked[:3], "--contender", "magic")) == 2
    assert "there is no contender" in capsys.readouterr().err
    assert main.run_command_line((*asked, "--json", "--study", "kind", "--study", "workload")) == 0
    assert {row["study"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"kind", "workload"}
    assert main.run_command_line((*asked, "--study", "magic")) == 2
    assert "there is no study 'magic': take workload, kind, model, target, shots" in capsys.readouterr().err
    assert main.run_command_line((*asked, "--study", "model")) == 2
    assert "held out by model nothing is left to learn from" in capsys.readouterr().err


def test_a_ranker_chooses_the_first_batch_of_another_workload(
    sqlite_context: Context, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = sqlite_context
    core_flow.import_and_prepare(context, cost_model="ranker")
    for _ in range(2):
        batch = core_flow.propose(context)
        assert BatchFeatures.load(context.blobs, batch.features_blob).version == DECISIONS
        core_flow.report(context, batch)
    trained = row(context, CostModelRow, _trained(context))
    assert (trained.state, trained.features, trained.kind) == (WorkState.DONE, DECISIONS, "ranker")
    core_flow.add_operator(context, "m2", "gemm:32x48x64")
    with context.sessions.begin() as session:
        of_target = training.enqueue_for_target(session, trained.target_hash, "float32")
    assert train.train_cost_model(context, TrainCostModel(cost_model_id=of_target.id, attempt=1))
    whole = row(context, CostModelRow, of_target.id)
    assert (whole.state, whole.kind, whole.trained_on) == (WorkState.DONE, "ranker", trained.trained_on)
    assert whole.trained_through == trained.trained_through
    assert (whole.metrics["workloads"], whole.metrics["families"], whole.metrics["held_out"]) == (1, 1, None)
    assert ingest.import_model(context, IngestModel(model_id="m2", attempt=1))
    core_flow.import_and_prepare(context, "j2", "m2", cost_model="ranker")
    first = core_flow.propose(context, "j2", size=8)
    assert row(context, Round, first.round_id).cost_model_id == whole.id, "the newest one"
    assert [score is None for score in first.predictions] == [True] + 8 * [False], "the default schedule has no score"
    core_flow.report(context, first)

    data = tmp_path / "data"
    data.mkdir()
    (data / "blobs").symlink_to(context.settings.blobs())
    with contextlib.closing(sqlite3.connect(str(sa.make_url(context.settings.url()).database))) as file:
        file.execute("VACUUM INTO ?", [str(data / "tunesmith.db")])
    capsys.readouterr()
    asked = ("costmodels", "evaluate", str(data), "--contender", "static model", "--json")
    assert main.run_command_line(asked) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["workloads"]) == 2
    assert {row["workloads"] for row in body["rows"] if row["study"] == "workload"} == {2}
    assert main.run_command_line((*asked, "--sampler", "uniform")) == 2
    assert "no label of the sampler 'uniform'" in capsys.readouterr().out, "these jobs tuned"
    with contextlib.closing(sqlite3.connect(data / "tunesmith.db")) as file:
        file.execute("UPDATE jobs SET per_task = 64, search = 'uniform'")
        file.commit()
    assert main.run_command_line((*asked, "--sampler", "uniform")) == 0
    assert json.loads(capsys.readouterr().out)["programs"] == body["programs"]
    assert main.run_command_line((*asked, "--sampler", "guided")) == 2
    with contextlib.closing(sqlite3.connect(data / "tunesmith.db")) as file:
        file.execute("UPDATE records SET origin = 'imported'")
        file.commit()
    capsys.readouterr()
    assert main.run_command_line(asked) == 2
    assert "has no record in float32" in capsys.readouterr().out, "what was imported is nobody's measurement here"
    assert main.run_command_line((*asked, "--imported")) == 0
    assert json.loads(capsys.readouterr().out)["programs"] == body["programs"]
    _measured_and_read_again(data, tmp_path, capsys)


def _measured_and_read_again(data: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two more measurements of a data folder's records, and counts of their machine code."""
    with contextlib.closing(sqlite3.connect(data / "tunesmith.db")) as file:
        file.execute("UPDATE records SET content = printf('%032x', id) || printf('%032x', 0)")
        file.commit()
    found = labelled.in_database(data, imported=True)
    assert found is not None
    valid = {str(each.content): each.latency for some in found.rows.values() for each in some if each.latency}
    for number, name in enumerate(("second", "third")):
        again.write(Again(dict(list(valid.items())[number:])), files / name)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            read_code.read_all(found, labelled.blobs_of(data), files / "code", pool, 1)
    assert code.read(files / "code").keys() == {code.key(each) for each in valid}
    asked = ("costmodels", "evaluate", str(data), "--imported", "--study", "workload", "--json")
    named = ("--contender", "ranker", "--contender", "code ranker", "--again", str(files / "second"))
    capsys.readouterr()
    assert main.run_command_line((*asked, *named, "--again", str(files / "third"), "--code", str(files / "code"))) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["workloads"]) == 4, "each is a group in each measurement"
    assert {row["contender"]: row["workloads"] for row in body["rows"]} == {
        "ranker": 2,
        "code ranker": 2,
        "ranker, code of 16": 2,
    }
    assert main.run_command_line((*asked, *named, "--code", str(files / "second"))) == 2
    assert "second holds no counts of machine code" in capsys.readouterr().out
    some = measure_again.some(found, 1)
    assert [len(each) for each in some.rows.values()] == [1, 1]
    assert all(row.content in valid for each in some.rows.values() for row in each)
    there = Processor(Target({**found.target.to_json(), "mcpu": "skylake-avx512"}), MEASURED)
    again.write(Again(valid, there), files / "there")
    assert measure_again.begun(files / "there", there).latencies == pytest.approx(valid, rel=1e-6)
    assert measure_again.begun(files / "none", there) == Again({}, there)
    for name, now in (("there", None), ("second", there)):
        with pytest.raises(SystemExit, match=f"{name} is of .*: name another file"):
            measure_again.begun(files / name, now)
    both = ("--again", str(files / "there"), "--again", str(files / "second"), "--code", str(files / "code"))
    assert main.run_command_line((*asked[:4], "--study", "target", "--json", *named[:2], *both)) == 0
    body = json.loads(capsys.readouterr().out)
    assert [(row["study"], row["contender"], row["workloads"]) for row in body["rows"]] == [("target", "ranker", 2)]
    known = [again.read(files / name) for name in ("there", "second")]
    peaks = [each.rows[:, PLACE["device.peak_flops"]] for each in labelled.of_folder(data, imported=True, again=known)]
    assert (np.concatenate(peaks[:2]) == np.float32(np.log2(MEASURED.peak_flops))).all()
    assert (np.concatenate(peaks[2:]) != peaks[0][0]).all(), "each is estimated for the processor that it was built for"


def _trained(context: Context) -> str:
    """The id of a job's model, as it is now."""
    with context.sessions.begin() as session:
        model = training.enqueue(session, session.get_one(Job, "j1"))
    assert train.train_cost_model(context, TrainCostModel(cost_model_id=model.id, attempt=1))
    return model.id


def test_tvms_model_learns_from_the_same_rows() -> None:
    data = assemble([decision_part(name, 150, seed, failures=0.0) for seed, name in enumerate(("a0", "a1"))])
    scores = metaschedule_model.scores(data, data.features, 0)
    for group in (0, 1):
        assert rank_correlation(scores[data.group == group], data.latency[data.group == group]) > 0.6


def test_rates_are_of_sketches_that_are_understood() -> None:
    model = RankerModel(0, RankerOptions(rounds=10, family_rounds=0))
    model.fit(assemble([decision_part(f"a{i}", 40, i) for i in range(8)]))
    target = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
    found = rates.rate("gemm:32x48x64", target, model, batch=64)
    assert found.sketches > 3
    assert 0 < found.slowest <= found.fastest
    assert rates.report([found], {}).rows[0][0] == "gemm:32x48x64"
