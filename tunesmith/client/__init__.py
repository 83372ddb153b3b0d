"""The Python SDK: a typed client of the REST API, synchronous and asynchronous.

>>> from tunesmith.client import Client
>>> with Client("http://127.0.0.1:8700") as client:          # doctest: +SKIP
...     model = client.upload_model("model.onnx")
...     job = client.submit(model_id=model.id, target="cpu", trials=200)
...     job = client.wait(job.id)
...     schedules = client.best(job.id)

:class:`AsyncClient` has the same methods, to be awaited, and asynchronous iterators.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tunesmith.answers.analysis import AnalysisBody as Analysis
from tunesmith.answers.base import Page
from tunesmith.answers.curves import ForecastBody as Forecast
from tunesmith.answers.events import EventBody as Event
from tunesmith.answers.fleet import AuditBody as AuditEntry
from tunesmith.answers.fleet import DeviceBody as Device
from tunesmith.answers.fleet import KeyBody as ApiKey
from tunesmith.answers.fleet import NewKeyBody as NewApiKey
from tunesmith.answers.jobs import FailureBody as Failure
from tunesmith.answers.jobs import JobBody as Job
from tunesmith.answers.jobs import Latency, Progress, Verified
from tunesmith.answers.jobs import TaskBody as JobTask
from tunesmith.answers.jobs import TrialBody as Trial
from tunesmith.answers.models import ModelBody as Model
from tunesmith.answers.models import ModelTaskBody as ModelTask
from tunesmith.answers.proposals import ProposalBody as Proposal
from tunesmith.answers.proposals import TaskCurvesBody as TaskCurves
from tunesmith.answers.trials import ProgramBody as Program
from tunesmith.answers.trials import TrialDetailBody as TrialDetail
from tunesmith.client.client import Client
from tunesmith.client.embedded import EmbeddedStack
from tunesmith.client.submission import JobChoices
from tunesmith.names import DEFAULT_URL

if TYPE_CHECKING:
    from tunesmith.client.aio.client import AsyncClient

__all__ = [
    "Analysis",
    "ApiKey",
    "AsyncClient",
    "AuditEntry",
    "Client",
    "DEFAULT_URL",
    "Device",
    "EmbeddedStack",
    "Event",
    "Failure",
    "Forecast",
    "Job",
    "JobChoices",
    "JobTask",
    "Latency",
    "Model",
    "ModelTask",
    "NewApiKey",
    "Page",
    "Program",
    "Progress",
    "Proposal",
    "TaskCurves",
    "Trial",
    "TrialDetail",
    "Verified",
]


def __getattr__(name: str) -> Any:
    """The asynchronous client, which most programs do not need, is imported when it is used."""
    if name != "AsyncClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("tunesmith.client.aio.client").AsyncClient
