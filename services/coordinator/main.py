"""The coordinator as a process: ``python -m services.coordinator``."""

from __future__ import annotations

import logging
import sys

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError

from services.coordinator.app import create_app
from services.coordinator.settings import Settings
from tunesmith.errors import TunesmithError

SHUTDOWN_SECONDS = 5


def main() -> int:
    """Serve until SIGTERM or SIGINT; 2 when the settings are not valid."""
    try:
        settings = Settings()
        settings.check()
    except ValidationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except TunesmithError as error:
        print(f"error: {error.detail}", file=sys.stderr)
        return error.exit_code
    logging.basicConfig(
        level=settings.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    app = create_app(settings)
    if settings.dashboard:
        mount_dashboard(app, settings)
    uvicorn.run(
        app, host=settings.host, port=settings.port, log_level=settings.log_level, access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS, server_header=False,
    )  # fmt: skip
    return 0


def mount_dashboard(app: FastAPI, settings: Settings) -> None:
    """Serve the dashboard at ``/``; it talks to this very process over HTTP, as any client does."""
    from services.dashboard import mount  # loads the web toolkit

    host = settings.host if settings.host not in ("0.0.0.0", "::") else "127.0.0.1"
    secret = settings.signing_key().hex()
    mount(app, base_url=f"http://{f'[{host}]' if ':' in host else host}:{settings.port}", secret=secret)
