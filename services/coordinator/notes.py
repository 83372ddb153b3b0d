"""What the preparation of a job's model has to say to its user."""

from __future__ import annotations

from db.models import Model


def of(model: Model) -> list[str]:
    """What was asked of the preparation and could not be had."""
    return [model.note] if model.note else []
