"""Recorded measurements: what every rule of measuring is tried on afterwards."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, TypeAdapter

from tunesmith.errors import InvalidInput

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Timed:
    """One candidate, measured at length.

    Attributes:
        first: seconds of the very first run.
        short: seconds a run, over a millisecond or one run, after that.
        samples: seconds a run, each over ``min_repeat_seconds`` or one run, in turn with the others of its round.
    """

    first: Seconds
    short: Seconds
    samples: Annotated[tuple[Seconds, ...], Field(min_length=1)]

    @property
    def latency(self) -> float:
        """Median of all samples."""
        return statistics.median(self.samples)


TimedRow = Annotated[
    Timed,
    BeforeValidator(lambda row: {"first": row[0], "short": row[1], "samples": row[2:]}),
    PlainSerializer(lambda timed: [timed.first, timed.short, *timed.samples]),
]
"""In JSON all of its times in one list."""


@dataclass(frozen=True)
class Stream:
    """The candidates of one operator in the order of a search, round by round."""

    operator: str
    rounds: tuple[tuple[TimedRow, ...], ...]

    @property
    def timed(self) -> tuple[Timed, ...]:
        """All candidates."""
        return tuple(timed for round_ in self.rounds for timed in round_)


@dataclass(frozen=True)
class Repeat:
    """One schedule, measured several times: the samples of each pass, in seconds."""

    operator: str
    passes: tuple[tuple[float, ...], ...]

    @property
    def medians(self) -> tuple[float, ...]:
        """One per pass."""
        return tuple(statistics.median(samples) for samples in self.passes)


@dataclass(frozen=True)
class Recording:
    """Everything that one run measured.

    Attributes:
        noise_floor: the device's, from its calibration.
        setup: machine and versions.
    """

    noise_floor: float
    streams: tuple[Stream, ...]
    repeats: tuple[Repeat, ...]
    setup: dict[str, str]
    format: Literal["tunesmith.measurements/2"] = "tunesmith.measurements/2"

    def save(self, path: Path) -> None:
        """Write JSON, times in seconds."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_JSON.dump_json(self) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Inverse of :meth:`save`.

        Raises:
            InvalidInput: the file is missing, or is something else.
        """
        try:
            return _JSON.validate_json(path.read_bytes())
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            problem = f"{path.name} cannot be read, or is no recording of this version: measure again"
            raise InvalidInput(problem, field="recording", value=path.name) from error


_JSON = TypeAdapter(Recording)
