"""The page that shows the OpenAPI document: Swagger UI, from files of a package, so that no other host is asked."""

from __future__ import annotations

import mimetypes
from importlib import resources
from typing import Literal

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response

PACKAGE, FOLDER = "fastapi_offline", "static"
SCRIPT, STYLE = "swagger-ui-bundle.js", "swagger-ui.css"
NO_ICON = "data:,"
router = APIRouter(include_in_schema=False)


@router.get("/docs")
def docs() -> HTMLResponse:
    """The page."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Tunesmith · API",
        swagger_js_url=f"/docs/{SCRIPT}",
        swagger_css_url=f"/docs/{STYLE}",
        swagger_favicon_url=NO_ICON,
    )


@router.get("/docs/{name}")
def docs_file(name: Literal["swagger-ui-bundle.js", "swagger-ui.css"]) -> Response:
    """A file of the page."""
    content = resources.files(PACKAGE).joinpath(FOLDER).joinpath(name).read_bytes()
    kind = mimetypes.guess_type(name)[0]
    return Response(content, media_type=kind, headers={"Cache-Control": "public, max-age=86400"})
