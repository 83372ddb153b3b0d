"""The repository's shape: small files, nothing machine-bound, nothing heavy."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST_LINES = 400
MOST_BYTES = 1_000_000
HOME = re.compile(r"(?<![\w.])/(?:home|root|Users|work|workspace|mnt|tmp/ts)/[\w.-]+")
REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|docker\.io|ghcr\.io|quay\.io|gcr\.io|nvcr\.io|"
    r"conda\.anaconda\.org|huggingface\.co)\b"
)
INDEX = re.compile(r"--(?:extra-)?index-url|--find-links|--trusted-host")


def tracked() -> list[Path]:
    """Files of the repository: what git tracks, or what is there where git is not."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"these checks need a git checkout: {done.stderr}"
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


FILES = tracked()
TEXTS = [path for path in FILES if path.suffix not in {".png", ".onnx", ".gz", ".npz", ".parquet", ".xz"}]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_python_file_is_long() -> None:
    lines = {named(p): len(p.read_text("utf-8").splitlines()) for p in FILES if p.suffix == ".py"}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_the_formatter_passes_over_nothing() -> None:
    marks = re.compile(r"# fmt: (skip|off|on)$", re.MULTILINE)
    assert [named(p) for p in FILES if p.suffix == ".py" and marks.search(p.read_text("utf-8"))] == []


def test_no_file_is_heavy() -> None:
    assert {named(p): p.stat().st_size for p in FILES if p.stat().st_size > MOST_BYTES} == {}


@pytest.mark.parametrize("pattern", [HOME, REGISTRY, INDEX], ids=["machine path", "registry host", "package index"])
def test_no_file_names_a_machine(pattern: re.Pattern[str]) -> None:
    found = {}
    for path in TEXTS:
        if path == Path(__file__).resolve():
            continue
        hits = pattern.findall(path.read_text("utf-8"))
        if hits:
            found[named(path)] = hits
    assert found == {}


def test_every_module_postpones_annotations() -> None:
    code = re.compile(r"^(def|class|async def) ", re.MULTILINE)
    texts = {named(p): p.read_text("utf-8") for p in FILES if p.suffix == ".py"}
    assert [n for n, t in texts.items() if code.search(t) and "from __future__ import annotations" not in t] == []


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|raise NotImplementedError|pytest\.skip|mark\.skip)\b")
    found = {
        named(p): marks.findall(text)
        for p in FILES
        if p.suffix == ".py" and p != Path(__file__).resolve() and marks.search(text := p.read_text("utf-8"))
    }
    assert found == {}


def test_test_files_have_unique_names() -> None:
    names = [p.name for p in FILES if p.name.startswith("test_") and p.suffix == ".py"]
    assert sorted(names) == sorted(set(names))


MIRRORED = [
    p
    for p in FILES
    if p.name.startswith("test_") and p.relative_to(ROOT).parts[:2] in {("tests", "unit"), ("tests", "integration")}
]


def test_tests_are_in_folders_named_after_what_they_test() -> None:
    packages = {f"/{named(p.parent)}" for p in FILES if p.suffix == ".py" and not named(p).startswith("tests/")}
    rooms = {f"/{Path(*p.relative_to(ROOT).parts[2:-1])}" for p in MIRRORED} - {"/repository"}
    assert len(MIRRORED) > len(rooms)
    assert {room for room in rooms if not any(package.endswith(room) for package in packages)} == set()


def test_pytest_enters_every_folder_of_tests(pytestconfig: pytest.Config) -> None:
    passed_over = pytestconfig.getini("norecursedirs")
    folders = {part for p in FILES if p.name.startswith("test_") for part in p.relative_to(ROOT).parts[:-1]}
    assert {folder for folder in folders if any(fnmatch(folder, pattern) for pattern in passed_over)} == set()
