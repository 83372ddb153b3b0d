"""Items that somebody may put into a queue, a dozen kinds and more, none of which is a message of ours."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

OTHER = ("tunesmith.ingest", "tunesmith.measure")
"""Tasks, of which one at least belongs to another queue than a given one."""


def message(task: Any, args: Any, **changes: Any) -> dict[str, Any]:
    """What kombu would put into a list for a task, with ``changes``."""
    body = base64.b64encode(json.dumps([args, {}, {}]).encode()).decode()
    return {
        "body": body,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": task, "id": "garbage", "argsrepr": "", "kwargsrepr": "", "retries": 0},
        "properties": {
            "correlation_id": "garbage",
            "reply_to": "garbage",
            "delivery_mode": 2,
            "priority": 0,
            "delivery_info": {"exchange": "", "routing_key": "ingest"},
            "body_encoding": "base64",
            "delivery_tag": "garbage",
        },
        **changes,
    }


def items(task: str) -> dict[str, bytes]:
    """Raw list items by kind; ``task`` is one that the queue's worker knows."""
    good = message(task, [{}])
    headers, properties = good["headers"], good["properties"]
    wrong: dict[str, Any] = {
        "a list": [1, 2, 3],
        "a number": 7,
        "nothing": None,
        "a text": "hello",
        "an empty object": {},
        "no properties": {key: value for key, value in good.items() if key != "properties"},
        "properties that are a list": {**good, "properties": [1]},
        "no delivery tag": {**good, "properties": {k: v for k, v in properties.items() if k != "delivery_tag"}},
        "no delivery information": {**good, "properties": {"delivery_tag": "x"}},
        "headers that are a list": {**good, "headers": ["task"]},
        "no headers": {**good, "headers": None},
        "a task that is an object": {**good, "headers": {**headers, "task": {"a": 1}}},
        "an unknown task": message("os.system", ["id"]),
        "an unknown encoding": {**good, "properties": {**properties, "body_encoding": "rot13"}},
        "no base64": {**good, "body": "%%%"},
        "base64 of no JSON": {**good, "body": base64.b64encode(b"\xff\xfe{").decode()},
        "a body that is a number": {**good, "body": 3},
        "a pickle": {**good, "content-type": "application/x-python-serialize"},
        "an unknown content type": {**good, "content-type": 7},
        "a body of one part": {**good, "body": base64.b64encode(b"[1]").decode()},
        "no arguments": message(task, []),
        "too many arguments": message(task, [{}, {}, {}]),
        "an argument that is a text": message(task, ["x"]),
        "an argument of another version": message(task, [{"version": 99}]),
        "a time that is none": {**good, "headers": {**headers, "eta": "tomorrow"}},
        "a limit that is none": {**good, "headers": {**headers, "timelimit": "soon"}},
        "retries without end": {**good, "headers": {**headers, "retries": "many"}},
        "a typed value": {"__type__": "datetime", "__value__": 7},
        "a compressed body": {
            **good,
            "headers": {**headers, "compression": "application/x-gzip"},
            "body": base64.b64encode(zlib.compress(bytes(1 << 26))).decode(),
        },
        "a task of another queue": message(OTHER[task != OTHER[0]], [{}]),
        "a long body": {**good, "body": "A" * 3_000_000},
    }
    found = {kind: json.dumps(value).encode() for kind, value in wrong.items()}
    return {
        **found,
        "no JSON": b"no JSON",
        "empty": b"",
        "no UTF-8": b"\xff\xfe\x00",
        "half of an object": b'{"body": "',
        "nested without end": b"[" * 100_000,
        "not a number": b"NaN",
    }
