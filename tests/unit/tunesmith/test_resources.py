"""Ids and problem URLs have one form, which is written in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.coordinator.problems import http_problem
from tunesmith.errors import UnknownSearcher
from tunesmith.resources import COST_MODEL, JOB, MODEL, new_id, problem_url, process_name

pytestmark = pytest.mark.parallel

ROOT = Path(__file__).resolve().parents[3]
FORMS = r"https://tunesmith\.dev|f\"[a-z]{1,3}-\{uuid|getpid\(\)\}-\{uuid"


@pytest.mark.parametrize("kind", [JOB, MODEL, COST_MODEL])
def test_ids_are_a_kind_and_sixteen_digits_and_never_the_same(kind: str) -> None:
    made = {new_id(kind) for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(rf"{kind}-[0-9a-f]{{16}}", one) for one in made)
    assert len({process_name("host") for _ in range(100)}) == 100


def test_every_problem_has_the_url_of_its_code() -> None:
    for problem in (UnknownSearcher("x").problem(), http_problem(404, "x"), http_problem(418, "x")):
        assert problem["type"] == problem_url(problem["code"])
    assert problem_url("not_found") == "https://tunesmith.dev/problems/not-found"


def test_no_other_file_writes_these_forms() -> None:
    folders = ("tunesmith", "costmodels", "db", "workers", "services")
    files = [path for name in folders for path in (ROOT / name).rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in files if re.search(FORMS, path.read_text())]
    assert found == ["tunesmith/resources.py"]
