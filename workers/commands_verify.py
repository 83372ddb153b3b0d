"""``tunesmith verify``: are the champions of a log still faster than default schedules, with what is installed now?"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tunesmith.cli.options import Json
from tunesmith.cli.output import emit, seconds, table
from tunesmith.cli.progress import shown
from tunesmith.errors import InvalidInput, MeasurementFailed, TargetUnavailable
from tunesmith.measuring.agreement import TOLERANCE
from tunesmith.measuring.ratio import Verdict, ratio
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.schedule_log import read_log
from workers.quiet import libraries_are_quiet
from workers.sandbox.pool import Actor, ChildError, Pool
from workers.tvm_backend.run.reranking import Timed
from workers.tvm_backend.warm import visible_cores

LIMIT_SECONDS = 300.0
"""For one task, its builds included."""
BUSY_SHARE = 0.05
"""Latencies of threads that waited longer for a core are not those of a quiet machine."""


class Rank(str, enum.Enum):
    """What became of a champion."""

    KEPT = "kept"  # faster than the default schedule
    LEVEL = "level"  # no difference can be told
    LOST = "lost"  # the default schedule is the faster one
    WRONG = "wrong"  # outputs differ from the default schedule's
    BROKEN = "broken"  # it cannot be built, or does not run


GOOD = (Rank.KEPT, Rank.LEVEL)


@dataclass(frozen=True)
class Checked:
    """A champion, measured again. Latencies are in seconds; ``speedup``: times as fast as the default schedule.

    Attributes:
        before: latency in the log.
        error: how far its outputs lie from the default schedule's, as a part of the largest.
        reason: why it is broken.
        waiting: part of the time in which its threads waited for a core that something else had.
    """

    task: str
    workload: str
    rank: Rank
    before: float | None
    latency: float | None = None
    default: float | None = None
    speedup: float | None = None
    error: float | None = None
    reason: str = ""
    waiting: float = 0.0


def verify(
    log: Annotated[Path, typer.Argument(help="best.jsonl, or a folder with a MetaSchedule database.")],
    threads: Annotated[int | None, typer.Option(min=1, help="Threads (default: the log's target's).")] = None,
    as_json: Json = False,
) -> None:
    """Measure a log's champions again, next to default schedules; fails if one lost its rank."""
    given = read_log(log)
    if not given.records:
        raise InvalidInput(f"{log} has no schedule: every task keeps its default one", field="log", value=str(log))
    cores = threads or threads_of(given.records[0].target)
    with libraries_are_quiet(), shown("verifying", as_json) as display:
        found = []
        for each in check(given.records, given.names, cores):
            found.append(each)
            display.phase(f"verifying {len(found)} of {len(given.records)}")
    emit([asdict(each) for each in found], _table(found), as_json)
    bad = [each for each in found if each.rank not in GOOD]
    if bad:
        named = ", ".join(f"{each.task} ({each.rank.value})" for each in bad)
        detail = f"{len(bad)} of {len(found)} champions lost their rank: {named}; tune the model again"
        raise MeasurementFailed(detail, ranks=[each.rank.value for each in found])


def check(records: Sequence[DatabaseRecord], names: Mapping[str, str], threads: int) -> Iterator[Checked]:
    """Measure champions one after another, each pair in a process that may crash.

    Args:
        names: names of tasks by workload.
    """
    actor = Actor("workers.tvm_backend.run.reranking:Reranker", (threads,), {"TVM_NUM_THREADS": str(threads)})
    with Pool(actor, 1) as pool:
        for record in records:
            name = names.get(record.hash) or record.hash
            yield judge(name, record, pool.submit("time", record, timeout=LIMIT_SECONDS))


def judge(name: str, record: DatabaseRecord, timed: Future[Timed]) -> Checked:
    """What became of a champion, by what was measured of it."""
    before = statistics.median(record.run_seconds) if record.run_seconds else None
    try:
        found = timed.result()
    except ChildError as error:
        return Checked(name, record.hash, Rank.BROKEN, before, reason=str(error).strip()[:300])
    apart = ratio(found.default, found.champion)
    ranks = {Verdict.FASTER: Rank.KEPT, Verdict.NO_DIFFERENCE: Rank.LEVEL, Verdict.SLOWER: Rank.LOST}
    rank = ranks[apart.verdict] if found.error <= TOLERANCE else Rank.WRONG
    now, default = (statistics.median(samples) for samples in (found.champion, found.default))
    return Checked(name, record.hash, rank, before, now, default, apart.value, found.error, waiting=found.waiting)


def threads_of(target: Mapping[str, object]) -> int:
    """Threads of a log's target. Raises TargetUnavailable for what is no CPU, or has more cores than there are."""
    if target.get("kind") != "llvm":
        detail = f"schedules are measured on this machine's CPU, and the log is for {target.get('kind')}"
        raise TargetUnavailable(detail, field="log", value=target.get("kind"))
    wanted, here = int(str(target.get("num-cores") or visible_cores())), visible_cores()
    if wanted > here:
        detail = f"the log is for {wanted} cores, and {here} are here: give --threads to measure on fewer"
        raise TargetUnavailable(detail, field="threads", value=wanted)
    return wanted


def _busy(waiting: float) -> str:
    """What to know of latencies that were taken while something else ran."""
    if waiting <= BUSY_SHARE:
        return ""
    return f"its threads waited for a core {waiting:.0%} of the time: something else runs here"


def _table(found: Sequence[Checked]) -> Table:
    rows = [
        (
            each.rank.value,
            each.task,
            seconds(each.before),
            seconds(each.latency),
            seconds(each.default),
            f"{each.speedup:.2f}x" if each.speedup else "-",
            each.reason or _busy(each.waiting),
        )
        for each in found
    ]
    head = ("rank", "task", "in the log", "now", "default", "faster", "")
    return table(head, rows, whole=head[2:6], give="task")
