from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from pydantic import ValidationError

from tunesmith.errors import TargetUnavailable
from tunesmith.messages import CORE_QUEUES, BatchReport, IngestModel, TrainCostModel
from tunesmith.targets import choose, parse_target
from workers import logs
from workers.app import create_app, queue_names
from workers.core.tasks import CORE_TASKS
from workers.settings import Settings

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _loggers():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUNESMITH_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TUNESMITH_QUEUES", "search, measure.llvm-x-2")
    monkeypatch.setenv("TUNESMITH_DEVICE_CLASSES", "a,b")
    settings = Settings()
    assert settings.queues == ("search", "measure.llvm-x-2")
    assert settings.core_queues == ("search",)
    assert settings.measures
    assert settings.device_classes == ("a", "b")
    assert settings.url() == f"sqlite:///{tmp_path}/tunesmith.db"
    assert settings.blobs() == tmp_path / "blobs"


def test_an_unknown_queue_is_named() -> None:
    with pytest.raises(ValidationError, match="no queue 'serch'"):
        Settings(queues="ingest,serch")


def test_the_broker_url_is_no_text_for_logs() -> None:
    assert "secret" not in repr(Settings(broker_url="redis://:secret@host/0"))


def test_measure_stands_for_the_queues_of_every_class() -> None:
    settings = Settings(queues="measure,train", device_classes="llvm-x-1,llvm-x-2")
    assert queue_names(settings) == ("measure.llvm-x-1", "measure.llvm-x-2", "train")


def test_every_core_queue_has_its_tasks(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path))
    assert {task.message.task for task in CORE_TASKS} <= set(app.tasks)
    assert {queue.name for queue in app.conf.task_queues} == set(CORE_QUEUES)


def test_a_worker_has_the_tasks_of_its_queues_alone(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path, queues="record"))
    assert BatchReport.task in app.tasks
    assert IngestModel.task not in app.tasks
    assert TrainCostModel.task not in app.tasks


def test_messages_are_acknowledged_early_and_never_hoarded(tmp_path: Path) -> None:
    conf = create_app(Settings(data_dir=tmp_path)).conf
    assert (conf.task_acks_late, conf.worker_disable_prefetch, conf.task_ignore_result) == (False, True, True)
    assert conf.accept_content == ["json"]
    assert not conf.result_backend


def test_the_parent_process_loads_neither_tvm_nor_a_learning_library() -> None:
    code = "import workers.celery_main, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert loaded.isdisjoint({"tvm", "tvm_ffi", "xgboost", "lightgbm", "torch", "onnx"})


def test_logs_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    structlog.get_logger("here").info("done", row=7, path=Path("x"))
    logging.getLogger("there").warning("from %s", "logging")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["row"], first["path"], first["level"]) == ("done", 7, "x", "info")
    assert (second["event"], second["logger"]) == ("from logging", "there")


def test_signed_urls_are_not_logged() -> None:
    logs.configure("debug")
    assert not logging.getLogger("httpx2").isEnabledFor(logging.INFO)


def test_a_short_name_takes_the_largest_device() -> None:
    small, large = ({"kind": "llvm", "mcpu": "a", "num-cores": n} for n in (2, 8))
    assert choose(parse_target("cpu"), [small, large]).num_cores == 8
    assert choose(parse_target("cpu:4"), [small, large]).num_cores == 4
    with pytest.raises(TargetUnavailable, match="asks for 9 cores, and the largest device has 8"):
        choose(parse_target("cpu:9"), [small, large])


def test_a_gpu_that_is_nowhere_is_refused_with_the_remedy() -> None:
    with pytest.raises(TargetUnavailable, match="tunesmith device serve"):
        choose(parse_target("cuda"), [])
