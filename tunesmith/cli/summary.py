"""What a finished ``tunesmith tune`` has to say."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunesmith.cli.headline import better_than_default, headline
from tunesmith.cli.output import INDENT, duration
from tunesmith.client import Client, Job
from tunesmith.full_disk import writing
from tunesmith.measuring.checked import CheckState, against_float32
from tunesmith.measuring.ratio import Verdict
from tunesmith.unmeasured import Source

SOURCES = {
    Source.MEASURED: "measured by earlier jobs",
    Source.ESTIMATED: "chosen by the static model",
    Source.RESCALED: "rescaled from relatives",
    Source.DEFAULT: "default",
}
UNMEASURED = (Source.ESTIMATED, Source.RESCALED)


def summarise(client: Client, job: Job, model: str, target: str, spent: float) -> dict[str, Any]:
    """The content of ``summary.json``.

    Args:
        client: where the job is.
        job: the finished job.
        model: as given.
        target: as given.
        spent: seconds of the whole run.
    """
    return {
        "job": job.id,
        "model": model,
        "target": target,
        "target_json": job.target_json,
        "trials": job.progress.trials,
        "seconds": round(spent, 3),
        "waited_seconds": round(job.waited_seconds, 3),
        "untuned_seconds": job.latency.untuned,
        "tuned_seconds": job.latency.current,
        "speedup": job.latency.speedup,
        "interval": list(job.latency.interval) if job.latency.interval else None,
        "verdict": job.latency.verdict,
        "schedules": job.latency.schedules,
        "estimate_seconds": job.latency.estimate,
        "latency_source": job.latency.source,
        "output_error": job.latency.output_error,
        "output_tolerance": job.latency.output_tolerance,
        "reference": _reference(client, job),
        "references": [each.model_dump(mode="json") for each in job.references],
        "reference_missing": job.reference_missing,
        "check": job.check.model_dump(mode="json") if job.check is not None else None,
        "stop_reason": job.stop_reason,
        "precision": job.precision,
        "notes": job.notes,
        "tasks": [task.model_dump(mode="json") for task in client.tasks(job.id)],
    }


def _reference(client: Client, job: Job) -> dict[str, Any] | None:
    """The fastest other runtime; of one that is faster, when the job would be expected to pass it."""
    if job.reference is None:
        return None
    slower = job.reference.verdict == Verdict.SLOWER.value
    more = client.forecast(job.id).passes_reference_in if slower else None
    return {**job.reference.model_dump(mode="json"), "passed_in_seconds": more}


def write(client: Client, job: Job, out: Path, summary: dict[str, Any]) -> None:
    """Fill the folder of ``--out``."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    client.download_best(job.id, out / "best.jsonl")
    client.download_metaschedule(job.id, out / "metaschedule")
    with writing(out / "summary.json"):
        (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")


def report(summary: dict[str, Any], out: Path | None, data_dir: Path | None, url: str) -> str:
    """The same for people.

    Args:
        summary: result of :func:`summarise`.
        out: folder with the result, when one was asked for.
        data_dir: data of the embedded stack that has ended by now, None for a server that goes on.
        url: URL of that server.
    """
    rows = [
        *headline(summary),
        ("outputs", outputs(summary)),
        *(("", text) for text in float32_outputs(summary.get("references") or [])),
        *(("note", text) for text in summary.get("notes") or []),
        ("schedules", _schedules(summary["tasks"])),
        ("effort", _effort(summary)),
        *_places(summary["job"], out, data_dir, url),
    ]
    return "\n".join(f"{name:{INDENT - 1}} {text}" for name, text in rows)


def _places(job: str, out: Path | None, data_dir: Path | None, url: str) -> list[tuple[str, str]]:
    """Where the result lies, and what has to run again before it can be looked at."""
    rows = []
    if out is not None:
        rows += [("log", str(out / "best.jsonl")), ("database", str(out / "metaschedule"))]
    if data_dir is not None:
        rows.append(("again", f"tunesmith up --data-dir {shlex.quote(str(data_dir))}"))
        url = "http://127.0.0.1:8700"
    if out is None:
        rows.append(("log", f"tunesmith best {job}"))
    return [*rows, ("dashboard", f"{url}/jobs/{job}")]


def outputs(summary: dict[str, Any]) -> str:
    """What the check of the outputs came to, in words."""
    if (summary.get("check") or {}).get("state") == CheckState.NOTHING_CHECKED.value:
        return "nothing was checked: they hardly depend on the inputs"
    if summary.get("schedules") == 0:
        return "are those of the untuned model, for no schedule changed"
    error, tolerance = summary["output_error"], summary["output_tolerance"]
    if error is None:
        return "not compared with the untuned model"
    from tunesmith.measuring.agreement import TOLERANCE  # NumPy takes its time, and not every command needs it

    allowed = TOLERANCE if tolerance is None else tolerance
    found = "agree with" if error <= allowed else "DIFFER from"
    text = f"{found} the untuned model: error {error:.1e} of the signal"
    return text if allowed <= TOLERANCE else f"{text}, which jumps by {allowed:.1e} where it rounds"


def float32_outputs(references: Sequence[Mapping[str, Any]]) -> list[str]:
    """How far those of a job in a narrow precision lie from float32's; nothing for other jobs."""
    found = against_float32(references)
    if found is None:
        return []
    error, rms, allowed = found["error"], found["rms"], found["tolerance"]
    what = "within" if max(error, rms) <= allowed else "BEYOND"
    name = f"{found['runtime']} in float32"
    return [f"{what} {allowed:g} of {name}: {error:.1e} of the largest, rms {rms:.1e}"]


def _schedules(tasks: list[dict[str, Any]]) -> str:
    """How many of the schedules in use are better than the default ones, and how far they were checked.

    A job that measured nothing says where they come from, and one whose time ended too soon which were not measured.
    """
    used = [task for task in tasks if task["in_use"]]
    sources = [task_source(task) for task in used]
    unmeasured = [source for source in sources if source in UNMEASURED]
    if unmeasured and not any(task["trials"] for task in tasks):
        return sources_in_words(sources)
    better = [task for task in used if better_than_default(task)]
    errors = [task["verified"]["error"] for task in better if task["verified"]]
    text = f"{len(better)} better than the default ones"
    if errors:
        each = "each" if len(errors) == len(better) else f"{len(errors)} of them"
        text += f", {each} with the same outputs: error {max(errors):.1e} of the largest value at most"
    return f"{text}; not measured: {sources_in_words(unmeasured)}" if unmeasured else text


def task_source(task: Mapping[str, Any]) -> Source:
    """Where the schedule of a task comes from."""
    if task.get("answer") and task["best_latency"] is None:
        return Source(task["answer"]["source"])
    return Source.DEFAULT if task["best_latency"] is None else Source.MEASURED


def sources_in_words(sources: Iterable[Source]) -> str:
    """How many schedules there are from each source."""
    count = Counter(sources)
    return ", ".join(f"{count[source]} {SOURCES[source]}" for source in Source if count[source])


def _effort(summary: dict[str, Any]) -> str:
    tunable = [task for task in summary["tasks"] if task["tunable"]]
    visited = [task for task in tunable if task["trials"] > 0 or task.get("known_latency") is not None]
    replaced = {task.get("alternative_of") for task in visited}  # their places have the faster program already
    lacking = [task for task in tunable if task not in visited and task.get("workload") not in replaced - {None}]
    tasks = f"only {len(visited)} of {len(tunable)} tasks" if lacking else _count(len(visited), "task")
    text = f"{_count(summary['trials'], 'trial')} on {tasks} in {duration(summary['seconds'])}"
    known = sum(task.get("known_latency") is not None for task in tunable)
    if known:
        text += f"; {known} of them began with what earlier jobs had found"
    waited = summary["waited_seconds"]
    if 2 * waited > summary["seconds"]:
        text += f", {duration(waited)} of it waiting for a device or paused: little of it was tuning"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
