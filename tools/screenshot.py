"""Take the dashboard's pictures in ``docs/images``: ``python -m tools.screenshot``. Needs the test extras and Chromium.

A coordinator with the dashboard runs on a database that the dashboard's tests use too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

from tools.browsing import launched
from tunesmith.operators import parse_operator
from workers.tvm_backend.build.local_model import local_target
from workers.tvm_backend.design_space import space
from workers.tvm_backend.design_space.program_text import program_text
from workers.tvm_backend.frontends import import_model
from workers.tvm_backend.passes import pipeline
from workers.tvm_backend.passes.extract_tasks import extract_tasks

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1180, "height": 1000}
WAIT = 30_000
WEEK = str(7 * 86400)
OPERATOR = "gemm:128x128x128:float32"


def program() -> dict[str, str]:
    """A program to show: any candidate of a product."""
    target = local_target("cpu")
    module = pipeline.prepare(import_model.operator_module(parse_operator(OPERATOR))).module
    (task,) = extract_tasks(module)
    bodies = space.generate(task.module, target)
    traces = space.TraceSpace(task.module, target, bodies)
    resolved, valid = traces.resolve(traces.space.sample(np.random.default_rng(0), 64))
    candidate = traces.space.candidates(resolved.take(valid))[0]
    body = next(body for body in bodies if body.hash == candidate.sketch)
    return asdict(program_text(task.module, target, body, candidate.decisions))


def take(page: Page, url: str, folder: Path) -> None:
    """Write the pictures."""
    from browser_pages import write_program

    page.goto(f"{url}/jobs/running")
    page.get_by_role("link", name="fused_matmul_add", exact=True).wait_for(timeout=WAIT)
    page.locator(".nicegui-echart canvas").wait_for(timeout=WAIT)
    shoot(page, "dashboard")
    page.get_by_role("link", name="fused_matmul_add", exact=True).click()
    page.wait_for_url("**/trials?*")
    first = page.locator("tbody tr a").first
    first.wait_for(timeout=WAIT)
    shoot(page, "trials")
    write_program(folder, url, int(first.inner_text()), "running", json.dumps(program()))
    first.click()
    page.get_by_label("Program in TVMScript").get_by_text("def main").wait_for(timeout=WAIT)
    shoot(page, "trial")


def shoot(page: Page, name: str) -> None:
    """Write the picture of what is shown."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path, full_page=False)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def main() -> int:
    """Write every picture."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    import dashboard_rows
    from coordinator_process import coordinator

    with tempfile.TemporaryDirectory() as name, launched() as browser:
        folder = Path(name)
        dashboard_rows.fill(folder)
        with coordinator(folder, device_timeout=WEEK) as url:
            take(browser.new_page(viewport=SIZE), url, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
