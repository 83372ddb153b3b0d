"""What the site of the documents needs besides them: hooks of MkDocs, which ``mkdocs.yml`` names.

Pages are written to be read in the repository. Those beside ``docs/`` become pages of the site, links to them and to
the notebook are rewritten, links to other files become text, and the navigation is that of ``docs/README.md``.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""Pages of the repository's root, which are below ``about/`` on the site."""
DECISIONS = "decisions/README.md"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
SECTION = re.compile(r"^\*\*(\w[\w-]*(?: guides)?)s?\*\*", re.MULTILINE)
CODE_OR_LINK = re.compile(rf"^```.*?^```|`[^`\n]*`|{LINK.pattern}", re.MULTILINE | re.DOTALL)
"""What begins first: a link may have code in its words, and code may look like a link."""


def on_config(config: Any) -> Any:
    """Navigation in the sections of ``docs/README.md``, which is the first page."""
    text = (ROOT / "docs" / "README.md").read_text("utf-8")
    heads = list(SECTION.finditer(text))
    nav: list[Any] = [{"Documentation": "README.md"}]
    for head, end in zip(heads, [each.start() for each in heads[1:]] + [len(text)], strict=True):
        links = [(name, _moved("README.md", path)) for name, path, _ in LINK.findall(text[head.start() : end])]
        pages = {name[:1].upper() + name[1:]: path for name, path in links if path is not None}
        nav.append({head[1]: [{name: path} for name, path in pages.items()]})
    nav.append({"About": [{Path(name).stem.capitalize(): f"about/{name}"} for name in BESIDE]})
    config["nav"] = nav
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages that are not below ``docs/`` as they are."""
    from mkdocs.structure.files import File  # only `make site` has it

    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> Iterator[tuple[str, str]]:
    """Path on the site and text of each page that is made."""
    yield from ((f"about/{name}", (ROOT / name).read_text("utf-8")) for name in BESIDE)
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        yield (
            path.relative_to(ROOT / "docs").with_suffix(".md").as_posix(),
            notebook(json.loads(path.read_text("utf-8"))),
        )
    titles = {path.name: path.read_text("utf-8").splitlines()[0][2:] for path in (ROOT / "docs/decisions").glob("*.md")}
    yield DECISIONS, "# Decisions\n\n" + "\n".join(f"- [{titles[name]}]({name})" for name in sorted(titles)) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are on the site; code stays."""
    source = page.file.src_uri

    def moved(found: re.Match[str]) -> str:
        words, path, anchor = found[1], found[2], found[3] or ""
        if not path or "://" in path:  # code, an anchor of the page, or an address
            return found[0]
        there = _moved(source, path)
        if there is None:
            return words
        return f"[{words}]({posixpath.relpath(there, posixpath.dirname(source) or '.')}{anchor})"

    return CODE_OR_LINK.sub(moved, markdown)


def _moved(source: str, link: str) -> str | None:
    """Where on the site a relative link of a page leads; None where that is no part of the site."""
    here = posixpath.basename(source) if source.startswith("about/") else f"docs/{source}"
    there = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
    if there in BESIDE:
        return f"about/{there}"
    if not there.startswith("docs/"):
        return None
    there = there.removeprefix("docs/")
    if there == posixpath.dirname(DECISIONS):
        return DECISIONS
    return f"{there.removesuffix('.ipynb')}.md" if there.endswith(".ipynb") else there


def notebook(content: dict[str, Any]) -> str:
    """A notebook as a page: texts, code, and what it answered."""
    parts = []
    for cell in content["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += [_output(each.get("data", each)) for each in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _output(data: dict[str, Any]) -> str:
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="plot" src="data:image/png;base64,{picture}">'
    if "text/html" in data:
        table = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
        return re.sub(r"\n\s*", "", table) if "<pre>" not in table else table.replace("\n", "<br>")
    return f"```\n{''.join(data.get('text/plain', data.get('text', '')))}\n```"
