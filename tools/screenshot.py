"""Take ``docs/images/dashboard.png``: ``python -m tools.screenshot [OUT]``. Needs the test extras and a Chromium.

A coordinator with the dashboard runs on a database that the dashboard's tests use too; its scheduling loop does not.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from services.coordinator.app import create_app
from services.coordinator.settings import Settings
from services.dashboard import mount
from tools.browser import REMEDY, find

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "images" / "dashboard.png"
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SIZE = {"width": 1180, "height": 1000}


def serve(folder: Path, port: int) -> uvicorn.Server:
    """A server for the app, not started yet."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    import dashboard_rows

    dashboard_rows.fill(folder)
    settings = Settings(data_dir=folder, port=port, device_timeout=365 * 86400.0)
    app = create_app(settings, run_loop=False)
    mount(app, base_url=f"http://127.0.0.1:{port}")
    return uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))


def main() -> int:
    """Write the picture."""
    path, out, port = find(), Path(sys.argv[1]) if len(sys.argv) > 1 else OUT, 8791
    if path is None:
        print(REMEDY, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        server = serve(Path(folder), port)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path, args=ARGS)
                page = browser.new_page(viewport=SIZE)
                page.goto(f"http://127.0.0.1:{port}/jobs/running")
                page.get_by_text("fused_matmul_add", exact=True).wait_for(timeout=30_000)
                page.locator(".nicegui-echart canvas").wait_for(timeout=30_000)
                page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                page.screenshot(path=out, full_page=False)
                browser.close()
        finally:
            server.should_exit = True
            thread.join()
    print(f"{out}: {out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
