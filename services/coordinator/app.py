"""The application: routes, problems, the scheduling loop's life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session

from db.blobs import BlobStore
from db.engine import create_engines, migrate, session_factory, transact
from services.coordinator import auth, docs_page, problems
from services.coordinator.audit import Audit
from services.coordinator.broker import CeleryPublisher, Publisher
from services.coordinator.context import Context
from services.coordinator.document import TAGS, openapi
from services.coordinator.headers import SafeHeaders
from services.coordinator.lazy import LazyApp, LazyMount
from services.coordinator.limits import BodyLimit
from services.coordinator.methods import Methods, Paths
from services.coordinator.metrics import Metrics
from services.coordinator.origins import OriginGuard
from services.coordinator.probes import Probes
from services.coordinator.rates import KeyRates
from services.coordinator.routers import (
    best,
    blobs,
    cache,
    events,
    fleet,
    health,
    jobs,
    keys,
    models,
    progress,
    proposals,
    record_imports,
    records,
    spaces,
    trials,
    trust,
)
from services.coordinator.scheduling.loop import SchedulingLoop
from services.coordinator.settings import Settings
from services.coordinator.urls import BlobUrls
from services.coordinator.usecases.health import gauges
from services.coordinator.wellformed import WellFormed
from tunesmith import __version__

DESCRIPTION = """Auto-tuning of tensor programs as a service. Every error is an RFC 9457 problem object with a stable
`code`. Lists are pages: pass `next_cursor` back as `cursor`. Latencies and durations are in seconds."""


def create_context(settings: Settings, publisher: Publisher | None = None) -> Context:
    """Open database and blobs; the database is brought to this version's schema first.

    Args:
        publisher: sends messages to workers; by default Celery over ``broker_url``.
    """
    settings.check()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    migrate(settings.url())
    engine, reader_engine = create_engines(settings.url(), settings.write_timeout)
    blobs = BlobStore(settings.blobs())
    context = Context(
        settings=settings,
        engine=engine,
        reader_engine=reader_engine,
        sessions=session_factory(engine),
        readers=session_factory(reader_engine, read_only=True),
        blobs=blobs,
        probes=Probes(settings.url(), blobs.directory),
        publisher=publisher or CeleryPublisher(settings.broker_url.get_secret_value()),
        urls=BlobUrls(settings.signing_key(), settings.coordinator_url, settings.blob_url_seconds),
        metrics=Metrics(),
        rates=KeyRates(settings.rate_limit, settings.wrong_key_limit, settings.dashboard_token()),
    )
    context.metrics.watch(lambda: gauges(context))

    def store(session: Session) -> None:
        if settings.admin_key is not None:
            auth.store_admin_key(session, settings.admin_key.get_secret_value())
        if settings.enrolment_key is not None:
            auth.store_enrolment_key(session, settings.enrolment_key.get_secret_value())
        trust.enrol_known(session, settings.worker_keys)

    transact(context.sessions, store)
    return context


def create_app(
    settings: Settings | None = None,
    *,
    publisher: Publisher | None = None,
    run_loop: bool = True,
    dashboard: LazyApp | None = None,
) -> FastAPI:
    """The coordinator as an ASGI application.

    Args:
        settings: by default read from the environment.
        publisher: see :func:`create_context`.
        run_loop: False when something else drives :class:`SchedulingLoop`, as tests do.
        dashboard: served at ``/``.
    """
    context = create_context(settings or Settings(), publisher)
    app = FastAPI(
        title="Tunesmith",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=[{"name": name, "description": about} for name, about in TAGS.items()],
        generate_unique_id_function=lambda route: route.name,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.context, app.state.run_loop = context, run_loop
    app.openapi = lambda: openapi(app, keys=context.settings.admin_key is not None)  # type: ignore[method-assign]
    app.state.paths = Paths(app.openapi)
    app.add_middleware(Audit, context=context)
    app.add_middleware(Methods, paths=app.state.paths)
    app.add_middleware(WellFormed)
    public = context.settings.public_url
    app.add_middleware(OriginGuard, keys=context.settings.admin_key is not None, public_url=public)
    problems.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(SafeHeaders, tls=public.startswith("https://"))
    for module in (
        health,
        models,
        jobs,
        progress,
        spaces,
        proposals,
        trials,
        events,
        best,
        fleet,
        records,
        record_imports,
        keys,
        trust,
        cache,
        blobs,
        docs_page,
    ):
        app.include_router(module.router)
    app.state.dashboard = dashboard
    if dashboard is not None:
        app.router.routes.append(LazyMount("/", app=dashboard))
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    loop = SchedulingLoop(context)
    if app.state.run_loop:
        loop.start()
    dashboard: LazyApp | None = app.state.dashboard
    try:
        async with dashboard.running() if dashboard is not None else nullcontext():
            yield
    finally:
        await run_in_threadpool(loop.stop)
        context.publisher.close()
        context.dispose()
