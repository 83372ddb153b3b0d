"""The running service: jobs side by side, refusals, waiting for a device."""

from __future__ import annotations

import json

import httpx2
import pytest
from stack_probe import wait_for

from tunesmith.cli.main import run
from tunesmith.client import EmbeddedStack
from tunesmith.errors import InvalidBudget, NotAModel, StackFailed, UnknownSearcher, UnknownTarget
from tunesmith.states import JobState

pytestmark = pytest.mark.stack
GEMM = "gemm:128x128x64:float32"
PLAIN = "gemm:64x128x96:float32"
WAIT = 180.0


def test_ready_with_a_device_and_a_dashboard(stack, client):
    assert client.ready()
    assert [device.alive for device in client.devices()] == [True]
    assert httpx2.get(stack.url + "/", follow_redirects=True).status_code == 200
    assert "openapi" in httpx2.get(stack.url + "/openapi.json").json()


def test_a_second_stack_on_the_same_data_is_refused(stack, stack_env):
    with pytest.raises(StackFailed, match="in use by process"):
        EmbeddedStack(stack.data_dir, env=stack_env).start()


def test_two_jobs_share_the_machine_and_cancelling_one_leaves_the_other(client):
    kept = client.submit(operator=GEMM, target="cpu", trials=48, seed=1)
    other = client.submit(operator="gemm:96x96x96:float32", target="cpu", trials=5000, seed=2)
    wait_for(lambda: min(client.job(job.id).progress.trials for job in (kept, other)) > 0, "both to measure", WAIT)
    client.cancel(other.id)
    assert client.wait(other.id, timeout=WAIT).state is JobState.CANCELLED
    done = client.wait(kept.id, timeout=WAIT)
    assert done.state is JobState.SUCCEEDED, done.error
    assert done.progress.trials == 48
    kinds = [event.kind for event in client.follow(kept.id)]
    assert kinds
    (line,) = client.best(kept.id)
    assert line["provenance"]["job"] == kept.id


def test_a_second_job_begins_where_the_first_one_ended(client):
    first, second = (
        client.wait(client.submit(operator=PLAIN, target="cpu", trials=16, seed=seed).id, timeout=WAIT)
        for seed in (1, 2)
    )  # fmt: skip
    assert (first.state, second.state) == (JobState.SUCCEEDED, JobState.SUCCEEDED)
    (before,), (after,) = (client.tasks(job.id) for job in (first, second))
    begun = client.curve(second.id)["points"][0]
    assert before.known_latency is None
    assert after.known_latency == before.best_latency
    assert begun["latency"] == pytest.approx(after.known_latency)  # the curve is a sum of differences
    assert begun["seconds"] == begun["trials"] == 0
    assert after.best_latency <= after.known_latency
    assert (before.trials, after.trials) == (16, 16)


def test_the_cli_talks_to_a_running_server(stack, capsys, tmp_path):
    arguments = ["tune", GEMM, "--trials", "16", "--server", stack.url, "--out", str(tmp_path), "--json"]
    assert run(arguments) == 0
    summary = json.loads(capsys.readouterr().out)
    assert run(["jobs", "show", summary["job"], "--server", stack.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "succeeded"
    assert run(["best", summary["job"], "--server", stack.url]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "tunesmith.schedule/1"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"target": "abacus"}, UnknownTarget),
        ({"search": "magic"}, UnknownSearcher),
        ({"trials": 0}, InvalidBudget),
        ({"trials": -3}, InvalidBudget),
        ({"trials": 10**9}, InvalidBudget),
        ({"seconds": 0.0}, InvalidBudget),
    ],
)
def test_a_bad_job_is_refused_and_nothing_is_created(client, changes, error):
    before = client.jobs().model_dump()
    with pytest.raises(error):
        client.submit(**{"operator": GEMM, "target": "cpu", "trials": 8} | changes)
    assert client.jobs().model_dump() == before


def test_a_bad_model_is_rejected_with_its_reason(client, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"nothing that anybody could import")
    with pytest.raises(NotAModel):
        client.wait_model(client.upload_model(path).id)
