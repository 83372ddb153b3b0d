"""What core workers say of themselves, and where at the broker: coordinators read it there and ask nobody.

A measure worker, which may only push there, sends messages (:class:`tunesmith.messages.DeviceReport`).
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

REPORTS: Final = "core"
"""The broker's sorted set of core workers by name, by when each reported last; the broker's clock says when."""
KEPT_REPORTS: Final = 256
"""Workers that the broker keeps, those that reported last."""
KEPT_SECONDS: Final = 3600
"""A report that no other followed for so long is forgotten."""
MAX_PROCESSES: Final = 256
Text = Annotated[str, StringConstraints(max_length=300)]


class CoreReport(BaseModel):
    """A worker of core queues. All versions read it: fields may be added, and each has a value where it is left out.

    Attributes:
        name: unique at the broker, such as ``search-417@host``.
        version: the version of Tunesmith.
        processes: ids of the processes that do its work.
    """

    model_config = ConfigDict(frozen=True)
    name: Text
    version: Text = ""
    host: Text = ""
    queues: Annotated[tuple[Text, ...], Field(max_length=16)] = ()
    processes: Annotated[tuple[int, ...], Field(max_length=MAX_PROCESSES)] = ()


def report_key(name: str) -> str:
    """The broker's key of a worker's last report."""
    return f"{REPORTS}.{name}"
