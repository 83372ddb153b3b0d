"""What the command line says of collecting jobs."""

from __future__ import annotations

from tunesmith.client import Job


def count(job: Job) -> str:
    """Labels by now, and as many as there will be."""
    return f"{job.progress.labels or 0}/{job.progress.labels_wanted or 0}"


def rate(job: Job) -> float:
    """Records a second, failures included; 0 before there are any."""
    return job.progress.trials / job.progress.seconds if job.progress.seconds else 0.0


def valid_share(job: Job) -> float | None:
    """Part of the records that have a latency; None before there are any."""
    trials = job.progress.trials
    return (trials - job.progress.failures) / trials if trials else None


def pace(job: Job) -> str:
    """Records a second and the valid share; empty before there are any."""
    share = valid_share(job)
    return "" if share is None else f"{rate(job):.2f} a second, {share:.0%} valid"
