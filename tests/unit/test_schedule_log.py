from __future__ import annotations

import json

import pytest

from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import write_database
from tunesmith.schedule_log import SCHEMA, read_log

ENTRY = {
    "schema": SCHEMA,
    "task": "matmul",
    "workload": {"hash": "1", "module": "{}", "metaschedule": ["77", "text"], "args": [["float32", [8, 8]]]},
    "target": {"kind": "llvm", "num-cores": 2},
    "trace": [[], []],
    "latency": {"median": 2e-3, "samples": [1e-3, 2e-3, 3e-3]},
}


def test_entries_without_a_trace_are_left_out(tmp_path):
    path = tmp_path / "best.jsonl"
    untuned = ENTRY | {"trace": None, "latency": None}
    path.write_text(f"{json.dumps(ENTRY)}\n\n{json.dumps(untuned)}\n")
    (record,) = read_log(path)
    assert record.workload == ("77", "text")
    assert record.run_seconds == (1e-3, 2e-3, 3e-3)
    assert record.args[0].shape == (8, 8)
    write_database(tmp_path / "db", [record])
    assert read_log(tmp_path / "db") == [record]


@pytest.mark.parametrize("text", [
    "no json", "[]", "{}", json.dumps({"schema": SCHEMA}), '{"schema": "other/1"}',
    json.dumps(ENTRY | {"workload": []}), json.dumps(ENTRY | {"latency": None}),
    json.dumps(ENTRY) + "\n" + json.dumps(ENTRY | {"target": {"kind": "llvm", "num-cores": 4}}),
])
def test_anything_else_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "best.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"best\.jsonl"):
        read_log(path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"none\.jsonl"):
        read_log(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match=r"database_workload\.json"):
        read_log(tmp_path)
