"""Stacks for the end-to-end tests."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from detached import Detached
from playwright.sync_api import Browser

from tools.browsing import launched
from tunesmith.client import Client, EmbeddedStack

LOG_LINES = 15
QUICK = {
    "TUNESMITH_WORK_TIMEOUT": "12",
    "TUNESMITH_CLAIM_TIMEOUT": "4",
    "TUNESMITH_DEVICE_TIMEOUT": "8",
    "TUNESMITH_LOOP_SECONDS": "0.3",  # several stacks share two cores, and each look costs
    "TUNESMITH_REFERENCES": "onnxruntime",  # the others are timed for the tests of references
    "TUNESMITH_QUARANTINE_LIMIT": "inf",  # beside other tests a device may well be half as fast as alone
}
PLAIN = {"TUNESMITH_DASHBOARD": "0"}
"""Without the dashboard, which takes as long to load as all else of a coordinator."""


@pytest.fixture(scope="session")
def stack_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a stack that notices losses soon and shares no lease with other stacks of this host."""
    lease = tmp_path_factory.mktemp("lease") / "host.lease"
    given = {key: value for key, value in os.environ.items() if not key.startswith(("TUNESMITH_", "TVM_"))}
    return given | QUICK | PLAIN | {"TUNESMITH_LEASE_FILE": str(lease)}


@pytest.fixture(scope="session")
def whole_env(stack_env: dict[str, str]) -> dict[str, str]:
    """The same with all that a stack serves by default."""
    return {key: value for key, value in stack_env.items() if key not in PLAIN}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, stack_env: dict[str, str]) -> Iterator[EmbeddedStack]:
    """A stack for the tests of one file."""
    data_dir: Path = tmp_path_factory.mktemp("stack")
    with EmbeddedStack(data_dir, env=stack_env) as running:
        yield running


@pytest.fixture
def client(stack: EmbeddedStack) -> Iterator[Client]:
    """A client of that stack."""
    with Client(stack.url) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one file."""
    with launched() as browser:
        yield browser


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of a running stack's logs where a test with it fails."""
    report = yield
    running = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(running, EmbeddedStack | Detached):
        for log in sorted((running.data_dir / "logs").glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            report.sections.append((f"end of {log.name}", "\n".join(line[:300] for line in lines)))
    return report
