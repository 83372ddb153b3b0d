"""Pages in a real browser that loads nothing from other hosts, and notes what a page should never do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tools.browser import REMEDY, find
from tunesmith.errors import MissingDependency

OFF = (
    "AimEnabled AvoidCorsURLLoaderRestartOnRedirect AvoidUnnecessaryBeforeUnloadCheckSync DestroyProfileOnBrowserClose "
    "HttpsFirstBalancedModeAutoEnable HttpsUpgrades LensOverlay MediaRouter NetworkTimeServiceQuerying "
    "OptimizationHints PaintHolding PreconnectToSearch TcpPortRandomizationWin ThirdPartyStoragePartitioning "
    "WebUIOmniboxAimPopup WebUIOmniboxFullPopup WebUIOmniboxPopup"
)
"""What the browser does without. All but the last three are Playwright's list, which an argument replaces; those would
load the address bar's own pages, four hundred files, with each window that a test opens, next to what is looked at."""
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    f"--disable-features={','.join(OFF.split())}",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]
WAIT = 30_000.0
"""Milliseconds in which a page answers, or shows what is expected of it, on a machine that is busy."""
AWAY = ("net::ERR_", "WebSocket", "Failed to load resource")
"""Parts of what a browser says of a server that does not answer, or not yet: the API is there before the pages are."""


class Watched:
    """A browser context that notes what it should never do.

    Args:
        browser: makes the context.
        host: address of the only server that pages may ask.
        options: options of the context, such as ``color_scheme``.
    """

    def __init__(self, browser: Browser, host: str, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(WAIT)
        self.complaints: list[str] = []
        self.host = host
        self.page: Page = self.opened()

    def opened(self) -> Page:
        """A further page, watched like the first."""
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self._only(self.host, request.url))
        return self.page

    def _said(self, line: ConsoleMessage) -> None:
        if line.type == "error":
            self.complaints.append(f"console: {line.text}")

    @contextmanager
    def server_away(self) -> Iterator[None]:
        """What the browser says of a server that does not answer is no complaint while the block runs."""
        before = len(self.complaints)
        yield
        said = self.complaints[before:]
        self.complaints[before:] = [each for each in said if not any(part in each for part in AWAY)]

    def _only(self, host: str, url: str) -> None:
        if not url.startswith((host, host.replace("http", "ws", 1), "data:", "blob:")):
            self.complaints.append(f"off-host: {url}")


@contextmanager
def launched() -> Iterator[Browser]:
    """A Chromium without a window, closed with the block.

    Raises:
        MissingDependency: there is none on this machine.
    """
    path = find()
    if path is None:
        raise MissingDependency(REMEDY, extra="bench")
    expect.set_options(timeout=WAIT)  # a page that is opened first loads all scripts
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield browser
        browser.close()
