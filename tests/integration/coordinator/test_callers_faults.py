"""Whatever a caller sends, the answer says what is wrong with it: a problem object, and never a 5xx."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_driver import GEMM, Api, problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db.models import Job, Model

pytestmark = pytest.mark.parallel
FUZZ = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
JSON = {"content-type": "application/json"}
DEEP = 100_000


def deep(depth: int, around: str = "[]") -> str:
    return around[0] * depth + around[1] * depth


def fine(response: Any) -> None:
    """Taken, or refused with a problem object."""
    if response.status_code >= 400:
        assert response.status_code < 500, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == response.status_code


BODIES = [
    '{"name": "\\ud800"}',
    '{"target": "\\udfff"}',
    '{"operator": "gemm:\\ud800"}',
    '{"\\ud800": 1}',
    '{"name": "a\\u0000b"}',
    '{"target": {"kind": "a\\u0000b"}}',
    '{"seed": NaN}',
    '{"seed": Infinity}',
    '{"budget": {"seconds": 1e400}}',
    '{"budget": {"seconds": -1e400}}',
    '{"seed": 1' + "0" * 5000 + "}",
    '{"budget": {"trials": 1' + "0" * 400 + "}}",
    f'{{"target": {deep(DEEP)}}}',
    deep(DEEP),
    deep(40),
    '{"a":' * 5000 + "1" + "}" * 5000,
    "{",
    "nul",
    '"text"',
    "7",
    "[1]",
    '{"target": null}',
    "",
]


def test_json_that_cannot_be_kept_is_refused(api: Api) -> None:
    for method, path in (("POST", "/v1/jobs"), ("PATCH", "/v1/jobs/j-1"), ("POST", "/v1/keys")):
        for body in BODIES:
            response = api.client.request(method, path, content=body.encode(), headers=JSON)
            assert response.status_code in (400, 422), (body[:80], response.text)
            fine(response)
    for content in (b"\xff\xfe\x00", b'{"name": "\xed\xa0\x80"}', b'{"a": "\xff"}', b"\x00"):
        problem(api.client.post("/v1/jobs", content=content, headers=JSON), 422, "invalid_input")
    assert api.count(Job) == 0


TARGETS: list[Any] = [
    {"kind": {}},
    {"kind": []},
    {"kind": None},
    {"kind": 1.5},
    {"tag": {}},
    {"tag": ["a"]},
    {"tag": 3},
    {},
    {"kind": "llvm", "mcpu": {}, "num-cores": 1},
    {"kind": "llvm", "mcpu": "x", "num-cores": {}},
    {"kind": "llvm", "mcpu": "x", "num-cores": True},
    {"kind": "llvm", "mcpu": "x", "num-cores": 1e9},
    {"kind": "llvm", "mcpu": "x", "num-cores": 1, "host": {"kind": {}}},
    {
        "kind": "llvm",
        "mcpu": "x",
        "num-cores": 1,
        "host": {"kind": "llvm", "host": {"kind": "llvm", "host": {"kind": []}}},
    },
    {"kind": "llvm", "mcpu": "x", "num-cores": 1, "feature.x": {"a": [{}]}},
    {"kind": "llvm", "keys": [{}]},
    {"kind": "llvm", "mcpu": "x" * 150, "num-cores": 1},
    {"kind": "llvm", "mcpu": "x" * 900, "num-cores": 1},
    {"kind": "cuda", "arch": ["sm_90"]},
    ["a"],
    "{",
    '{"kind": {}}',
    '{"kind": "\\ud800"}',
    '{"kind": NaN}',
    '{"a": ' + deep(DEEP) + "}",
    "{" * DEEP,
    "x" * 100_000,
    "cpu:" + "9" * 5000,
    "cpu:\u0661",
    "",
    5,
    None,
    True,
]


def test_odd_targets_are_refused(api: Api) -> None:
    for target in TARGETS:
        response = api.client.post("/v1/jobs", json={**GEMM, "target": target})
        assert response.status_code == 422, (repr(target)[:80], response.text)
        fine(response)
    assert api.count(Job) == 0


TEXT = st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OPTIONS = st.sampled_from(["kind", "tag", "mcpu", "num-cores", "arch", "host", "keys", "mattr", "feature.x", "libs"])
KINDS = st.sampled_from(["llvm", "cuda", "c", "composite", "vulkan", "nvidia/nvidia-h100"])


@FUZZ
@given(st.dictionaries(OPTIONS, VALUES | KINDS, max_size=6), st.booleans())
def test_no_target_is_an_error_of_ours(api: Api, target: dict[str, Any], as_text: bool) -> None:
    given_as = json.dumps(target) if as_text else target
    fine(api.client.post("/v1/jobs", content=json.dumps({**GEMM, "target": given_as}), headers=JSON))


@FUZZ
@given(
    st.dictionaries(
        st.sampled_from(
            ["model_id", "operator", "target", "budget", "search", "priority", "tags", "comment", "name", "verify", "x"]
        ),
        VALUES,
        max_size=5,
    )
)
def test_no_body_is_an_error_of_ours(api: Api, change: dict[str, Any]) -> None:
    for body in ({**GEMM, **change}, change):
        fine(api.client.post("/v1/jobs", content=json.dumps(body), headers=JSON))
        fine(api.client.patch("/v1/jobs/j-1", content=json.dumps(body), headers=JSON))


def form(boundary: str, *parts: str) -> bytes:
    return "".join([*(f"--{boundary}\r\n{part}\r\n" for part in parts), f"--{boundary}--\r\n"]).encode("latin-1")


FILE = 'Content-Disposition: form-data; name="file"; filename="a.onnx"\r\n\r\ndata'
FORMS: list[tuple[str, bytes]] = [
    ("x" * 300, form("x" * 300, FILE)),
    ("", form("", FILE)),
    ("b", b""),
    ("b", b"--b"),
    ("b", b"nonsense"),
    ("b", form("c", FILE)),
    ("b", form("b", FILE)[:-6]),
    ("b", form("b", FILE, FILE)),
    ("b", form("b")),
    ("b", form("b", "no headers")),
    ("b", form("b", "Content-Disposition: form-data\r\n\r\nx", FILE)),
    ("b", form("b", 'Content-Disposition: form-data; name="name"\r\n\r\na\0b', FILE)),
    ("b", form("b", 'Content-Disposition: form-data; name="name"\r\n\r\n\xff', FILE)),
    ("b", form("b", 'Content-Disposition: form-data; name="\xff"\r\n\r\nx', FILE)),
    ("b", form("b", 'Content-Disposition: form-data; name="file"; filename="a\0"\r\n\r\nx')),
    ("b", form("b", f'Content-Disposition: form-data; name="{"n" * 100_000}"\r\n\r\nx', FILE)),
    ("b", form("b", *[f"X-{i}: {'v' * 1000}\r\n" for i in range(200)])),
    ("b", form("b", 'Content-Disposition: form-data; name="other"\r\n\r\nx', FILE)),
    ("\udc80", b"--\x80--"),
]


def test_broken_forms_are_refused_and_leave_nothing(api: Api) -> None:
    for boundary, body in FORMS:
        kind = b"multipart/form-data; boundary=" + boundary.encode("latin-1", "surrogateescape")
        response = api.client.post("/v1/models", content=body, headers={"content-type": kind})
        assert response.status_code == 422, (body[:80], response.text)
        fine(response)
    assert api.count(Model) == 0
    assert [path for path in api.context.blobs.directory.rglob("*") if path.is_file()] == []


SHAPES = [
    "[" * 2000,
    '{"x":' * 2000,
    '{"x": ' + deep(DEEP) + "}",
    '{"x": [1e400]}',
    '{"x": [NaN]}',
    '{"\\ud800": [1]}',
    '{"x": {}}',
    '{"x": [[]]}',
    '{"a\\u0000": [1]}',
    "{}",
    "=",
    "x=" + "9" * 5000,
    "x=1" * 9000,
]


def test_odd_shapes_are_refused(api: Api) -> None:
    for inputs in SHAPES:
        response = api.client.post("/v1/models", files={"file": ("a.onnx", b"data")}, data={"inputs": inputs})
        problem(response, 422, "invalid_input")
    assert api.count(Model) == 0


def odd_requests() -> Iterator[tuple[str, dict[str, bytes]]]:
    for path in ("/v1/jobs/%00", "/v1/jobs/%ff", "/v1/jobs/%ed%a0%80/events", "/v1/jobs/%", "/v1/blobs/%2e"):
        yield path, {}
    for query in ("%00", "%ff", "%ed%a0%80", "a%00b", "%", "%zz", "9" * 5000, "-1", "1e400", "\u0661"):
        for name in ("limit", "cursor", "target", "state", "sort"):
            yield f"/v1/jobs?{name}={query}", {}
        yield f"/v1/costmodels?job={query}", {}
        yield f"/v1/workloads/{query}/best?target={query}", {}
        yield f"/v1/jobs/j-1/trials?task={query}&failure={query}", {}
        yield f"/v1/blobs/{'0' * 64}?expires={query}&signature={query}", {}
    for header in ("authorization", "idempotency-key", "last-event-id", "x-request-id", "range", "content-length"):
        for value in (b"\xff", b"\xb2", b"Bearer \xff\xfe", b"9" * 5000, b"x" * 60_000, b""):
            yield "/v1/jobs/j-1/events", {header: value}


def test_odd_paths_queries_and_headers_are_no_errors_of_ours(both: Api) -> None:
    for path, headers in odd_requests():
        fine(both.client.get(path, headers=headers))
        if "idempotency-key" in headers:
            fine(both.client.post("/v1/jobs", json=GEMM, headers=headers))
    for path in ("/v1/jobs/%ff", "/v1/jobs/%00", "/v1/jobs?target=%00", "/v1/models?cursor=%ed%a0%80"):
        problem(both.client.get(path), 422, "invalid_input")


def test_other_types_of_body_are_refused(api: Api) -> None:
    kinds = ["", "text/plain", "application/x-www-form-urlencoded", "application", "/", ";;", "a/b/c"]
    for path, kind in itertools.product(("/v1/jobs", "/v1/models", "/v1/keys"), kinds):
        response = api.client.post(path, content=json.dumps(GEMM), headers={"content-type": kind})
        assert response.status_code in (415, 422)
        fine(response)


def test_every_path_has_head_and_options_and_a_405_names_all_methods(api: Api) -> None:
    job_id = api.client.post("/v1/jobs", json=GEMM).json()["id"]
    refused = api.client.put(f"/v1/jobs/{job_id}", json={})
    problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
    options = api.client.options(f"/v1/jobs/{job_id}")
    assert (options.status_code, options.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, PATCH")
    assert api.client.options("/v1/nothing").status_code == 404
    for path in ("/livez", "/readyz", "/metrics", "/v1/jobs", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/best"):
        head, get = api.client.head(path), api.client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
    stream = api.client.head(f"/v1/jobs/{job_id}/events", headers={"accept": "text/event-stream"})
    assert stream.headers["content-type"].startswith("text/event-stream")
    problem(api.client.post("/livez"), 405, "method_not_allowed")
    assert api.client.head("/v1/jobs/nothing").status_code == 404


def test_ranges_of_a_blob(api: Api) -> None:
    sha = api.context.blobs.put_bytes(b"0123456789")
    path = api.context.urls.sign(sha).removeprefix(api.context.settings.coordinator_url)
    assert api.client.get(path, headers={"range": "bytes=2-4"}).content == b"234"
    head = api.client.head(path)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "10", b"")
    assert api.client.head(path, headers={"range": "bytes=2-4"}).status_code == 206
    for odd in ("bytes=20-30", "bytes=a-b", "bytes=5-2", "lines=1-2", "nonsense", "bytes=", "bytes=-0", "bytes=\xb2-"):
        refused = api.client.get(path, headers={"range": odd.encode("latin-1")})
        problem(refused, 416, "range_not_satisfiable")
        assert refused.headers["content-range"] == "bytes */10"
    gone = api.context.urls.sign("0" * 64).removeprefix(api.context.settings.coordinator_url)
    problem(api.client.get(gone), 404, "not_found")
