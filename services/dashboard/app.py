"""Mounting the dashboard in the coordinator's application."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from fastapi import FastAPI, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import Response
from nicegui import app as toolkit
from nicegui import core, ui
from nicegui.client import templates

from services.dashboard import (
    analysis,
    compare,
    cost_model,
    device,
    downloads,
    families,
    job,
    listing,
    login,
    lost,
    overview,
    submit,
    trial,
    trials,
    worker,
    workload,
)
from services.dashboard.api import Clients
from services.dashboard.context import Context, first_look
from services.dashboard.early import in_two_parts
from services.dashboard.kept_files import KeptFiles
from services.dashboard.listing import Listing
from services.dashboard.listings import LISTINGS
from services.dashboard.policy import PagePolicy, use_nonces
from services.dashboard.sessions import Sessions
from services.dashboard.theme import RESTORE
from services.rates import Rate

FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#4338ca"/>'
    '<path d="M6 9h6v6h6v5h8" fill="none" stroke="#fff" stroke-width="3" stroke-linejoin="round"/></svg>'
)

GZIP_LEVEL = 3
"""For pages, each of which is compressed for one visitor; what all have in common is kept, see :class:`KeptFiles`."""


def mount(app: FastAPI, *, base_url: str, secret: str, login_limit: str, headers: Mapping[str, str]) -> None:
    """Serve the dashboard at ``/`` of ``app``; call it after the API's own routes are there, before the start.

    Args:
        app: the coordinator's application.
        base_url: where this process reaches the REST API, e.g. ``http://127.0.0.1:8700``.
        secret: signs the session cookie.
        login_limit: attempts to log in from one address, such as ``20/minute``; empty for any number.
        headers: sent with every call of the API.

    Raises:
        RuntimeError: when this process has a dashboard already (NiceGUI holds one application per process).
    """
    if getattr(toolkit.state, "tunesmith", None) is not None:
        raise RuntimeError("one process serves one dashboard: set TUNESMITH_DASHBOARD=false for further applications")
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # the pages poll: one line a request would fill the log
    clients = Clients(base_url, headers=headers)
    context = Context(clients, Sessions(), Rate(login_limit))
    toolkit.state.tunesmith = context
    _pages(context, clients)
    lost.handle(context)
    use_nonces(templates.env)
    toolkit.add_middleware(PagePolicy)
    toolkit.config.vue_config_script += RESTORE
    core.sio.eio.cors_allowed_origins = []  # no answer invites other origins; whoever mounts this refuses them
    ui.run_with(
        app,
        title="Tunesmith",
        favicon=FAVICON,
        dark=None,
        language="en-US",
        storage_secret=secret,
        session_middleware_kwargs={"same_site": "lax", "max_age": 7 * 24 * 3600},
        show_welcome_message=False,
        reconnect_timeout=10.0,
        tailwind=False,  # the style sheet has the few classes that are used, and the script would take long to load
        gzip_middleware_factory=lambda app: GZipMiddleware(app, compresslevel=GZIP_LEVEL),
    )
    app.add_middleware(KeptFiles)


def _page(path: str) -> Callable[[Callable[..., None]], None]:
    """A page that is sent with its data, if that comes soon."""

    def add(build: Callable[..., None]) -> None:
        @ui.page(path)
        @wraps(build)
        async def page(*args: Any, **given: Any) -> Response:
            build(*args, **given)
            return in_two_parts(ui.context.client, partial(first_look, ui.context.client))

    return add


def _pages(context: Context, clients: Clients) -> None:
    @_page("/")
    def overview_page(tag: str = "") -> None:
        overview.build(context, tag)

    @_page("/jobs/{job_id}")
    def job_page(job_id: str) -> None:
        job.build(context, job_id)

    @_page("/jobs/{job_id}/families")
    def families_page(job_id: str) -> None:
        families.build(context, job_id)

    @_page("/jobs/{job_id}/trials")
    def trials_page(job_id: str, sort: str = "", task: str = "", failure: str = "") -> None:
        trials.build(context, job_id, trials.View.of(sort, task, failure))

    @_page("/jobs/{job_id}/trials/{trial_id:int}")
    def trial_page(job_id: str, trial_id: int) -> None:
        trial.build(context, job_id, trial_id)

    @_page("/jobs/{job_id}/tasks/{task_id:int}/analysis")
    def analysis_page(job_id: str, task_id: int, sketch: str = "") -> None:
        analysis.build(context, job_id, task_id, sketch)

    for each in LISTINGS:
        _listing(context, each)

    @_page("/records/{key}")
    def workload_page(key: str) -> None:
        workload.build(context, key)

    @_page("/costmodels/{key}")
    def cost_model_page(key: str) -> None:
        cost_model.build(context, key)

    @_page("/devices/{name:path}")
    def device_page(name: str) -> None:
        device.build(context, name)

    @_page("/workers/{name:path}")
    def worker_page(name: str) -> None:
        worker.build(context, name)

    @_page("/submit")
    def submit_page(like: str = "") -> None:
        submit.build(context, like)

    @_page("/compare")
    def compare_page(jobs: str = "") -> None:
        compare.build(context, jobs)

    @toolkit.post(submit.UPLOAD)
    async def upload(request: Request) -> Response:
        answer = await clients.upload(context.visitor().key, request.stream(), request.headers.get("content-type", ""))
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    @ui.page("/login")
    def login_page(next: str = "/") -> None:
        login.build(context, next)

    @toolkit.get("/login/enter")
    def enter(request: Request, ticket: str = "", next: str = "/") -> Response:
        return login.enter(context, request, ticket, next)

    @toolkit.get("/records.parquet")
    async def records(workload: str = "") -> Response:
        return await downloads.records(clients, context.visitor().key, workload)

    @toolkit.get("/jobs/{job_id}/best/{form}")
    def best(job_id: str, form: str) -> Response:
        return downloads.best(context.visitor().api, job_id, form)


def _listing(context: Context, shown: Listing) -> None:
    @_page(shown.path)
    def listing_page(find: str = "") -> None:
        listing.build(context, shown, find)
