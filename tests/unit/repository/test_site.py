"""The site of the documents: every page is on it, and links lead to pages of it. ``make site`` checks the rest."""

from __future__ import annotations

import posixpath
from pathlib import Path

from tools import site

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
WRITTEN = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.is_file()}


class Page:
    """What MkDocs tells of a page."""

    def __init__(self, path: str) -> None:
        self.file, self.src_uri = self, path


def test_links_of_pages_lead_to_pages_of_the_site() -> None:
    texts = {path: (DOCS / path).read_text("utf-8") for path in WRITTEN if path.endswith(".md")} | dict(site.pages())
    there, dead = WRITTEN | texts.keys(), []
    for path, text in texts.items():
        for _, link, _ in site.CODE_OR_LINK.findall(site.on_page_markdown(text, Page(path))):
            if (
                link
                and "://" not in link
                and posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) not in there
            ):
                dead.append((path, link))
    assert dead == []
    assert {"about/CHANGELOG.md", "decisions/README.md", "tutorial/python.md"} <= texts.keys()


def test_every_page_is_in_the_navigation() -> None:
    config = site.on_config({})
    found = {
        path
        for section in config["nav"][1:]
        for entries in section.values()
        for each in entries
        for path in each.values()
    }
    hand = {path for path in WRITTEN if path.endswith(".md") and not path.startswith("decisions/")} - {"README.md"}
    assert hand <= found
    assert "decisions/README.md" in found
    assert [next(iter(section)) for section in config["nav"]] == [
        "Documentation",
        "Tutorials",
        "How-to guides",
        "Reference",
        "Explanation",
        "About",
    ]


def test_a_notebook_becomes_a_page() -> None:
    text = dict(site.pages())["tutorial/python.md"]
    assert text.startswith("# From Python")
    assert text.count("```python") >= 5
    assert "data:image/png;base64," in text
