"""The data folder: closed to others, whatever it is called, or refused in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from db.blobs import BlobStore
from db.engine import create_engine, migrate, sqlite_url
from services.coordinator.settings import Settings
from services.embedded.redis_server import config
from tunesmith.data_folder import prepare
from tunesmith.errors import InvalidInput
from workers.settings import Settings as WorkerSettings

STRANGE = "a b'\"#%41?x=1&é;*\\$\n"


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def everything(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): mode(path) for path in sorted(folder.rglob("*"))}


def fill(folder: Path) -> None:
    migrate(sqlite_url(folder / "tunesmith.db"))
    BlobStore(folder / "blobs").put_bytes(b"weights")
    (folder / "logs").mkdir()
    (folder / "logs" / "record.log").write_text("x")


def test_what_is_made_is_this_users_alone(tmp_path):
    folder = prepare(tmp_path / "new" / "data")
    fill(folder)
    assert mode(folder) == 0o700
    found = everything(folder)
    assert {found[name] for name in found if (folder / name).is_dir()} == {0o700}
    assert {found[name] for name in found if (folder / name).is_file()} == {0o600}
    assert len([name for name in found if name.startswith("blobs")]) == 3


def test_what_an_earlier_version_left_open_is_closed(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    fill(folder)
    assert mode(folder / "tunesmith.db") == 0o644
    outside = tmp_path / "outside"
    outside.write_text("x")
    (folder / "logs" / "link").symlink_to(outside)
    prepare(folder)
    assert mode(folder) == 0o700
    assert all(not bits & 0o077 for name, bits in everything(folder).items() if not (folder / name).is_symlink())
    assert mode(outside) == 0o644


def test_what_is_not_ours_keeps_its_permissions(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    tmp_path.chmod(0o755)
    fill(tmp_path)
    prepare(tmp_path)
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "thesis.tex") == 0o644
    assert mode(tmp_path / "tunesmith.db") == 0o600
    assert mode(tmp_path / "blobs") == 0o700


def test_a_group_may_share_it(tmp_path):
    folder = prepare(tmp_path / "data", "007")
    fill(folder)
    assert mode(folder) == 0o770
    found = everything(folder)
    assert {bits for name, bits in found.items() if name.startswith("blobs")} == {0o770, 0o640}


@pytest.mark.parametrize("settings", [Settings, WorkerSettings])
def test_any_name_will_do(tmp_path, settings):
    folder = prepare(tmp_path / STRANGE)
    url = settings(data_dir=folder).url()
    migrate(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM models").scalar() == 0
    engine.dispose()
    assert (folder / "tunesmith.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [STRANGE]
    quoted = config(1, (), folder).decode().rpartition('dir "')[2]
    assert quoted.count('"') == 1
    assert quoted.splitlines() == [quoted.rstrip("\n")]


def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path))
    for path, why in [
        (tmp_path / "file", "it is not a folder"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / ("x" * 250) / ("y" * 250), "longer than"),
        (Path("~nobody-of-that-name/data"), "no such user"),
        (Path("/proc/nothing/data"), "No such file"),
        (tmp_path / os.fsdecode(b"\xff"), "not UTF-8"),
    ]:
        with pytest.raises(InvalidInput, match=why) as refused:
            prepare(path)
        assert "\n" not in refused.value.detail
    assert prepare(Path("~/data")) == tmp_path / "data"


@pytest.mark.parametrize("command", ["up", "worker"])
def test_commands_refuse_it_without_a_traceback(tmp_path, command):
    (tmp_path / "file").write_text("x")
    env = {**os.environ, "TUNESMITH_DATA_DIR": str(tmp_path / "file")}
    done = subprocess.run(
        [sys.executable, "-m", "tunesmith.cli", command],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "it is not a folder" in done.stderr
    assert "Traceback" not in done.stderr
