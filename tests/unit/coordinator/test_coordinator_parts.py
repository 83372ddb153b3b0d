"""Small pure parts of the coordinator."""

from __future__ import annotations

import datetime as dt
import math
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.coordinator.cursors import decode_number, decode_place, decode_time, encode_place
from services.coordinator.curve import Places, TaskLatency, best_so_far, sampled
from services.coordinator.problems import HTTP_CODES, http_problem
from services.coordinator.requests import JobRequest
from services.coordinator.settings import Settings, is_loopback
from services.coordinator.urls import BlobUrls
from services.coordinator.usecases.shapes import inputs_key, parse_inputs
from services.coordinator.usecases.submit import check, submit
from tunesmith.answers.jobs import BudgetBody
from tunesmith.budget import MAX_SECONDS, MAX_TRIALS
from tunesmith.errors import InvalidInput, MissingDependency, TunesmithError, Unauthorized, catalogue

SHA = "ab" * 32


def test_curve_starts_untuned_and_only_falls() -> None:
    tasks = {1: TaskLatency(2, 10.0, 1.0), 2: TaskLatency(1, None, 4.0), 3: TaskLatency(5, None, None)}
    steps = [(1, 8.0), (2, 4.0), (3, None), (1, None), (1, 9.0), (1, 1.0)]
    assert list(best_so_far(Places.of(tasks), steps)) == [20, 20, 20, 20, 20, 6]


def test_down_sampling_keeps_both_ends() -> None:
    assert list(sampled(3, 5)) == [0, 1, 2]
    points = sampled(10_000, 500)
    assert len(points) == 500
    assert (points[0], points[-1]) == (0, 9999)
    assert points == sorted(set(points))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {}),
        (["x=1,3,224,224"], {"x": [1, 3, 224, 224]}),
        (["x=1x3", " y = 7 "], {"x": [1, 3], "y": [7]}),
        (["a=b=2"], {"a=b": [2]}),
        (['{"x": [1, 2], "y": []}'], {"x": [1, 2], "y": []}),
        (["scalar="], {"scalar": []}),
    ],
)
def test_shapes_parse(given: list[str], expected: dict[str, list[int]]) -> None:
    assert parse_inputs(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "x",
        "x=a",
        "=1",
        "x=0",
        "x=-1",
        '{"x": 1}',
        '{"x": [true]}',
        '{"x": [1.5]}',
        "{",
        "x=" + ",".join("1" * 17),
        "x=9999999999",
        "x=\uff11",
        "x=1_0",
        "x=1,,2",
        "x=1x2,3",
        "x=+1",
    ],
)
def test_bad_shapes_are_named(given: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_inputs([given])
    assert caught.value.field == "inputs"


def test_the_key_of_shapes_does_not_depend_on_their_order() -> None:
    assert inputs_key({"b": [1], "a": [2]}) == inputs_key({"a": [2], "b": [1]}) == '{"a":[2],"b":[1]}'
    assert inputs_key({}) == ""


def test_blob_urls_expire_and_cannot_be_changed() -> None:
    now = [1000.0]
    urls = BlobUrls(b"secret", "http://here:8700/", 60, clock=lambda: now[0])
    url = urls.sign(SHA)
    assert url.startswith(f"http://here:8700/v1/blobs/{SHA}?expires=1060&signature=")
    signature = url.rsplit("=", 1)[1]
    urls.check(SHA, 1060, signature)
    for sha, expires, given in ((SHA, 1061, signature), ("cd" * 32, 1060, signature), (SHA, 1060, "é" * 64)):
        with pytest.raises(Unauthorized):
            urls.check(sha, expires, given)
    with pytest.raises(Unauthorized):
        BlobUrls(b"other", "", 60, clock=lambda: now[0]).check(SHA, 1060, signature)
    now[0] = 1061
    with pytest.raises(Unauthorized, match="expired"):
        urls.check(SHA, 1060, signature)


def test_the_signing_key_is_made_once_and_private(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    key = settings.signing_key()
    assert len(key) == 64
    assert Settings(data_dir=tmp_path / "data").signing_key() == key
    assert stat.S_IMODE((tmp_path / "data" / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret_key"]
    assert Settings(data_dir=tmp_path, secret_key="given").signing_key() == b"given"


def test_other_than_loopback_needs_a_key() -> None:
    with pytest.raises(InvalidInput, match="TUNESMITH_ADMIN_KEY"):
        Settings(host="0.0.0.0").check()
    with pytest.raises(InvalidInput):
        Settings(host="0.0.0.0", admin_key="").check()
    Settings(host="0.0.0.0", admin_key="k").check()
    Settings().check()
    assert [is_loopback(h) for h in ("localhost", "127.0.0.9", "::1", "[::1]", "10.0.0.1", "name")] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]


def test_cursors_round_trip_and_strangers_are_refused() -> None:
    at = dt.datetime(2026, 11, 26, 3, 4, 5, 678901, tzinfo=dt.timezone.utc)
    assert decode_time(encode_place(at, "j-1")) == (at, "j-1")
    assert decode_place(encode_place(3, "x")) == (3, "x")
    assert decode_time(None) is decode_place(None) is None
    assert (decode_number("7", 1), decode_number(None, 1)) == (7, 1)
    for bad in ("", "x", "-1", "~x", "x~1", "é", "////", "9" * 19, "\u0661"):
        with pytest.raises(InvalidInput):
            decode_place(bad)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"trials": 0, "seconds": 5.0}, "invalid_budget"),
        ({"trials": -1}, "invalid_budget"),
        ({"trials": MAX_TRIALS + 1}, "invalid_budget"),
        ({"seconds": 0}, "invalid_budget"),
        ({"seconds": -5}, "invalid_budget"),
        ({"seconds": MAX_SECONDS + 1}, "invalid_budget"),
        ({"seconds": math.inf}, "invalid_budget"),
        ({"seconds": math.nan}, "invalid_budget"),
    ],
)
def test_absurd_budgets(values: dict[str, float], code: str) -> None:
    with pytest.raises(TunesmithError) as caught:
        check(JobRequest(model_id="m", budget=BudgetBody(**values)))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"search": "magic"}, "unknown_searcher"),
        ({"allocator": "magic"}, "unknown_allocator"),
        ({"cost_model": "magic"}, "unknown_cost_model"),
        ({"target": "nvidia/none"}, "unknown_target"),
        ({"target": {"kind": "abacus"}}, "unknown_target"),
        ({"operator": "gemm:1"}, "invalid_input"),
        ({"model_id": None, "operator": "gemm:1"}, "invalid_operator"),
        ({"model_id": None}, "invalid_input"),
        ({"cost_model": "ranker", "target": "cuda"}, "invalid_input"),
    ],
)
def test_what_is_unknown_has_its_code(values: dict[str, object], code: str) -> None:
    with pytest.raises(TunesmithError) as caught:
        check(JobRequest(**{"model_id": "m", **values}))
    assert caught.value.code == code


def test_framework_errors_have_codes() -> None:
    assert http_problem(405, "no")["code"] == "method_not_allowed"
    assert http_problem(418, "no")["code"] == "error"
    shared = set(HTTP_CODES.values()) & set(catalogue())
    assert {"not_found", "payload_too_large", "invalid_input", "unauthorized"} <= shared
    for status, code in HTTP_CODES.items():
        assert code not in shared or catalogue()[code].status == status


@pytest.mark.parametrize(("field", "name", "extra"), [("search", "ppo", "search"), ("cost_model", "xgboost", "worker")])
def test_what_no_worker_can_run_is_refused_when_it_is_submitted(field: str, name: str, extra: str) -> None:
    context: Any = SimpleNamespace(settings=Settings(unavailable="ppo, xgboost"))
    request = JobRequest.model_validate({"operator": "gemm:8x8x8:float32", "cost_model": "none", field: name})
    with pytest.raises(MissingDependency, match=f"extra '{extra}'") as caught:
        submit(context, SimpleNamespace(owner="local"), request, None)  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.value) == (field, name)
