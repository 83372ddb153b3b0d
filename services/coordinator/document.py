"""The OpenAPI document: what FastAPI writes, and what holds for every route, so that a new one conforms by itself."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.coordinator import answer_headers
from services.coordinator.problems import HTTP_CODES, MEDIA_TYPE
from tunesmith.errors import catalogue

Json = dict[str, Any]
NO_ZERO_BYTE = "^[^\\u0000]*$"
"""PostgreSQL holds no text with a zero byte; see :mod:`tunesmith.strict_json`."""
WRITES = ("post", "put", "patch", "delete")

PROBLEM_SCHEMA: Json = {
    "type": "object",
    "description": "RFC 9457 problem object. `code` is stable.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string", "enum": []},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "value": {}, "detail": {"type": "string"}},
            },
        },
    },
}
ANSWERS = {
    400: "The request cannot be read.",
    401: "No valid key.",
    403: "The key may not, or a page of another origin asks.",
    404: "No such thing, or none that the key may see.",
    408: "The request came too slowly.",
    409: "The object's current state does not allow this.",
    413: "The body is too large.",
    415: "The body is of another type.",
    416: "The blob has no such range.",
    422: "The request is wrong.",
    429: "Too many requests, or a quota is used up.",
    500: "An error of ours; the log holds it.",
    501: "No worker has what this needs.",
    503: "The database is away or busy; nothing was changed.",
    507: "The disk is full; nothing was changed.",
}
"""Every problem that a route may answer with."""
HEADERS = {
    401: answer_headers.AUTHENTICATE,
    416: answer_headers.RANGE,
    **dict.fromkeys((429, 503, 507), answer_headers.RETRY_AFTER),
}
"""Headers of problems, by status."""
TAGS = {
    "models": "What is tuned: files that a worker imports and splits into tasks.",
    "jobs": "Tuning and collecting: submit, steer, and see what happened and why.",
    "dataset": "Records of all jobs, the tensor programs they are of, and their exchange.",
    "fleet": "Targets, devices, workers, queues and cost models.",
    "trust": "Who is believed: enrolment and revocation.",
    "cache": "Texts that other tuners keep here, each user their own.",
    "keys": "API keys, and the audit log.",
    "blobs": "Files that messages to workers point to.",
    "health": "Life, readiness and metrics.",
}
"""What the groups of routes are about."""


def openapi(app: FastAPI, *, keys: bool) -> Json:
    """The document of ``app``, made once.

    Args:
        keys: False when the service asks for none; the document then names no security either.
    """
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    codes = sorted({*catalogue(), *HTTP_CODES.values()})
    members = {**PROBLEM_SCHEMA["properties"], "code": {"type": "string", "enum": codes}}
    schemas["Problem"] = {**PROBLEM_SCHEMA, "properties": members}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["responses"] = {f"Problem{status}": _problem(status) for status in ANSWERS}
    if not keys:
        components.pop("securitySchemes", None)
    for path, item in document.get("paths", {}).items():
        for method, operation in item.items():
            if not keys:
                operation.pop("security", None)
            _describe(path, method, operation)
    _refuse_zero_bytes(document)
    app.openapi_schema = document
    return document


def _problem(status: int) -> Json:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    headers = {**HEADERS.get(status, {}), **answer_headers.REQUEST_ID}
    return {"description": ANSWERS[status], "content": content, "headers": headers}


def _describe(path: str, method: str, operation: Json) -> None:
    """Add what every answer has, and the problems that the route does not describe itself."""
    answers = operation["responses"]
    answers.pop("422", None)
    for status in problems(path, method, operation):
        answers.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
    for answer in answers.values():
        if "$ref" not in answer:
            answer["headers"] = {**answer.get("headers", {}), **answer_headers.REQUEST_ID}


def problems(path: str, method: str, operation: Json) -> list[int]:
    """Statuses of the problems that an operation may answer with."""
    found = [400, 403, 408, 422, 429, 500, 503]
    if operation.get("security"):  # a key is at least looked at
        found.append(401)
    if "{" in path or method in WRITES or path == "/v1/workers/log":  # that one names a worker in its query
        found.append(404)
    if method in WRITES:
        found += [409, 413, 507]
    if "requestBody" in operation:
        found.append(415)
    if (method, path) == ("post", "/v1/jobs"):
        found.append(501)
    if (method, path) == ("get", "/v1/jobs/{job_id}/best"):  # whose tasks may not be known yet
        found.append(409)
    return found


def _refuse_zero_bytes(document: Json) -> None:
    """Say of every free text of a request that it has no zero byte."""
    for item in document.get("paths", {}).values():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] in ("path", "query"):
                    _texts(parameter["schema"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                _texts(content["schema"])
                _follow(content["schema"], document["components"]["schemas"])


def _follow(schema: Any, schemas: Json) -> None:
    """The same for every schema that a body refers to; they serve requests only, answers have others."""
    if isinstance(schema, list):
        for part in schema:
            _follow(part, schemas)
    elif isinstance(schema, dict):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name in schemas:
            _texts(schemas[name])
            _follow(schemas[name], schemas)
        for part in schema.values():
            _follow(part, schemas)


def _texts(schema: Any) -> None:
    if isinstance(schema, list):
        for part in schema:
            _texts(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "string" and not {"pattern", "enum", "const", "format"} & set(schema):
            schema["pattern"] = NO_ZERO_BYTE
        for part in schema.values():
            _texts(part)
