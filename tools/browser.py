"""Find a Chromium for the browser tests, or bring one: ``python -m tools.browser`` prints its path.

Order: ``TUNESMITH_CHROMIUM``, one on the PATH, Playwright's own; else as root the distribution's package, else
``playwright install chromium``; else exit status 1 and the command to run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
REMEDY = (
    "no Chromium for the browser tests, and none could be installed. Run 'apt-get install chromium' as root, or "
    "'python -m playwright install --with-deps chromium', or set TUNESMITH_CHROMIUM to one's path"
)


def find() -> str | None:
    """Path of a Chromium on this machine, or None."""
    given = os.environ.get("TUNESMITH_CHROMIUM")
    if given:
        return given
    return next((path for path in map(shutil.which, NAMES) if path), None) or _playwrights_own()


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if os.path.exists(path) else None


def install() -> None:
    """Try each way of getting a Chromium until one works."""
    ways = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        ways.insert(0, ["sh", "-c", "apt-get update -q && apt-get install -qy --no-install-recommends chromium"])
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in ways:
        print("+", *command, file=sys.stderr)
        if subprocess.run(command, env=env, stdout=sys.stderr, check=False).returncode == 0 and find():
            return


def main() -> int:
    """Print the path of a Chromium, after installing one when there is none."""
    if find() is None:
        install()
    path = find()
    print(path or REMEDY, file=sys.stdout if path else sys.stderr)
    return 0 if path else 1


if __name__ == "__main__":
    sys.exit(main())
