"""What the API says of a job: progress, latency, what it waits for."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db import clock
from db.models import Device, Evaluation, Job
from db.queries import devices, jobs
from db.queries.labels import LabelCounts, labels
from db.queries.sums import TaskSums, sums
from services.coordinator import notes, reference, verified
from tunesmith.answers.jobs import BudgetBody, JobBody, Latency, Progress
from tunesmith.measuring.ratio import PLACEMENTS, Verdict, ratio
from tunesmith.states import JobState, ModelState, WorkState, is_final


def elapsed(job: Job, now: dt.datetime) -> float:
    """Seconds since submission without pauses and waits for a device; they stand still once the job is over."""
    until = job.paused_at or job.finished_at or now
    return max(0.0, (until - job.created_at).total_seconds() - job.paused_seconds)


def describe(session: Session, job_ids: Sequence[str], device_timeout: float) -> list[JobBody]:
    """Jobs in the order of ``job_ids``."""
    now = clock.now(session)
    parts, totals = jobs.parts(session, job_ids), sums(session, job_ids)
    counts, collected = jobs.round_counts(session, job_ids), labels(session, job_ids)
    fleet = _Fleet.of(devices.live(session, device_timeout, now))
    return [
        _body(parts[key], totals.get(key, TaskSums()), counts.get(key, (0, 0)), collected.get(key), fleet, now)
        for key in job_ids
        if key in parts
    ]


@dataclass(frozen=True)
class _Fleet:
    """Device classes that can be measured now, and a live device for each of the others that have one."""

    measurable: Collection[str]
    sick: Mapping[str, Device]

    @classmethod
    def of(cls, live: Sequence[Device]) -> _Fleet:
        """What live devices can do."""
        healthy: set[str] = set()
        sick: dict[str, Device] = {}
        for device in live:
            if devices.is_measurable(device):
                healthy.update(device.device_classes)
            else:
                sick.update(dict.fromkeys(device.device_classes, device))
        return cls(healthy, sick)


def _body(
    parts: jobs.JobParts,
    sums: TaskSums,
    rounds: tuple[int, int],
    collected: LabelCounts | None,
    fleet: _Fleet,
    now: dt.datetime,
) -> JobBody:
    job, model, target = parts.job, parts.model, parts.target
    references = reference.timings(parts.evaluation)
    return JobBody.of(
        job,
        name=job.name or model.name,
        model_id=model.public_id,
        model_name=model.name,
        tags=parts.tags,
        target=job.target_spec,
        target_json=target.json if target else None,
        device_class=target.device_class if target else None,
        budget=BudgetBody(
            trials=job.budget_trials, seconds=job.budget_seconds, stop_when_converged=job.stop_when_converged
        ),
        progress=_progress(job, sums, rounds, collected, now),
        latency=latency(job, sums, parts.evaluation),
        check=verified.check(parts.evaluation),
        reference=reference.of(references),
        references=references,
        reference_missing=reference.why_none(job, model.source, parts.evaluation, references),
        waiting_for=_waiting_for(parts, fleet),
        notes=notes.of(job, model),
    )


def _progress(
    job: Job, sums: TaskSums, rounds: tuple[int, int], collected: LabelCounts | None, now: dt.datetime
) -> Progress:
    seconds = elapsed(job, now)
    return Progress.of(
        sums,
        trials_budget=job.budget_trials,
        seconds=seconds,
        seconds_budget=job.budget_seconds,
        eta_seconds=eta(job, sums.trials, seconds, now, collected),
        labels=collected.total if collected else None,
        labels_wanted=collected.wanted if collected else None,
        tasks_tunable=sums.tunable,
        tasks_measured=sums.measured,
        rounds=rounds[0],
        rounds_in_flight=rounds[1],
    )


def eta(job: Job, trials: int, seconds: float, now: dt.datetime, collected: LabelCounts | None = None) -> float | None:
    """Seconds until the first of the budget's limits, or until everything is collected, at the rate so far; None while
    nobody can tell."""
    if is_final(job.state):
        return 0.0
    if job.state is not JobState.RUNNING or job.paused_at is not None:
        return None
    limits = []
    if job.budget_seconds is not None:
        limits.append(max(0.0, job.budget_seconds - seconds))
    running = 0.0 if job.started_at is None else (now - job.started_at).total_seconds() - job.paused_seconds
    if job.budget_trials is not None and trials and job.started_at is not None:
        limits.append(max(0, job.budget_trials - trials) * max(1e-3, running) / trials)
    if collected is not None and collected.own:
        limits.append((collected.wanted - collected.total) * max(1e-3, running) / collected.own)
    return min(limits) if limits else None


def latency(job: Job, sums: TaskSums, evaluation: Evaluation | None) -> Latency:
    """End-to-end figures when the check is done, else the estimate from the tasks, once each has some latency."""
    found = _latency(sums, evaluation)
    return found.model_copy(update={"source": "simulated"}) if job.simulated else found


def _latency(sums: TaskSums, evaluation: Evaluation | None) -> Latency:
    untuned, best = (None, None) if sums.unknown else (sums.untuned, sums.best)
    measured = _measured(evaluation)
    if measured is not None:
        return measured.model_copy(update={"estimate": best})
    return Latency(
        untuned=untuned,
        current=best,
        speedup=untuned / best if untuned and best else None,
        source="estimate",
        tasks_rough=0 if best is None else sums.rough,
    )


def _measured(evaluation: Evaluation | None) -> Latency | None:
    """End-to-end figures; None before they are there."""
    if evaluation is None or evaluation.state is not WorkState.DONE or not evaluation.tuned_samples:
        return None
    before, after = evaluation.untuned_samples or [], evaluation.tuned_samples
    check = verified.of_model(evaluation)
    same = evaluation.applied == 0
    if same:  # one program, twice
        before = after = [*before, *after]
    found = ratio(before, after, placements=PLACEMENTS) if before else None
    return Latency(
        untuned=statistics.median(before) if before else None,
        current=statistics.median(after),
        speedup=found.value if found else None,
        interval=(found.low, found.high) if found and not same else None,
        verdict=Verdict.NO_DIFFERENCE if same else found.verdict if found else None,
        schedules=evaluation.applied,
        source="measured",
        output_error=check.error if check else None,
        output_tolerance=check.tolerance if check else None,
    )


def _waiting_for(parts: jobs.JobParts, fleet: _Fleet) -> dict[str, str] | None:
    job, target = parts.job, parts.target
    if job.state is JobState.QUEUED and parts.model.state is ModelState.IMPORTING:
        return {"model": parts.model.public_id}
    if job.state in (JobState.RUNNING, JobState.FINISHING) and target and target.device_class not in fleet.measurable:
        sick = fleet.sick.get(target.device_class)
        why = {sick.health: sick.name} if sick is not None else {}
        if sick is not None and sick.reason:
            why["reason"] = sick.reason
        return {"device_class": target.device_class, **why}
    return None
