"""Life and readiness, which need no key, and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from services.coordinator.access import MONITOR
from services.coordinator.auth import InCaller, InVisitor
from services.coordinator.context import InContext
from services.coordinator.usecases import health
from tunesmith import __version__
from tunesmith.answers.fleet import Health

router = APIRouter(tags=["health"])


@router.get("/livez")
async def livez() -> Health:
    """The process answers."""
    return Health(status="ok", version=__version__)


@router.get(
    "/readyz",
    responses={503: {"model": Health, "description": "Something is missing"}},
    openapi_extra={"security": [{}, {"HTTPBearer": []}]},
)
def readyz(context: InContext, visitor: InVisitor, response: Response) -> Health:
    """Everything that work needs is there; 503 when not. Operators and monitors learn what is wrong."""
    found = health.ready(context)
    if visitor is None or not visitor.scopes.intersection(MONITOR):
        found = health.without_details(found)
    if found.status != "ok":
        response.status_code = 503
    return found


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(context: InContext, _: InCaller) -> Response:
    """Prometheus exposition; where keys are asked for, one with the scope `monitor` or `operator`."""
    return Response(context.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
