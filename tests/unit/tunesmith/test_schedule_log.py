from __future__ import annotations

import base64
import json

import pytest

from tunesmith.errors import InvalidInput
from tunesmith.metaschedule import PREPARATION_FILE, write_database
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.schedule_log import SCHEMA, read_log

ENTRY = {
    "schema": SCHEMA,
    "task": "matmul",
    "workload": {"hash": "1", "module": "{}", "metaschedule": ["77", "text"], "args": [["float32", [8, 8]]]},
    "target": {"kind": "llvm", "num-cores": 2},
    "trace": [[], []],
    "latency": {"median": 2e-3, "samples": [1e-3, 2e-3, 3e-3]},
}
UNTUNED = ENTRY | {"trace": None, "latency": None}
BLOCKED = Preparation(blocked=True)


def prepared(entry, preparation):
    return json.dumps(entry | {"provenance": {"preparation": preparation}})


def test_entries_without_a_trace_keep_the_default_schedule(tmp_path):
    path = tmp_path / "best.jsonl"
    path.write_text(f"{json.dumps(ENTRY)}\n\n{json.dumps(UNTUNED)}\n")
    log = read_log(path)
    (record,) = log.records
    assert log.kept == {"1"}
    assert record.workload == ("77", "text")
    assert record.run_seconds == (1e-3, 2e-3, 3e-3)
    assert record.args[0].shape == (8, 8)
    write_database(tmp_path / "db", [record])
    assert read_log(tmp_path / "db").records == [record]


def test_how_the_model_was_prepared_is_read_even_where_nothing_was_tuned(tmp_path):
    path = tmp_path / "best.jsonl"
    for entries in ([ENTRY, UNTUNED], [UNTUNED]):
        path.write_text("\n".join(prepared(entry, BLOCKED.key) for entry in entries))
        assert read_log(path).preparation == BLOCKED
    write_database(tmp_path, read_log(path).records)
    (tmp_path / PREPARATION_FILE).write_text(f"{BLOCKED.key}\n")
    assert read_log(tmp_path).preparation == BLOCKED


def test_what_says_nothing_was_prepared_plainly(tmp_path):
    path = tmp_path / "best.jsonl"
    for text in (json.dumps(ENTRY), json.dumps(ENTRY | {"provenance": {"job": "j1"}})):
        path.write_text(text)
        assert read_log(path).preparation == PLAIN
    write_database(tmp_path, read_log(path).records)
    assert read_log(tmp_path).preparation == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        json.dumps({"schema": SCHEMA}),
        '{"schema": "other/1"}',
        json.dumps(ENTRY | {"workload": []}),
        json.dumps(ENTRY | {"latency": None}),
        json.dumps(ENTRY) + "\n" + json.dumps(ENTRY | {"target": {"kind": "llvm", "num-cores": 4}}),
        json.dumps(ENTRY) + "\n" + prepared(ENTRY, BLOCKED.key),
        prepared(ENTRY, "tunesmith.prepare/0"),
        prepared(ENTRY, ["list"]),
        json.dumps(ENTRY | {"provenance": None}),
    ],
)
def test_anything_else_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "best.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"best\.jsonl"):
        read_log(path)


def test_a_folder_of_an_unknown_preparation_is_refused(tmp_path):
    write_database(tmp_path, [])
    (tmp_path / PREPARATION_FILE).write_text("tunesmith.prepare/0\n")
    with pytest.raises(InvalidInput, match=r"'tunesmith\.prepare/0' is not one of this version's"):
        read_log(tmp_path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"none\.jsonl"):
        read_log(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match=r"database_workload\.json"):
        read_log(tmp_path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"\x7fELF\x02\xff\xfe", "it is not text"),
        (b"latency: 3 ms", "line 1 is not JSON"),
        (json.dumps(ENTRY).encode() + b"\n{}\n", "line 2 is not an entry"),
    ],
)
def test_a_log_that_is_none_is_named_as_such(tmp_path, content, why):
    path = tmp_path / "best.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"is no log of schedules: {why}") as caught:
        read_log(path)
    assert caught.value.field == "log"


def test_a_module_is_in_a_line_once_and_in_the_database_as_tvm_writes_it(tmp_path):
    path = tmp_path / "best.jsonl"
    module = '{"root_index":1,"nodes":[{"type":"None"},{"type":"ffi.String","data":"µ"}]}'
    workload = {"hash": "77", "module": module, "args": ENTRY["workload"]["args"]}
    path.write_text(json.dumps(ENTRY | {"workload": workload}))
    ((key, text),) = [record.workload for record in read_log(path).records]
    raw = base64.b64decode(text)
    assert key == "77"
    assert int.from_bytes(raw[:8], "little") == len(raw) - 8
    assert raw[8:].decode() == module
