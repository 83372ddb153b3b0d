"""The web dashboard: a client of the REST API.

``mount`` loads NiceGUI (about half a second of CPU) when it is called, not when this package is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI


def mount(app: FastAPI, *, base_url: str, api_key: str | None = None, **options: Any) -> None:
    """Serve the dashboard at ``/`` of ``app``: see :func:`services.dashboard.app.mount`."""
    from services.dashboard.app import mount as mount_in

    mount_in(app, base_url=base_url, api_key=api_key, **options)
