"""What a server says is known of a workload."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
from answers import whole

from tunesmith.answers.fleet import WorkloadBest
from tunesmith.answers.records import RecordBody
from tunesmith.client import Client
from tunesmith.errors import NotFound
from tunesmith.metaschedule import decoded, encoded
from tunesmith.schedule_log import SCHEMA
from tunesmith.sdk.known import OfLog, OfServer
from tunesmith.unmeasured import Known

TARGET = {"kind": "llvm", "mcpu": "znver5", "num-cores": 2}


def test_a_server_is_asked_once_and_a_relatives_schedule_is_not_taken_for_ones_own() -> None:
    asked: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        workload, *best = request.url.path.removeprefix("/v1/workloads/").split("/")
        source = {"tuned": "measured", "near": "rescaled"}.get(workload)
        if best and source:
            assert len(request.url.params["target"]) == 64
            body = {"workload": workload, "source": source, "latency": 2e-3, "trace": [[], []], "program": "p"}
            return httpx2.Response(200, json=whole(WorkloadBest, body))
        if request.url.path == "/v1/records":
            assert len(request.url.params["target"]) == 64
            items = [whole(RecordBody, {"latency": 4e-3})] if request.url.params["workload"] == "plain" else []
            return httpx2.Response(200, json={"items": items, "next_cursor": None})
        return httpx2.Response(404, json=NotFound("no schedule").problem())

    known = OfServer("server", lambda: Client("http://server", transport=httpx2.MockTransport(handler)), TARGET)
    assert known.find("tuned") == Known([[], []], 2e-3, "p")
    assert known.find("plain") == Known(None, 4e-3)
    assert [known.find(each) for each in ("near", "other", "near")] == [None] * 3
    assert len(asked) == 7


def test_a_saved_result_says_which_workloads_keep_their_default_schedules(tmp_path: Path) -> None:
    entry = {
        "schema": SCHEMA,
        "workload": {"hash": "1", "module": "{}", "args": [["float32", [8, 8]]]},
        "target": TARGET,
        "trace": [[], []],
        "latency": {"median": 2e-3, "samples": [1e-3, 3e-3]},
    }
    plain = entry | {"workload": entry["workload"] | {"hash": "2"}, "trace": None}  # type: ignore[operator]
    (tmp_path / "best.jsonl").write_text(f"{json.dumps(entry)}\n{json.dumps(plain)}\n")
    known = OfLog(tmp_path)
    known.keep(["1", "3"])
    tuned = Known([[], []], 2e-3, encoded("{}"))
    assert decoded(encoded("{}")) == "{}"
    assert [known.find(each) for each in "1234"] == [tuned, Known(None), Known(None), None]
    assert known.target is not None
    assert known.target.to_json() == TARGET
