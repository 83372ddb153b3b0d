"""Pages in two parts: what the first one asks a browser to load."""

from __future__ import annotations

import re
from pathlib import Path

import nicegui

from services.dashboard.early import MODULES, hints

HEAD = """<script nonce="x" type="importmap">
  {"imports": {"vue": "/at/_nicegui/1/static/vue.js", "nicegui-echart": "/at/_nicegui/1/esm/ab/index.js"}}
</script>"""


def test_the_first_part_asks_for_files_that_are_there() -> None:
    found = re.findall(r'href="/at/_nicegui/1/static/([^"]+)"', hints(HEAD, charts=False))
    assert [name for name in found if not name.startswith("fonts/")] == list(MODULES)
    assert len(found) == len(MODULES) + 1, "the icons' font"
    for name in found:
        assert (Path(nicegui.__file__).parent / "static" / name).is_file(), name


def test_the_library_of_charts_is_loaded_for_pages_with_charts() -> None:
    script = '<script type="module" async src="/at/_nicegui/1/esm/ab/index.js"></script>'
    assert script in hints(HEAD, charts=True)
    assert script not in hints(HEAD, charts=False)
    assert hints("no such head", charts=True) == ""
