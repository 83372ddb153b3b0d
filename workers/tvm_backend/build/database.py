"""MetaSchedule databases between messages and folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tunesmith import metaschedule
from tunesmith.messages import TunedWorkload
from tunesmith.metaschedule import DatabaseRecord, read_database
from tunesmith.types import TensorSpec

__all__ = ["DatabaseRecord", "read", "write"]


def write(folder: str | os.PathLike[str], records: Sequence[TunedWorkload], target: Mapping[str, Any]) -> None:
    """Write tuned workloads, whose payloads are inline, as a MetaSchedule database."""
    metaschedule.write_database(os.fspath(folder), [_record(r, target) for r in records])


def read(folder: str | os.PathLike[str]) -> list[DatabaseRecord]:
    """The records of a MetaSchedule database; see :func:`tunesmith.metaschedule.read_database`."""
    return read_database(os.fspath(folder))


def _record(tuned: TunedWorkload, target: Mapping[str, Any]) -> DatabaseRecord:
    workload = json.loads(tuned.workload_json.unpack())
    args = tuple(TensorSpec(a.dtype, a.shape) for a in tuned.args)
    return DatabaseRecord(
        (str(workload[0]), str(workload[1])), json.loads(tuned.trace.unpack()), tuple(tuned.run_seconds), target, args
    )
