"""Learning curves of a model's tasks, recorded once: what each round of a task brought, and what it took."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tunesmith.errors import InvalidInput

FORMAT = 1
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
        bests: best latency in seconds after each round; None before the first valid one.
        seconds: wall time of each round, from the end of the job's round before to its own.
        sizes: candidates of each round.
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
        raise InvalidInput(f"there are no learning curves in {folder.name}: record some with "
                           "'tunesmith bench allocation collect'", field="data", value=folder.name)
    return found


def curves_of(
    model: str, seed: int, tasks: Sequence[Mapping[str, Any]], rounds: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
) -> ModelCurves:  # fmt: skip
    """From a finished job as the API shows it.

    Args:
        tasks: of ``GET /v1/jobs/{id}/tasks``.
        rounds: of ``GET /v1/jobs/{id}/rounds``.
    """
    tunable = [task for task in tasks if task["tunable"]]
    place = {task["workload"]: at for at, task in enumerate(tunable)}
    done = sorted((r for r in rounds if r["state"] == "done" and r["finished_at"]), key=lambda r: str(r["finished_at"]))
    ends = [_seconds(r["finished_at"]) for r in done]
    starts = [_seconds(done[0]["created_at"]), *ends[:-1]] if done else []
    took = {r["number"]: end - start for r, start, end in zip(done, starts, ends, strict=True)}
    own = {task["id"]: [r for r in done if r["task"] == task["id"]] for task in tunable}
    return ModelCurves(model, seed, tuple(
        TaskCurve(
            name=task["name"], family=task["family"], weight=task["weight"], flops=task["flops"],
            untuned=task["untuned_latency"], alternative_of=place.get(task["alternative_of"]),
            bests=tuple(r["best_after"] for r in own[task["id"]]),
            seconds=tuple(took[r["number"]] for r in own[task["id"]]), sizes=tuple(r["size"] for r in own[task["id"]]),
        )
        for task in tunable
    ), facts)  # fmt: skip


def _seconds(moment: Any) -> float:
    return dt.datetime.fromisoformat(str(moment).replace("Z", "+00:00")).timestamp()


def _task(body: Mapping[str, Any]) -> TaskCurve:
    lists = {name: tuple(body[name]) for name in ("bests", "seconds", "sizes")}
    return TaskCurve(**{**body, **lists})
