"""What the preparation of a job's model has to say to its user."""

from __future__ import annotations

from db.models import Job, Model


def of(job: Job, model: Model) -> list[str]:
    """Why the precision was chosen, and what was asked of the preparation and could not be had."""
    return [note for note in (job.precision_reason, model.note) if note]
