"""The documentation says what the code does: generated pages, names, links, commands and routes."""

from __future__ import annotations

import ast
import functools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pasted
import pytest

from tools import reference, reference_rest
from tunesmith import budget, cache_limits, model_limits, proposals
from tunesmith.client import Client
from tunesmith.errors import catalogue
from tunesmith.event_kinds import EventKind
from tunesmith.operators import FORMS
from tunesmith.search.registry import SEARCHERS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
HAND_WRITTEN = [page for page in PAGES if reference.MARK not in page.read_text("utf-8")]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", reference.PAGES)
def test_reference_page_is_what_the_code_says(page: str) -> None:
    written = (DOCS / "reference" / page).read_text("utf-8")
    assert written == reference.PAGES[page](), "run: python -m tools.reference"


def test_every_variable_that_the_code_names_is_documented() -> None:
    known = text("docs/reference/settings.md")
    missing = {
        variable
        for folder in ("tunesmith", "services", "workers", "db", "costmodels", "tools")
        for path in (ROOT / folder).rglob("*.py")
        for variable in re.findall(r"\bTUNESMITH_[A-Z][A-Z_]*[A-Z]\b", path.read_text("utf-8"))
        if f"`{variable}`" not in known
    }
    assert missing == set()


def test_every_error_code_is_documented() -> None:
    page = text("docs/reference/errors.md")
    assert [code for code in catalogue() if f"`{code}`" not in page] == []


def test_every_operator_is_documented() -> None:
    page = text("docs/reference/models.md")
    assert [form for form in FORMS.values() if f"`{form}`" not in page] == []


def test_every_event_kind_is_documented() -> None:
    page = text("docs/reference/events.md")
    assert [kind.value for kind in EventKind if f"`{kind.value}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", there.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}, target


def test_every_page_can_be_found() -> None:
    linked = {(DOCS / target).resolve() for target in LINK.findall(text("docs/README.md"))}
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"} - {DOCS / "README.md"}
    assert pages - linked == set()


def test_the_screenshots_are_there_and_light() -> None:
    for name in ("dashboard", "trials", "trial"):
        assert 10_000 < (DOCS / "images" / f"{name}.png").stat().st_size < 300_000


@functools.cache
def command_tree() -> dict[str, Any]:
    return dict(reference._commands(reference._root(), "tunesmith"))


def shell_lines() -> list[tuple[str, str]]:
    """Lines of shell in hand-written pages, continuations joined."""
    found = []
    for page in HAND_WRITTEN:
        for language, body in BLOCK.findall(page.read_text("utf-8")):
            if language in ("sh", "console", "bash"):
                joined = body.replace("\\\n", " ")
                found += [(name(page), line.strip().removeprefix("$ ")) for line in joined.splitlines()]
    return found


TUNESMITH_LINES = [(page, line) for page, line in shell_lines() if re.search(r"(?:^|\s)tunesmith\s", line)]
CURL_LINES = [(page, line) for page, line in shell_lines() if line.startswith("curl")]


def words(line: str) -> list[str]:
    return shlex.split(line.split(" #")[0].split(" &")[0].replace("…", "x"), comments=True)


@pytest.mark.parametrize(("page", "line"), TUNESMITH_LINES)
def test_commands_in_the_docs_exist(page: str, line: str) -> None:
    parts = words(line)
    parts = parts[parts.index("tunesmith") :]
    path = next((" ".join(parts[:n]) for n in (4, 3, 2) if " ".join(parts[:n]) in command_tree()), None)
    assert path is not None, line
    options = {option for p in command_tree()[path].params for option in [*p.opts, *p.secondary_opts]}
    given = [word.split("=")[0] for word in parts if word.startswith("-")]
    assert [word for word in given if word not in {*options, "--help"}] == []


@functools.cache
def routes() -> list[tuple[str, re.Pattern[str]]]:
    paths = reference_rest.openapi()["paths"]
    return [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"))
        for path, operations in paths.items()
        for method in operations
    ]


@pytest.mark.parametrize(("page", "line"), CURL_LINES)
def test_requests_in_the_docs_exist(page: str, line: str) -> None:
    parts = words(line.replace("$API", "http://127.0.0.1:8700/v1"))
    url = next(part for part in parts if part.startswith("http://"))
    method = parts[parts.index("-X") + 1] if "-X" in parts else "POST" if "-F" in parts else "GET"
    path = url.removeprefix("http://127.0.0.1:8700").split("?")[0]
    assert any(method == known and pattern.match(path) for known, pattern in routes()), line


def test_routes_named_in_the_text_exist() -> None:
    missing = []
    for page in HAND_WRITTEN:
        for method, path in re.findall(r"`(GET|POST|PATCH|DELETE)\s+(/[^\s`?]+)", page.read_text("utf-8")):
            if not any(method == known and pattern.match(path) for known, pattern in routes()):
                missing.append((name(page), method, path))
    assert missing == []


def test_python_in_the_docs_uses_the_sdk_as_it_is() -> None:
    for page in HAND_WRITTEN:
        for language, body in BLOCK.findall(page.read_text("utf-8")):
            if language == "python":
                for node in ast.walk(ast.parse(body)):
                    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "client":
                        assert hasattr(Client, node.attr), f"{name(page)}: client.{node.attr}"


def test_every_python_block_runs_in_a_test() -> None:
    """By ``test_what_is_pasted_works``, on a stack."""
    assert {name(page) for page in HAND_WRITTEN if pasted.python_of(name(page))} == set(pasted.PAGES)


def test_the_notebook_was_run_and_uses_the_sdk_as_it_is() -> None:
    cells = [cell for cell in json.loads(pasted.NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(cell["outputs"] for cell in cells)
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    for node in ast.walk(ast.parse("\n".join("".join(cell["source"]) for cell in cells))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "client":
            assert hasattr(Client, node.attr)


def test_limits_are_those_of_the_code() -> None:
    page = text("docs/reference/limits.md")
    for limit in (
        *(model_limits.MAX_NODES, model_limits.MAX_EDGES, model_limits.MAX_ENTRIES, model_limits.MAX_JSON_NODES),
        *(budget.MAX_TRIALS, cache_limits.MAX_VALUE, proposals.MAX_PROPOSED),
    ):
        assert f"{limit:,}" in page
    for number in (model_limits.MAX_RANK, proposals.MAX_PROPOSALS, proposals.MAX_WAITING):
        assert f" {number} |" in page
    assert model_limits.MAX_ELEMENTS == 2**31 - 1
    assert cache_limits.MAX_PAGE == 2**21
    assert set(re.findall(r"`(TUNESMITH_\w+)`", page)) <= set(
        re.findall(r"`(TUNESMITH_\w+)`", text("docs/reference/settings.md"))
    )


def test_words_of_the_glossary_are_in_the_code_where_it_says() -> None:
    for row in re.findall(r"^\| .* \|$", text("docs/reference/glossary.md"), re.MULTILINE)[1:]:
        places = re.findall(r"`([\w/]+(?:\.py|/))`", row)
        assert all((ROOT / place).exists() for place in places), row
        if found := re.search(r"\| `(\w+)`, `([\w/]+\.py)`", row):
            assert found[1] in text(found[2]), row


def test_every_searcher_is_explained() -> None:
    heads = re.findall(r"^### `([\w-]+)`$", text("docs/explanation/search.md"), re.MULTILINE)
    assert set(SEARCHERS) <= set(heads)
    assert len(heads) == len(set(heads))


def latencies(page: str) -> dict[str, dict[str, str]]:
    """Milliseconds by model and runtime, as the section of ``bench models`` has them."""
    section = text(page).partition("<!-- bench:models -->")[2].partition("<!-- /bench:models -->")[0]
    found: dict[str, dict[str, str]] = {}
    for model, runtime, latency in re.findall(r"^\| (\w+) \| (\w+) \| ([\d.]+) \|", section, re.MULTILINE):
        found.setdefault(model, {})[runtime] = latency
    return found


def test_the_readme_has_the_figures_of_the_tables() -> None:
    section = text("README.md").partition("## How fast")[2].partition("All of these compute in float32")[0]
    rows = re.findall(r"^\| (\w+) \| (.*) \|$", section, re.MULTILINE)[1:]
    machines = ("docs/benchmarks.md", "docs/other-machines/zen4/README.md", "docs/other-machines/xeon.md")
    pages = [latencies(page) for page in machines]
    assert [model for model, _ in rows] == list(pages[0])
    assert len(rows) >= 6
    for model, cells in rows:
        columns = cells.split(" | ")
        for page, (other, ours) in zip(pages, zip(columns[::2], columns[1::2], strict=True), strict=True):
            latency, best = other.rstrip(")").split(" (")
            others = [float(value) for key, value in page[model].items() if key not in ("untuned", "tunesmith")]
            assert (latency, float(latency), ours) == (page[model][best], min(others), page[model]["tunesmith"])


def test_the_readme_has_the_figures_of_narrow_types() -> None:
    section = text("README.md").partition("All of these compute in float32")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (.*) \|$", section, re.MULTILINE)[1:]
    assert len(rows) >= 5
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in text("docs/other-machines/amx.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9:
            name, ours, *_, other, latency, _, ratio = cells
            found.setdefault(name.removeprefix("light_"), set()).add(
                (ours, other, "fails" if ratio == "fails" else latency)
            )
    for model, cells in rows:
        default, bf16, openvino, onnxruntime, int8 = cells.split(" | ")
        assert found[f"{model} bf16"] == {(bf16, "openvino-default", default)}
        assert found[f"{model} int8"] == {(int8, "openvino-int8", openvino), (int8, "onnxruntime-int8", onnxruntime)}


def test_decisions_are_numbered_without_gaps() -> None:
    files = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        body = file.read_text("utf-8")
        assert body.startswith(f"# {file.name[:4]} ")
        assert all(part in body for part in ("**Context.**", "**Decision.**", "**Consequences.**"))


def test_the_changelog_has_the_form_it_claims() -> None:
    body = text("CHANGELOG.md")
    assert "## [Unreleased]" in body
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", body, re.MULTILINE)) <= kinds
