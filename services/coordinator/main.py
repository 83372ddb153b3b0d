"""The coordinator as a process: ``python -m services.coordinator``."""

from __future__ import annotations

import gc
import hashlib
import logging
import resource
import sys

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError

from services.coordinator.app import create_app
from services.coordinator.connections import ClientLimits, patient
from services.coordinator.lazy import LazyApp
from services.coordinator.rates import DASHBOARD_HEADER
from services.coordinator.settings import Settings
from tunesmith.data_folder import prepare
from tunesmith.errors import SchemaMismatch, TunesmithError
from tunesmith.starting import undisturbed
from tunesmith.terminal import print_anything

SHUTDOWN_SECONDS = 5
OTHER_FILES = 200
"""Files that are open besides connections and uploads: the database's, the broker's, libraries."""
COLLECT_AFTER = 20_000
"""New objects, less those that are gone, after which Python looks for cycles; its own figure is 700."""


def main() -> int:
    """Serve until SIGTERM or SIGINT; 2 when the settings are not valid, 78 when the database is of a later version."""
    print_anything()
    try:
        settings = Settings()
        settings.check()
        prepare(settings.data_dir, settings.umask)
    except ValidationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except TunesmithError as error:
        print(f"error: {error.detail}", file=sys.stderr)
        return error.exit_code
    logging.basicConfig(
        level=settings.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        with undisturbed():
            app = create_app(settings, dashboard=dashboard(settings) if settings.dashboard else None)
    except SchemaMismatch as error:
        print(f"error: {error.detail}", file=sys.stderr, flush=True)
        return error.exit_code
    settle()
    patience = ClientLimits(
        head=settings.header_timeout,
        body=settings.body_timeout,
        read=settings.read_timeout,
        most=min(settings.max_connections, allow_files(settings.max_connections + OTHER_FILES) - OTHER_FILES),
        most_of_one=settings.max_connections_per_address,
    )
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level,
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        server_header=False,
        http=patient(patience),
        proxy_headers=True,
        forwarded_allow_ips=settings.trusted_proxies,
    )
    return 0


def allow_files(wanted: int) -> int:
    """Raise this process's limit of open files towards ``wanted`` as far as the system lets it; what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return wanted if soft == resource.RLIM_INFINITY else soft


def settle() -> None:
    """Keep the collector of garbage from holding up the planner, as servers mostly do once they have started.

    What start-up made, modules above all, is no garbage: looking through it takes tens of milliseconds. And what a plan
    makes is gone when it is over, thousands of objects, none of which should begin a collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def dashboard(settings: Settings) -> LazyApp:
    """The dashboard; it talks to this very process over HTTP, as any client does."""
    host = settings.host if settings.host not in ("0.0.0.0", "::") else "127.0.0.1"
    base = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    secret = hashlib.sha256(b"dashboard sessions" + settings.signing_key()).hexdigest()

    def fill(app: FastAPI) -> None:
        from services.dashboard.app import mount  # loaded by then

        mount(
            app,
            base_url=base,
            secret=secret,
            login_limit=settings.wrong_key_limit,
            headers={DASHBOARD_HEADER: settings.dashboard_token()},
        )

    return LazyApp("services.dashboard.app", fill)
