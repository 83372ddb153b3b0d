"""What a collecting job is asked for. Without NumPy, which a client does not need."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from tunesmith.errors import InvalidInput

MAX_PER_TASK = 100_000
MAX_SHARDS = 32
"""With more, an ask of a sampler might find nothing of its shard."""
COLLECTED: Final = "collected"
"""Why a job stopped whose tasks have all the labels that they can have."""
SPARE_FAILURES, FAILURES_PER_LABEL = 64, 4
"""A task that has more failures than this, and so many for each label, is given up: hardly anything of it runs."""


class JobKind(str, enum.Enum):
    """What a job does with a task."""

    TUNE = "tune"  # look for the fastest program
    COLLECT = "collect"  # label programs for the dataset


@dataclass(frozen=True)
class Collecting:
    """What a collecting job is asked for.

    Attributes:
        per_task: labels that each task is to have in the end, those of earlier collecting jobs included.
        shard, shards: which of so many disjoint parts of each space the labels are of, counted from 0.
    """

    per_task: int
    shard: int = 0
    shards: int = 1

    def check(self) -> None:
        """Refuse what is out of bounds.

        Raises:
            InvalidInput: naming the field, the value and the bounds.
        """
        _check("per_task", self.per_task, 1, MAX_PER_TASK)
        _check("shards", self.shards, 1, MAX_SHARDS)
        _check("shard", self.shard, 0, self.shards - 1)

    def wanted(self, labels: int) -> int:
        """Labels that a task which has some still lacks."""
        return max(0, self.per_task - labels)


def given_up(failures: int, labels: int) -> bool:
    """True where so many programs of a task gave no label of their own that further ones are not worth it."""
    return failures > SPARE_FAILURES + FAILURES_PER_LABEL * labels


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4``, the second of four, as a number counted from 0 and how many there are.

    Raises:
        InvalidInput: naming the value and the form.
    """
    found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    shard, shards = (int(part) for part in found.groups()) if found else (0, 0)
    if not 1 <= shard <= shards <= MAX_SHARDS:
        raise InvalidInput(
            f"--shard must look like 2/4, the second of four and at most {MAX_SHARDS}, not {text!r}",
            field="shard",
            value=text,
        )
    return shard - 1, shards


def _check(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidInput(f"{field} must be {least} to {most}, not {value}", field=field, value=value)
