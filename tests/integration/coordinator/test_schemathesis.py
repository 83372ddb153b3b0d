"""Schemathesis over the whole OpenAPI document, with keys and without: no 5xx, and nothing that the document denies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from api_driver import Api
from effort import THOROUGH
from fake_fleet import Folder
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

pytestmark = pytest.mark.parallel
KEY = "an-admin-key-of-some-length"
REFUSED_BY_MEANING = ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]
"""Where no schema can say what is valid: an operator's shapes must fit each other, a target's options their kind, a
budget must be left with a limit, and an order by latency needs a workload,
and a job must be the caller's."""


def configuration(key: str | None, parameters: dict[str, str]) -> SchemathesisConfig:
    """Every check is on. The document has no links to follow.

    With keys requests are random alone: what they say at each edge of a schema is the same without. One method that a
    path has not stands for others, and one route with filters of records.
    """
    methods = {} if THOROUGH else {"unexpected-methods": ["trace"]}
    phases = {"coverage": {"enabled": key is None or THOROUGH, **methods}, "fuzzing": {"enabled": True}}
    filtered = {} if THOROUGH else {"phases": {"coverage": {"enabled": False}}}
    by_meaning = {"checks": {"positive_data_acceptance": {"expected-statuses": REFUSED_BY_MEANING}}}
    return SchemathesisConfig.from_dict(
        {
            "seed": 7,
            "cache": {"enabled": False},
            "parameters": parameters,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "generation": {"deterministic": True, "max-examples": 3, "no-shrink": True, "database": "none"},
            "phases": {"stateful": {"enabled": False}, **phases},
            "continue-on-failure": True,
            "operations": [
                {"include-method": "POST", "include-path": path, **by_meaning} for path in ("/v1/jobs", "/v1/models")
            ]
            + [{"include-method": "PATCH", "include-path": "/v1/jobs/{job_id}", **by_meaning}]
            + [{"include-method": "GET", "include-path": "/v1/records", **by_meaning}]
            + [
                {"include-method": method, "include-path": path, **by_meaning, **filtered}
                for method, path in (("POST", "/v1/records/export"), ("GET", "/v1/records/stats"))
            ],
        }
    )


def violations(api: Api, key: str | None, parameters: dict[str, str]) -> tuple[list[str], set[str]]:
    """What Schemathesis complains about, and the operations that it tried."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", api.app, config=configuration(key, parameters))
    found: list[str] = []
    tried: set[str] = set()
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished) and event.label is not None:
            tried.add(event.label)
            for case, checks in event.recorder.checks.items():
                for check in checks:
                    if check.failure_info is not None:
                        request = event.recorder.cases[case].value.as_curl_command()
                        found.append(f"{event.label}: {check.name}: {check.failure_info.failure} {request}")
        elif isinstance(event, events.NonFatalError | events.FatalError):
            found.append(str(getattr(event, "value", None) or getattr(event, "exception", None)))
    return found, tried


@pytest.fixture(params=[None, KEY], ids=["without keys", "with keys"])
def tried_api(request: pytest.FixtureRequest, tmp_path: Path, sqlite_url: str) -> Iterator[tuple[Api, Any]]:
    values = {"admin_key": request.param, "rate_limit": "", "wrong_key_limit": ""} if request.param else {}
    made = Api(Folder(tmp_path, sqlite_url), **values)
    if request.param:
        made.client.headers["Authorization"] = f"Bearer {request.param}"
    yield made, request.param
    made.close()


def test_the_document_holds(tried_api: tuple[Api, str | None]) -> None:
    """With keys the ids are invented, without they are those of a job that is over, and its model."""
    api, key = tried_api
    parameters = {}
    if key is None:
        job_id = api.finished_job()
        parameters = {"path.job_id": job_id, "path.model_id": api.client.get(f"/v1/jobs/{job_id}").json()["model_id"]}
    found, tried = violations(api, key, parameters)
    assert "\n".join(found) == ""
    document = api.client.get("/openapi.json").json()
    assert tried == {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
