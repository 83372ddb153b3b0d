"""Bodies of what is believed: enrolled workers, and champions that are believed no longer."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from services.coordinator.schemas.common import Answer, Body

Line = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class EnrolRequest(Body):
    """A measure worker and its public key.

    ``public_key`` is the base64 of an Ed25519 public key; ``device_classes`` are those that it may serve, or any.
    """

    name: Line
    public_key: str = Field(min_length=44, max_length=44)
    device_classes: list[Line] = Field([], max_length=1024)


class EnrolledBody(Answer):
    """A measure worker whose reports are believed unless ``revoked_at`` is set; ``id`` comes of its public key."""

    id: str
    name: str
    device_classes: list[str]
    enrolled_by: str
    created_at: dt.datetime
    revoked_at: dt.datetime | None


class RevokedBody(BaseModel):
    """What a revocation changed: records believed no longer, champions that went, tasks of jobs that had them."""

    records: int
    champions: int
    tasks: int


class RevokeRequest(Body):
    """Which champion is believed no longer: on a target (hash, device class or tag), and why."""

    target: str = Field(min_length=1, max_length=200)
    reason: str = Field("", max_length=500)
