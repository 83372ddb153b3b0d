"""Files of what a device was when it was calibrated, so that a worker that starts anew compares with the same."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

log = logging.getLogger("tunesmith.measure")


class Stored(BaseModel):
    """What is remembered of a device and a target.

    Attributes:
        about: device, target and version of the kernels, in words.
        peak_flops, bandwidth: FLOP/s and bytes/s.
        narrow_flops: FLOP/s of narrow types, by precision.
        reference_seconds: time of the calibration kernel, in seconds.
        medians: medians of the calibration kernel, in seconds, oldest first.
        looks: medians that were taken after the reference, those forgotten since included.
    """

    version: Literal[2] = 2
    about: str
    peak_flops: float
    narrow_flops: dict[str, float] = {}
    bandwidth: float
    reference_seconds: float
    medians: list[float]
    looks: int


def load(path: Path, about: str) -> Stored | None:
    """What an earlier worker stored; None when there is nothing, or nothing that this one understands."""
    try:
        stored = Stored.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s is passed over: %s", path, str(error).splitlines()[0])
        return None
    return stored if stored.about == about else None


def save(path: Path, stored: Stored) -> None:
    """Write at once or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(stored.model_dump_json(), encoding="utf-8")
    fresh.replace(path)
