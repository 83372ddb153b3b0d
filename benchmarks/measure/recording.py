"""Recorded measurements: what every rule of measuring is tried on afterwards."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput

FORMAT = "tunesmith.measurements/2"


@dataclass(frozen=True)
class Timed:
    """One candidate, measured at length.

    Attributes:
        first: seconds of the very first run.
        short: seconds a run, over a millisecond or one run, after that.
        samples: seconds a run, each over ``min_repeat_seconds`` or one run, in turn with the others of its round.
    """

    first: float
    short: float
    samples: tuple[float, ...]

    @property
    def latency(self) -> float:
        """Median of all samples."""
        return statistics.median(self.samples)


@dataclass(frozen=True)
class Stream:
    """The candidates of one operator in the order of a search, round by round."""

    operator: str
    rounds: tuple[tuple[Timed, ...], ...]

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

    def save(self, path: Path) -> None:
        """Write JSON, times in seconds with six digits."""
        body = {
            "format": FORMAT,
            "setup": self.setup,
            "noise_floor": self.noise_floor,
            "streams": [
                {
                    "operator": stream.operator,
                    "rounds": [
                        [[_digits(t.first), _digits(t.short), *map(_digits, t.samples)] for t in round_]
                        for round_ in stream.rounds
                    ],
                }
                for stream in self.streams
            ],
            "repeats": [
                {"operator": repeat.operator, "passes": [list(map(_digits, samples)) for samples in repeat.passes]}
                for repeat in self.repeats
            ],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body, separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Inverse of :meth:`save`.

        Raises:
            InvalidInput: the file is missing, or is something else.
        """
        try:
            body: Any = json.loads(path.read_text("utf-8"))
            if body["format"] != FORMAT:
                raise ValueError(f"its format is {body['format']!r}, not {FORMAT!r}")
            streams = tuple(
                Stream(each["operator"], tuple(tuple(_timed(row) for row in round_) for round_ in each["rounds"]))
                for each in body["streams"]
            )
            repeats = tuple(Repeat(each["operator"], tuple(map(tuple, each["passes"]))) for each in body["repeats"])
            return cls(float(body["noise_floor"]), streams, repeats, dict(body["setup"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path.name} is no recording: {error}", field="recording", value=path.name) from error


def _timed(row: list[float]) -> Timed:
    first, short, *samples = row
    if not samples or not all(math.isfinite(value) and value > 0 for value in row):
        raise ValueError("a measurement without samples, or with one that is no time")
    return Timed(first, short, tuple(samples))


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
