"""`tunesmith records` and `tunesmith workloads` against a server that answers from a table."""

from __future__ import annotations


def test_records_and_workloads_are_listed(run, server):
    row = {"id": 7, "workload": "123", "family": "conv2d", "target": "t", "device_class": "llvm-x-2", "processor": "A"}
    row |= {"build": "0.27.0", "precision": "bf16", "cache": "warm", "simulated": False, "sketch": None, "job": None}
    row["origin"] = "imported"
    row |= {"decisions": [], "samples": [0.002], "latency": 0.002, "failure": None, "revoked": False}
    server["GET /v1/records"] = {"items": [row | {"created_at": "2026-01-01T00:00:00Z"}], "next_cursor": "7"}
    _, shown, said = run("records", "list", "--family", "conv2d", "--no-simulated", "--since", "2026-01-01")
    assert "2 ms" in shown, said
    asked = next(request for request in server["seen"] if request.url.path == "/v1/records")
    wanted = {"family": "conv2d", "simulated": "false", "since": "2026-01-01T00:00:00", "sort": "-id", "limit": "50"}
    assert dict(asked.url.params) == wanted
    about = {"hash": "123", "name": "fused_conv2d", "family": "conv2d", "flops": 2e9, "records": 3, "failures": 1}
    about |= {"args": [{"name": "", "dtype": "float32", "shape": [1, 8]}], "created_at": "2026-01-01T00:00:00Z"}
    server["GET /v1/workloads"] = {"items": [about], "next_cursor": None}
    assert "fused_conv2d" in run("workloads", "list", "conv")[1]
    group = {"target": "t", "device_class": "llvm-x-2", "precision": "bf16", "records": 3, "failures": 1}
    best = {"target": "t", "device_class": "llvm-x-2", "cache": "warm", "latency": 0.002}
    server["GET /v1/workloads/123"] = about | {"groups": [group], "best": [best]}
    shown = run("workloads", "show", "123")[1]
    assert "llvm-x-2 bf16: 3, 1 failed" in shown
    assert "llvm-x-2: 2 ms (warm)" in shown


def test_records_are_counted_exported_and_imported(run, server, tmp_path):
    counts = {"records": 3, "failed": 1, "simulated": 0, "operators": {"conv2d": 3}, "failures": {"timeout": 1}}
    counts["quarantined"] = {"median": 2}
    server["GET /v1/records/stats"] = counts | {"first": "2026-01-01T00:00:00Z", "last": "2026-01-02T00:00:00Z"}
    shown = run("records", "stats")[1]
    assert "3, 1 failed" in shown
    assert "median 2" in shown
    server["POST /v1/records/export"] = {"stands": "for Parquet"}
    path = tmp_path / "r.parquet"
    status, _, said = run("records", "export", str(path), "--family", "conv2d", "--licence", "CC0-1.0")
    assert status == 0, said
    assert b"Parquet" in path.read_bytes()
    card = path.with_suffix(".md").read_text()
    assert "| Licence | CC0-1.0 |" in card
    assert "| timeout | 1 |" in card
    assert "| median | 2 |" in card
    result = {"rows": 3, "added": 1, "failures": 1, "known": 1, "quarantined": {"number": 1}, "workloads": 1}
    result |= {"examples": {"number": "nan s"}, "sketches": 1, "targets": 1}
    sent = {"id": "ri-1", "name": "r.parquet", "sha256": "0", "size": 1, "state": "queued", "manifest": None}
    sent |= {"result": None, "error": None, "created_at": "2026-01-01T00:00:00Z", "finished_at": None}
    server["POST /v1/records/import"] = sent
    done = sent | {"state": "done", "result": result}
    server["GET /v1/records/imports/ri-1"] = [sent, done]
    shown = run("records", "import", str(path))[1]
    assert "1 records, 1 of them failures; 1 were there" in shown
    assert "1 for number, such as nan s" in shown
    server["GET /v1/records/imports/ri-1"] = done | {"result": result | {"known": 3, "quarantined": {}, "added": 0}}
    assert "nothing is new: all 3 were there already" in run("records", "import", str(path))[1]
    problem = {"code": "invalid_input", "detail": "the file is no dataset"}
    server["GET /v1/records/imports/ri-1"] = sent | {"state": "failed", "error": problem}
    assert run("records", "import", str(path), "--json")[1][0]["code"] == "invalid_input"
