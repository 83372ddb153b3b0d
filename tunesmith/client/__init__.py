"""The Python SDK: a typed client of the REST API.

>>> from tunesmith.client import Client
>>> with Client("http://127.0.0.1:8700") as client:          # doctest: +SKIP
...     model = client.upload_model("model.onnx")
...     job = client.submit(model_id=model.id, target="cpu", trials=200)
...     job = client.wait(job.id)
...     schedules = client.best(job.id)
"""

from tunesmith.client.client import Client
from tunesmith.client.embedded import EmbeddedStack
from tunesmith.client.schemas import (
    ApiKey,
    AuditEntry,
    Device,
    Event,
    Failure,
    Forecast,
    Job,
    JobTask,
    Latency,
    Model,
    ModelTask,
    Page,
    Progress,
    Verified,
)
from tunesmith.names import DEFAULT_URL

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Client",
    "DEFAULT_URL",
    "Device",
    "EmbeddedStack",
    "Event",
    "Failure",
    "Forecast",
    "Job",
    "JobTask",
    "Latency",
    "Model",
    "ModelTask",
    "Page",
    "Progress",
    "Verified",
]
