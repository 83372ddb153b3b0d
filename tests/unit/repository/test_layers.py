"""The walls between the folders hold, by import graph and in a real process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("tvm", "tvm_ffi", "xgboost", "lightgbm", "torch", "onnx")


def test_import_contracts_hold() -> None:
    start = "from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", start, "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def loaded_after(imports: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after ``imports``."""
    code = f"import json, sys; {imports}; print(json.dumps(sorted({{n.split('.')[0] for n in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", ["services.coordinator.app", "services.dashboard.app"])
def test_services_load_no_compiler_and_no_learning_library(module: str) -> None:
    assert loaded_after(f"import {module}").isdisjoint({*HEAVY, "workers", "costmodels"})


def test_the_light_face_loads_no_server() -> None:
    alone = "import tunesmith; dir(tunesmith); assert [m for m in sys.modules if m[:10] == 'tunesmith.'] == []"
    loaded = loaded_after(f"{alone}; tunesmith.tune, tunesmith.TunedModel; import tunesmith.cli.main, tunesmith.client")
    server = {"db", "services", "workers", "costmodels", "sqlalchemy", "celery", "fastapi", "nicegui"}
    assert loaded.isdisjoint({*HEAVY, *server})


def test_the_coordinator_answers_before_it_loads_the_toolkit_of_its_dashboard() -> None:
    assert "nicegui" not in loaded_after("import services.coordinator.main")


PACKAGES = ("tunesmith", "costmodels", "db", "workers", "services", "benchmarks", "tools")


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports in functions and for the type checker count, too."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sum(map(len, imports.values())) > 2000
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_who_works_with_the_database_loads_no_migrations() -> None:
    assert loaded_after("import workers.app, workers.core.context, db.archive.backup").isdisjoint({"alembic", "mako"})


READS = {"execute", "get", "get_one", "refresh", "scalar", "scalars"}
WRITES = {"add", "add_all", "delete", "flush", "merge"}


def attributes(*folders: str) -> list[tuple[str, str, str]]:
    """Place, object and name of every attribute that is used in files of some folders that speak of a session."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", getattr(node.value, "id", ""), node.attr)
        for name in folders
        for path in sorted((ROOT / name).rglob("*.py"))
        if "session" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
    ]


def test_only_the_rooms_of_the_database_use_a_session() -> None:
    """Others pass a session on to ``db.queries`` and ``db.transactions``."""
    used = attributes("db/queries", "db/transactions")
    assert {name for _, of, name in used if of == "session"} > {"execute", "scalars", "add", "flush", "delete"}
    found = attributes("workers", "services")
    assert [(place, name) for place, of, name in found if of == "session" and name in READS | WRITES] == []


def test_queries_neither_write_nor_lock() -> None:
    forbidden = {("session", name) for name in WRITES} | {("sa", name) for name in ("insert", "update", "delete")}
    found = attributes("db/queries")
    assert [place for place, of, name in found if (of, name) in forbidden or name == "with_for_update"] == []
