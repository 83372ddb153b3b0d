"""``celery -A workers.celery_main worker``: the application made from the environment's settings."""

from __future__ import annotations

from workers.app import create_app
from workers.settings import Settings

app = create_app(Settings())
