"""Learning curves of a model's tasks, recorded once: what each candidate of a task brought, and what it took."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput

FORMAT = 2
BUILDERS = 2
"""Of a round, at the least."""
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class TaskCurve:
    """One task.

    Attributes:
        name: in the model.
        family: name of its family.
        weight: how often the model runs it.
        flops: of one run.
        untuned: seconds of the default schedule; None where that does not run.
        alternative_of: place of the direct task among the model's, for an alternative.
        bests: best latency in seconds after each candidate; None before the first valid one.
        seconds: of each candidate's own, in builders and on the device.
        sizes: candidates of each recorded round.
        overheads: seconds of each recorded round that are not its candidates' own.
    """

    name: str
    family: str
    weight: float
    flops: float
    untuned: float | None
    alternative_of: int | None
    bests: tuple[float | None, ...]
    seconds: tuple[float, ...]
    sizes: tuple[int, ...]
    overheads: tuple[float, ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """Candidates up to the end of each recorded round."""
        return tuple(itertools.accumulate(self.sizes))

    def took(self, begin: int, end: int) -> float:
        """Wall time of a round of the candidates from ``begin`` to before ``end``, however rounds were cut in the
        record. It is their own, and once what the next recorded round took besides."""
        begun = next((at for at, size in enumerate(self.sizes) if begin <= self.ends[at] - size), len(self.sizes) - 1)
        return self.overheads[begun] + sum(self.seconds[begin:end])


@dataclass(frozen=True)
class ModelCurves:
    """One run of a model in which every task had as many rounds as any other.

    Attributes:
        facts: machine and versions.
    """

    model: str
    seed: int
    tasks: tuple[TaskCurve, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        """Write it as ``<model>-<seed>.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        path = file_of(self.model, self.seed, folder)
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> ModelCurves:
        """Read what :meth:`save` wrote.

        Raises:
            InvalidInput: it is something else, or of another version.
        """
        try:
            body = json.loads(path.read_text("utf-8"))
            if body.pop("format") != FORMAT:
                raise InvalidInput(f"{path.name} is of another version: record it anew", field="data", value=path.name)
            tasks = tuple(_task(task) for task in body.pop("tasks"))
            return cls(tasks=tasks, **body)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(f"{path.name} holds no learning curves", field="data", value=path.name) from error


def file_of(model: str, seed: int, folder: Path) -> Path:
    """Where the curves of a run lie."""
    return folder / f"{model}-{seed}.json"


def load_all(folder: Path) -> Mapping[str, Sequence[ModelCurves]]:
    """Every recorded run by model.

    Raises:
        InvalidInput: there is none, or one cannot be read.
    """
    found: dict[str, list[ModelCurves]] = {}
    for path in sorted(folder.glob("*.json")):
        run = ModelCurves.load(path)
        found.setdefault(run.model, []).append(run)
    if not found:
        raise InvalidInput(
            f"there are no learning curves in {folder.name}: record some with 'tunesmith bench allocation collect'",
            field="data",
            value=folder.name,
        )
    return found


def curves_of(
    model: str,
    seed: int,
    tasks: Sequence[Mapping[str, Any]],
    rounds: Sequence[Mapping[str, Any]],
    trials: Iterable[Mapping[str, Any]],
    facts: Mapping[str, str],
) -> ModelCurves:
    """From a finished job as the API shows it.

    A round takes from the end of the job's round before to its own. Its candidates' own part of that is what they took
    on the device and, as there are two builders at least, half of what they took to build.

    Args:
        tasks: of ``GET /v1/jobs/{id}/tasks``.
        rounds: of ``GET /v1/jobs/{id}/rounds``.
        trials: of ``GET /v1/jobs/{id}/trials``.
    """
    tunable = [task for task in tasks if task["tunable"]]
    place = {task["workload"]: at for at, task in enumerate(tunable)}
    done = sorted((r for r in rounds if r["state"] == "done" and r["finished_at"]), key=lambda r: str(r["finished_at"]))
    ends = [_seconds(r["finished_at"]) for r in done]
    starts = [_seconds(done[0]["created_at"]), *ends[:-1]] if done else []
    took = {r["number"]: end - start for r, start, end in zip(done, starts, ends, strict=True)}
    measured: dict[int, list[Mapping[str, Any]]] = {task["id"]: [] for task in tunable}
    for trial in trials:
        measured.get(trial["task"], []).append(trial)
    found = []
    for task in tunable:
        own = [r for r in done if r["task"] == task["id"]]
        pieces = _pieces(own, measured[task["id"]], took)
        found.append(
            TaskCurve(
                name=task["name"],
                family=task["family"],
                weight=task["weight"],
                flops=task["flops"],
                untuned=task["untuned_latency"],
                alternative_of=place.get(task["alternative_of"]),
                bests=tuple(best for piece in pieces for best in piece.bests),
                seconds=tuple(each for piece in pieces for each in piece.seconds),
                sizes=tuple(len(piece.bests) for piece in pieces),
                overheads=tuple(piece.overhead for piece in pieces),
            )
        )
    return ModelCurves(model, seed, tuple(found), facts)


@dataclass(frozen=True)
class _Piece:
    """What one round brought and took; see :class:`TaskCurve`."""

    bests: tuple[float | None, ...]
    seconds: tuple[float, ...]
    overhead: float


def _pieces(
    rounds: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]], took: Mapping[int, float]
) -> list[_Piece]:
    """Of the rounds of one task those that measured anything; what the others took is the next one's."""
    found, at, best, left_over = list[_Piece](), 0, None, 0.0
    for done in rounds:
        mine = []
        while at < len(trials) and _seconds(trials[at]["created_at"]) <= _seconds(done["finished_at"]):
            mine.append(trials[at])
            at += 1
        wall = took[done["number"]] + left_over
        if not any(trial["sketch"] for trial in mine):
            left_over = wall
            continue
        found.append(_piece(mine, best, done["best_after"], wall))
        best, left_over = done["best_after"], 0.0
    return found


def _piece(trials: Sequence[Mapping[str, Any]], before: float | None, after: float | None, wall: float) -> _Piece:
    """A round's wall time shared out; the default schedule's run, which is none of the candidates, to the first."""
    candidates = sorted((trial for trial in trials if trial["sketch"]), key=lambda trial: int(trial["index"]))
    own = [trial["build_seconds"] / BUILDERS + trial["run_seconds"] for trial in candidates]
    own[0] += sum(trial["build_seconds"] / BUILDERS + trial["run_seconds"] for trial in trials if not trial["sketch"])
    part = min(1.0, wall / sum(own)) if sum(own) else 1.0
    bests, lowest = list[float | None](), math.inf
    for trial in candidates:
        lowest = min(lowest, math.inf if trial["latency"] is None else trial["latency"])
        # What a latency is worth that looked better than it was, a comparison with the champion said at the end.
        here = math.inf if after is None else max(lowest, after)
        bests.append(before if math.isinf(here) else min(here, math.inf if before is None else before))
    bests[-1] = after
    return _Piece(tuple(bests), tuple(part * each for each in own), wall - part * sum(own))


def _seconds(moment: Any) -> float:
    return dt.datetime.fromisoformat(str(moment).replace("Z", "+00:00")).timestamp()


def _task(body: Mapping[str, Any]) -> TaskCurve:
    lists = {name: tuple(body[name]) for name in ("bests", "seconds", "sizes", "overheads")}
    return TaskCurve(**{**body, **lists})
