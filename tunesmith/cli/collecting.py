"""One run of ``dataset collect``: its jobs submitted or found again, followed, and summed up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.cli import labels
from tunesmith.cli.output import duration
from tunesmith.cli.progress import POLL, Display
from tunesmith.client import Client, Job, Progress
from tunesmith.client.exchange import RESTART_SECONDS
from tunesmith.dataset.collecting import Collecting, JobKind
from tunesmith.dataset.workloads import MAX_OPERATORS, content_hash
from tunesmith.errors import JobFailed
from tunesmith.names import FLOAT32
from tunesmith.operators import OperatorSpec
from tunesmith.states import OPEN_JOBS, JobState

HOUR = 3600.0


@dataclass(frozen=True)
class CollectPlan:
    """What the user asked for.

    Attributes:
        operators: from a file.
        models: files.
        families, count, precisions: what is drawn; no precision stands for those that the device is made for.
        seconds: when to stop; None for when everything is labelled.
    """

    operators: tuple[OperatorSpec, ...]
    models: tuple[str, ...]
    families: tuple[str, ...]
    count: int
    precisions: tuple[str, ...]
    collecting: Collecting
    sampler: str
    seconds: float | None
    seed: int
    target: str

    def drawn(self, precisions: Sequence[str]) -> list[OperatorSpec]:
        """Operators of the families in each of the precisions."""
        from tunesmith.dataset.families import draw_operators  # NumPy, which other commands do without

        if not self.families:
            return []
        return [spec for each in precisions for spec in draw_operators(self.families, self.count, self.seed, each)]

    def fits(self, job: Job) -> bool:
        """Whether an unfinished job was asked for the same, its programs and its budget aside."""
        return job.kind is JobKind.COLLECT and (
            job.search,
            job.seed,
            job.target,
            job.per_task,
            job.shard,
            job.shards,
        ) == (
            self.sampler,
            self.seed,
            self.target,
            self.collecting.per_task,
            self.collecting.shard,
            self.collecting.shards,
        )


@dataclass(frozen=True)
class Collected:
    """What a run came to.

    Attributes:
        before: the jobs when it began; an unfinished one had records then.
        jobs: the same, over.
        seconds: what it took.
    """

    before: list[Job]
    jobs: list[Job]
    seconds: float

    def new(self, name: str) -> int:
        """What a number of the jobs' progress grew by."""
        before, now = (sum(int(getattr(job.progress, name)) for job in jobs) for jobs in (self.before, self.jobs))
        return now - before


def run(client: Client, plan: CollectPlan, own: bool, display: Display) -> Collected:
    """Follow the plan's jobs until all of them are over.

    An interruption cancels the jobs of an embedded stack; their labels stay, and count for the next run.

    Raises:
        JobFailed: none of the jobs came to an end.
    """
    start = time.monotonic()
    ids = list(_submitted(client, plan, display))
    before = [client.job(job) for job in ids]
    try:
        jobs = _follow(client, ids, display)
    except KeyboardInterrupt:
        for job in ids:
            if own:
                client.cancel(job)
            else:
                display.say(f"the job continues: tunesmith jobs watch {job}")
        raise
    if not any(job.state is JobState.SUCCEEDED for job in jobs):
        raise JobFailed(f"no job of {len(jobs)} succeeded; {_why(jobs)}", job=jobs[0].id)
    return Collected(before, jobs, time.monotonic() - start)


def _submitted(client: Client, plan: CollectPlan, display: Display) -> Iterator[str]:
    """Ids of the jobs: one for each model, and for the operators of each precision."""
    waiting = _unfinished(client, plan)
    for path in plan.models:
        display.phase("importing", Path(path).name)
        model = client.wait_model(client.upload_model(path).id)
        yield _found(client, plan, display, waiting.get(model.sha256)) or _submit(client, plan, model_id=model.id)
    for part in _parts([*plan.operators, *plan.drawn(plan.precisions or _made_for(client))]):
        known = waiting.get(content_hash(part))
        specs = [spec.canonical for spec in part]
        yield _found(client, plan, display, known) or _submit(client, plan, operators=specs)


def _submit(client: Client, plan: CollectPlan, **source: Any) -> str:
    asked = plan.collecting
    return client.submit(
        **source,
        target=plan.target,
        seconds=plan.seconds,
        kind=JobKind.COLLECT.value,
        per_task=asked.per_task,
        shard=asked.shard,
        shards=asked.shards,
        search=plan.sampler,
        seed=plan.seed,
    ).id


def _unfinished(client: Client, plan: CollectPlan) -> dict[str, Job]:
    """Jobs that an earlier run of the same command left, by the content of what they label."""
    found = [job for state in OPEN_JOBS for job in client.jobs(state=state.value, limit=200).items if plan.fits(job)]
    return {client.model(job.model_id).sha256: job for job in found if job.state is not JobState.CANCELLING}


def _found(client: Client, plan: CollectPlan, display: Display, job: Job | None) -> str | None:
    """The id of an unfinished job, which gets the time of this run."""
    if job is None:
        return None
    display.say(f"job {job.id} continues, with {labels.count(job)} labels")
    if plan.seconds is not None:
        client.update(job.id, seconds=job.progress.seconds + plan.seconds)
    if job.state is JobState.PAUSED:
        client.resume(job.id)
    return job.id


def _parts(specs: Sequence[OperatorSpec]) -> Iterator[list[OperatorSpec]]:
    """Lists that one job may have: each of one precision, and not too long."""
    for precision in dict.fromkeys(spec.precision for spec in specs):
        mine = list({spec.canonical: spec for spec in specs if spec.precision == precision}.values())
        yield from (mine[start : start + MAX_OPERATORS] for start in range(0, len(mine), MAX_OPERATORS))


def _made_for(client: Client) -> list[str]:
    """float32, and the narrow precisions that a live device has an instruction for, as its calibration found."""
    from tunesmith.arithmetic import NARROW

    found = [device.calibration.narrow_flops for device in client.devices() if device.alive and device.calibration]
    return [FLOAT32, *(each for each in NARROW if any(each in narrow for narrow in found))]


def _follow(client: Client, ids: Sequence[str], display: Display) -> list[Job]:
    while True:
        jobs = [client.job(job, RESTART_SECONDS) for job in ids]
        display.job(together(jobs))
        if all(job.done for job in jobs):
            return jobs
        time.sleep(POLL)


def together(jobs: Sequence[Job]) -> Job:
    """Several jobs as one: the first that is not over, with the progress of all."""

    def total(name: str) -> Any:
        return sum(getattr(job.progress, name) or 0 for job in jobs)

    head = next((job for job in jobs if not job.done), jobs[-1])
    left = [job.progress.eta_seconds for job in jobs if not job.done]
    sums = {name: total(name) for name in ("trials", "failures", "labels", "labels_wanted", "tasks", "tasks_tunable")}
    latest = {
        "seconds": max(job.progress.seconds for job in jobs),
        "eta_seconds": None if None in left else max((each for each in left if each is not None), default=0.0),
    }
    return head.model_copy(
        update={"progress": Progress.model_validate({**head.progress.model_dump(), **sums, **latest})}
    )


def summarise(client: Client, found: Collected) -> dict[str, Any]:
    """What the run came to, as JSON; its records are those that it brought itself."""
    jobs, progress, records = found.jobs, together(found.jobs).progress, found.new("trials")
    device = sum(
        (each["metrics"] or {}).get("run_seconds", 0.0)
        for old, job in zip(found.before, jobs, strict=True)
        for each in client.rounds(job.id)
        if each["number"] > old.progress.rounds - old.progress.rounds_in_flight
    )
    return {
        "jobs": [job.id for job in jobs],
        "workloads": progress.tasks_tunable,
        "records": records,
        "valid": records - found.new("failures"),
        "failed": found.new("failures"),
        "labels": progress.labels,
        "labels_wanted": progress.labels_wanted,
        "seconds": round(found.seconds, 3),
        "device_hours": round(device / HOUR, 6),
        "records_per_hour": round(records / found.seconds * HOUR, 1),
        "stopped": sorted({job.stop_reason or job.state.value for job in jobs}),
        "problems": [job.error for job in jobs if job.error],
        "simulated": any(job.simulated for job in jobs),
    }


def report(summary: dict[str, Any]) -> str:
    """The summary for people."""
    lines = [
        ("workloads", str(summary["workloads"])),
        ("labels", f"{summary['labels']} of {summary['labels_wanted']}, earlier runs included"),
        ("records", f"{summary['records']}: {summary['valid']} valid, {summary['failed']} failed"),
        ("time", f"{duration(summary['seconds'])}, {summary['device_hours']:.3g} hours of a device"),
        ("rate", f"{summary['records_per_hour']:,.0f} records an hour"),
        ("stopped", ", ".join(summary["stopped"])),
    ]
    lines += [("problem", f"[{each.get('code')}] {each.get('detail')}") for each in summary["problems"]]
    if summary["simulated"]:
        lines.append(("simulated", "a simulated device invented the latencies"))
    return "\n".join(f"{name:12}{value}" for name, value in lines)


def _why(jobs: Sequence[Job]) -> str:
    said = (f"{job.id} {job.state.value}: {(job.error or {}).get('detail', 'no reason given')}" for job in jobs)
    return "; ".join(said)
