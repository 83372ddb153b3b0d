"""The pages that are one table each: records, cost models, devices, workers and queues, keys, audit."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import quote

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.listing import PAGE, Listing, Rows
from services.dashboard.parts import words


def _text(value: Any) -> str:
    return fmt.NOTHING if value in (None, "") else str(value)


def _ago(stamp: str | None) -> str:
    return fmt.ago(stamp, dt.datetime.now(dt.timezone.utc))


def _workloads(api: Api, find: str | None, cursor: str | None) -> Rows:
    page = api.workloads(find, PAGE, cursor)
    return Rows([workload_row(each) for each in page["items"]], page["next_cursor"], page["total"])


def workload_row(workload: Json) -> Json:
    """A line of the list of workloads."""
    return {
        "name": workload["name"],
        "link": f"/records/{workload['hash']}",
        "family": workload["family"],
        "flops": f"{workload['flops']:.3g}",
        "shape": " ".join(f"{arg['dtype']}{list(arg['shape'])}" for arg in workload["args"]),
        "records": fmt.count(workload["records"]),
        "failures": fmt.count(workload["failures"]),
    }


def _models_of_users(api: Api, find: str | None, cursor: str | None) -> Rows:
    page = api.models_page(PAGE, cursor)
    return Rows([model_row(each) for each in page["items"]], page["next_cursor"], page["total"])


def model_row(model: Json) -> Json:
    """A line of the list of models; why one was rejected, or what its preparation lacks."""
    why = (model["error"] or {}).get("detail") or model["note"]
    return {
        "name": model["name"],
        "id": model["id"],
        "source": model["source"],
        "state": words(model["state"]) + (f": {why}" if why else ""),
        "tasks": fmt.count(model["tasks"]),
        "size": fmt.count(model["size"]) if model["size"] else fmt.NOTHING,
        "owner": _text(model["owner"]),
        "made": fmt.when(model["created_at"]),
    }


def _models(api: Api, find: str | None, cursor: str | None) -> Rows:
    page = api.cost_models(PAGE, cursor)
    return Rows([cost_model_row(each) for each in page["items"]], page["next_cursor"], page["total"])


def cost_model_row(model: Json) -> Json:
    """A line of the list of cost models."""
    metrics = {name: value for name, value in (model["metrics"] or {}).items() if isinstance(value, (int, float))}
    return {
        "id": model["id"],
        "link": f"/costmodels/{model['id']}",
        "kind": model["kind"],
        "of": model["job_id"] or model["target"][:12],
        "number": str(model["number"]),
        "state": words(model["state"]),
        "trained_on": fmt.count(model["trained_on"]) + (" (simulated)" if model["simulated"] else ""),
        "metrics": ", ".join(f"{words(name).lower()} {value:.3g}" for name, value in metrics.items()) or fmt.NOTHING,
    }


def _devices(api: Api, find: str | None, cursor: str | None) -> Rows:
    rows = [device_row(each) for each in api.devices()]
    return Rows(rows, total=len(rows))


def device_row(device: Json) -> Json:
    """A line of the list of devices."""
    found = device["calibration"] or {}
    state = "measuring" if device["busy"] else "idle"
    return {
        "name": device["name"] + (" (simulated)" if device["simulated"] else ""),
        "link": f"/devices/{quote(device['name'])}",
        "used": fmt.share(device["utilisation"]),
        "state": state if device["alive"] else f"gone, seen {_ago(device['seen_at'])}",
        "health": ": ".join(part for part in (words(device["health"]), device["reason"]) if part),
        "classes": ", ".join(device["device_classes"]),
        "cores": str(device["cores"]),
        "peak": fmt.rate(found.get("peak_flops")),
        "noise": fmt.noise(found["noise_floor"]) if "noise_floor" in found else fmt.NOTHING,
        "drift": fmt.significant(found["drift"]) if found.get("drift") else fmt.NOTHING,
    }


def _workers(api: Api, find: str | None, cursor: str | None) -> Rows:
    lines = [worker_row(each) for each in api.workers()]
    queues = [
        {
            "name": each["name"],
            "what": "queue",
            "version": fmt.NOTHING,
            "failed": fmt.NOTHING,
            "state": f"{_text(each['messages'])} messages",
            "load": f"{each['waiting']} wait, {each['running']} in work",
            "seen": fmt.NOTHING,
        }
        for each in api.queues()
    ]
    rows = [*lines, *queues]
    return Rows(rows, total=len(rows))


def worker_row(worker: Json) -> Json:
    """A line of the list of workers; its last failure in words."""
    state = "working" if worker["holds"] else "idle"
    broken = worker["failures"]
    failed = (
        f"{words(broken[0]['kind'])} {broken[0]['row']}: {broken[0]['problem'].get('detail', '')}" if broken else ""
    )
    return {
        "name": worker["name"],
        "link": f"/workers/{quote(worker['name'])}",
        "what": ", ".join([*worker["roles"], *worker["queues"]]),
        "version": _text(worker["version"]),
        "state": state if worker["alive"] else "silent",
        "load": fmt.count(worker["holds"]),
        "seen": _ago(worker["seen_at"]) if worker["seen_at"] else fmt.NOTHING,
        "failed": _text(failed + (f" (and {len(broken) - 1} before)" if len(broken) > 1 else "")),
    }


def _keys(api: Api, find: str | None, cursor: str | None) -> Rows:
    rows = [
        {
            "id": each["id"],
            "owner": each["owner"],
            "scopes": ", ".join(each["scopes"]),
            "state": "revoked" if each["revoked"] else "valid",
            "made": each["created_at"],
        }
        for each in api.api_keys()
    ]
    return Rows(rows, total=len(rows))


def _audit(api: Api, find: str | None, cursor: str | None) -> Rows:
    page = api.audit(find, PAGE, cursor)
    lines = [
        {
            "when": each["created_at"],
            "owner": _text(each["owner"]),
            "action": each["action"],
            "target": each["target"],
            "status": str(each["status"]),
            "address": each["address"],
        }
        for each in page["items"]
    ]
    return Rows(lines, page["next_cursor"], page["total"])


LISTINGS = (
    Listing(
        "/models",
        "Models",
        (
            ("name", "Model"),
            ("id", "Id"),
            ("source", "Source"),
            ("state", "State"),
            ("tasks", ">Tasks"),
            ("size", ">Bytes"),
            ("owner", "Owner"),
            ("made", ">Made"),
        ),
        _models_of_users,
        "No model was uploaded, and no operator submitted.",
    ),
    Listing(
        "/records",
        "Records",
        (
            ("name", "Workload"),
            ("family", "Operator"),
            ("shape", "Arguments"),
            ("flops", ">FLOPs"),
            ("records", ">Records"),
            ("failures", ">Failures"),
        ),
        _workloads,
        "No workload was measured, or none has this in its name.",
        "Operator or name",
        ("All records (Parquet)", "/records.parquet"),
    ),
    Listing(
        "/costmodels",
        "Cost models",
        (
            ("id", "Cost model"),
            ("kind", "Kind"),
            ("of", "Job or target"),
            ("number", ">Version"),
            ("state", "State"),
            ("trained_on", ">Trained on"),
            ("metrics", "Metrics"),
        ),
        _models,
        "No cost model was trained yet.",
    ),
    Listing(
        "/devices",
        "Devices",
        (
            ("name", "Device"),
            ("state", "State"),
            ("health", "Health"),
            ("classes", "Device classes"),
            ("cores", ">Cores"),
            ("peak", ">Peak"),
            ("noise", ">Noise"),
            ("drift", ">Times its first latency"),
            ("used", ">Busy in the last hour"),
        ),
        _devices,
        "Jobs wait until a measure worker registers a device.",
    ),
    Listing(
        "/workers",
        "Workers and queues",
        (
            ("name", "Name"),
            ("what", "Does"),
            ("version", "Version"),
            ("state", "State"),
            ("load", ">Work"),
            ("seen", ">Heard of"),
            ("failed", "Last failure"),
        ),
        _workers,
        "No worker has reported yet.",
    ),
    Listing(
        "/keys",
        "Keys",
        (("id", "Key"), ("owner", "Owner"), ("scopes", "Scopes"), ("state", "State"), ("made", ">Made")),
        _keys,
        "No key was made.",
    ),
    Listing(
        "/audit",
        "Audit",
        (
            ("when", "Time"),
            ("owner", "Owner"),
            ("action", "Action"),
            ("target", "What"),
            ("status", ">Answer"),
            ("address", ">Address"),
        ),
        _audit,
        "Nothing was done yet, or nothing by this owner.",
        "Owner",
    ),
)
"""Every such page."""
