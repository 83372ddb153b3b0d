"""Pages in two parts. What needs no data goes out at once: a browser loads and shows it while the data is fetched."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nicegui
from nicegui import Client
from starlette.responses import Response, StreamingResponse

from services.dashboard.chart import Chart

SEAM = "<!-- and the rest -->"
"""Where a page's text is cut: behind the shell, before the elements with their data."""
FONTS = (Path(nicegui.__file__).parent / "static" / "fonts.css").read_text("utf-8")
ICONS = re.search(r'"Material Icons";[^}]*url\(([^)]+)\)', FONTS)
"""The file with the icons, which every page needs; a browser would ask for it only when the first one is drawn."""
MODULES = ("dompurify.mjs", "utils/dynamic_properties.js")
"""What the second part's script and the toolkit's tables import. Other modules are asked for by the page's head."""


def in_two_parts(client: Client, filled: Callable[[], Awaitable[None]]) -> Response:
    """The page of ``client``: the part before the seam now, the other one when it is ``filled``."""
    first = client.build_response(client.request)
    head = bytes(first.body).partition(SEAM.encode())[0]
    charts = any(isinstance(each, Chart) for each in client.elements.values())

    async def parts() -> AsyncIterator[bytes]:
        yield head + hints(head.decode(), charts=charts).encode()
        await filled()
        yield bytes(client.build_response(client.request).body).partition(SEAM.encode())[2]

    headers = {name: value for name, value in first.headers.items() if name != "content-length"}
    return StreamingResponse(parts(), first.status_code, headers)


def hints(head: str, *, charts: bool) -> str:
    """What a browser may load already, as links.

    Args:
        head: a page's first part, which says where the toolkit's files are.
        charts: the library of charts, too: it is run before the page's own scripts are.
    """
    found = re.search(r'<script[^>]*type="importmap"[^>]*>(.*?)</script>', head, re.DOTALL)
    if found is None:
        return ""
    imports: dict[str, str] = json.loads(found[1])["imports"]
    files = imports["vue"].rpartition("/")[0]
    links = [f'<link rel="modulepreload" href="{files}/{name}">' for name in MODULES]
    if ICONS is not None:
        links.append(f'<link rel="preload" as="font" type="font/woff2" crossorigin href="{files}/{ICONS[1]}">')
    if charts:
        links.append(f'<script type="module" async src="{imports["nicegui-echart"]}"></script>')
    return "".join(links)
