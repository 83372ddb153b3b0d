"""Proposing candidates to a running service."""

from __future__ import annotations

from typing import Any

from tunesmith.client import Client
from tunesmith.states import JobState


def check_proposals(client: Client, operator: str, wait: float, **options: Any) -> None:
    """Three candidates of a product whose first extent is 112 are measured, with a latency and a curve of their own.

    Args:
        wait: seconds for the job, and for its proposals.
        options: options of the job.
    """
    job = client.submit(operator=operator, target="cpu", trials=24, proposal_share=0.5, **options)
    next(event for event in client.follow(job.id) if event.kind == "job_running")
    client.pause(job.id)
    (task,) = client.tasks(job.id)
    sketch = next(each for each in client.space(job.id, task.id).sketches if each.knobs[0].parts == 4)
    first, *others = sketch.knobs
    whole = {knob.name: [knob.extent, *[1] * ((knob.parts or 1) - 1)] if knob.extent else 0 for knob in others}
    tiles = [[1, 7, 4, 4], [7, 1, 2, 8], [7, 2, 8, 1]]
    given = [{"sketch": sketch.sketch, "knobs": {**whole, first.name: tile}} for tile in tiles]
    found = client.propose(job.id, task.id, given, source="script", author="a test")
    assert [each.state.value for each in found] == ["waiting"] * 3, [each.reason for each in found]
    client.resume(job.id)
    done = client.wait(job.id, timeout=wait)
    assert done.state is JobState.SUCCEEDED, done.error
    found = client.wait_proposals(job.id, task.id, [each.id for each in found], timeout=wait)
    failed = [(trial["failure"], trial["message"]) for trial in client.trials(job.id) if trial["failure"]]
    assert all(each.latency for each in found), [(each.state.value, each.failure) for each in found] + failed
    curves = {each.source: each for each in client.task_curve(job.id, task.id).sources}
    assert (curves["script"].trials, curves["search"].trials) == (3, 21)
    assert curves["script"].best == min(each.latency or 0.0 for each in found)
