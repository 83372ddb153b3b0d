"""What measure workers say of their devices' health reaches the plan, the API, the metrics and the events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_driver import GEMM, Api, problem
from fake_fleet import TARGET, WORKER, Folder

from db.models import Device, Round
from db.queries import devices, event_log
from db.transactions import device_reports
from tunesmith.messages import Calibration, DeviceReport
from tunesmith.types import DeviceHealth
from tunesmith.worker_logs import LogLine

pytestmark = pytest.mark.parallel

FIGURES: dict[str, Any] = {
    "peak_flops": 5e11,
    "narrow_flops": {"bf16": 9.9e11},
    "bandwidth": 4e10,
    "noise_floor": 0.02,
    "reference_seconds": 1e-3,
    "latest_seconds": 1.7e-3,
    "measured_at": "2026-01-01T00:00:00+00:00",
    "drift": 1.7,
    "cache_sizes": [49152, 1048576],
}
CALIBRATION = Calibration.model_validate(FIGURES)
SICK, WELL = DeviceHealth.QUARANTINED, DeviceHealth.OK


@pytest.fixture
def api(tmp_path: Path, database_url: str) -> Iterator[Api]:
    made = Api(Folder(tmp_path, database_url))
    yield made
    made.close()


def events_of_devices(api: Api) -> list[dict[str, Any]]:
    with api.context.reading() as session:
        return [dict(event.data) for event in event_log.page(session) if event.kind == "device_health"]


def test_a_calibrated_device_is_shown_with_its_figures(api: Api) -> None:
    api.fleet.register_device(health=DeviceHealth.DRIFTING, calibration=CALIBRATION)
    (item,) = api.client.get("/v1/devices").json()["items"]
    assert (item["health"], item["calibration"]) == ("drifting", FIGURES)
    api.fleet.register_device()  # a new worker of the device, which has not used it yet
    (item,) = api.client.get("/v1/devices").json()["items"]
    assert (item["health"], item["calibration"]) == ("ok", FIGURES)


def test_a_device_that_was_never_used_has_no_figures(api: Api) -> None:
    api.fleet.register_device()
    (item,) = api.client.get("/v1/devices").json()["items"]
    assert (item["health"], item["calibration"]) == ("ok", None)
    assert "tunesmith_device_drift{" not in api.client.get("/metrics").text


def test_metrics_tell_of_every_live_device(api: Api) -> None:
    api.fleet.register_device("a", calibration=CALIBRATION, health=SICK)
    api.fleet.register_device("b")
    text = api.client.get("/metrics").text
    for line in (
        'tunesmith_devices{state="alive"} 2.0',
        'tunesmith_devices{state="quarantined"} 1.0',
        'tunesmith_device_drift{device="a"} 1.7',
        'tunesmith_device_noise_floor{device="a"} 0.02',
        'tunesmith_device_peak_flops{device="a"} 5e+11',
        'tunesmith_device_bandwidth_bytes{device="a"} 4e+10',
    ):
        assert line in text


def test_changes_of_health_are_events(api: Api) -> None:
    api.fleet.register_device()
    api.fleet.register_device(calibration=CALIBRATION, health=SICK)
    api.fleet.register_device(calibration=CALIBRATION, health=SICK)
    api.fleet.register_device(calibration=CALIBRATION.model_copy(update={"drift": 1.0}), health=WELL)
    assert events_of_devices(api) == [
        {"name": "host-cpu", "from": "ok", "to": "quarantined", "drift": 1.7},
        {"name": "host-cpu", "from": "quarantined", "to": "ok", "drift": 1.0},
    ]


def test_operators_read_what_workers_log(api: Api) -> None:
    api.fleet.register_device("desk")
    line = LogLine(at=1.0, level="info", logger="of.it", process=7, text="Begun")
    worse = line.model_copy(update={"at": 2.0, "level": "error", "text": "<b>broke</b>"})
    api.broker.logs = {"device.desk": [worse, line], "core.search@h": [line]}

    def log(worker: str, **wanted: str | int) -> list[str]:
        page = api.client.get("/v1/workers/log", params={"worker": worker, **wanted}).json()
        return [each["text"] for each in page["items"]]

    assert log(WORKER) == ["<b>broke</b>", "Begun"]
    assert log(WORKER, level="warning") == ["<b>broke</b>"]
    assert log(WORKER, q="begUN") == log("search-3@h") == ["Begun"]
    assert log(WORKER, q="OF.IT", limit=1) == ["<b>broke</b>"]
    assert log("search-4@another") == []
    problem(api.client.get("/v1/workers/log", params={"worker": "desk"}), 404, "not_found")
    problem(api.client.get("/v1/workers/log", params={"worker": WORKER, "level": "loud"}), 422, "invalid_input")
    api.broker.alive = False
    problem(api.client.get("/v1/workers/log", params={"worker": WORKER}), 503, "unavailable")


def test_a_job_waits_while_its_device_is_in_quarantine(api: Api) -> None:
    api.fleet.register_device(calibration=CALIBRATION, health=SICK)
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]

    def job() -> dict[str, Any]:
        return dict(api.client.get(f"/v1/jobs/{job_id}").json())

    api.work(lambda: job()["state"] == "running")
    for _ in range(5):
        api.loop.step()
    assert api.count(Round) == 1  # the first is proposed at once, as it is without any device
    assert job()["waiting_for"] == {"device_class": TARGET.device_class, "quarantined": "host-cpu"}
    api.fleet.register_device(calibration=CALIBRATION, health=DeviceHealth.DRIFTING)
    api.loop.step()
    assert job()["waiting_for"] is None
    assert api.count(Round) > 1


def test_a_healthy_device_of_the_class_is_enough(api: Api) -> None:
    api.fleet.register_device("sick", calibration=CALIBRATION, health=SICK)
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    api.fleet.register_device("well")
    api.work(lambda: api.client.get(f"/v1/jobs/{job_id}").json()["state"] == "succeeded")
    with api.context.reading() as session:
        assert [row.name for row in devices.measurable(session, 15.0)] == ["well"]
        assert [row.name for row in devices.live(session, 15.0)] == ["sick", "well"]


@pytest.mark.parametrize("health", [DeviceHealth.RESTING, DeviceHealth.INCOMPATIBLE])
def test_a_job_says_why_its_only_device_gets_no_work(api: Api, health: DeviceHealth) -> None:
    api.fleet.register_device(health=health, reason="it failed 3 times in a row")
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    api.work(lambda: api.client.get(f"/v1/jobs/{job_id}").json()["state"] == "running")
    waits = api.client.get(f"/v1/jobs/{job_id}").json()["waiting_for"]
    assert waits == {
        "device_class": TARGET.device_class,
        health.value: "host-cpu",
        "reason": "it failed 3 times in a row",
    }
    (item,) = api.client.get("/v1/devices").json()["items"]
    assert (item["health"], item["reason"]) == (health.value, "it failed 3 times in a row")
    api.fleet.register_device()
    assert api.client.get(f"/v1/jobs/{job_id}").json()["waiting_for"] is None


def test_the_list_of_queues_stays_short_whatever_devices_claim(api: Api) -> None:
    with api.context.sessions.begin() as session:
        device_reports.store(
            session,
            DeviceReport(worker="w", name="d", host="h", device_classes=["llvm-x-1"], target={"kind": "llvm"}, cores=1),
            15.0,
        )
        session.query(Device).one().device_classes = [f"llvm-x-{number}" for number in range(100_000)]
    names = [item["name"] for item in api.client.get("/v1/queues").json()["items"]]
    assert len(names) < 100
    assert "measure.llvm-x-0" in names
