"""Log lines come with heartbeats, and are kept as far as those are believed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import core_flow
import pytest
import sqlalchemy as sa

from db.models import Event
from db.transactions import enrolment
from tunesmith.messages import DeviceReport
from tunesmith.signing import Signer
from tunesmith.worker_logs import LINES_AT_ONCE, TEXT_CHARACTERS, LogLine
from workers.log_store import LogStore

pytestmark = pytest.mark.parallel
LINE = LogLine(at=1.0, level="info", logger="l", process=1, text="said")


class Kept(LogStore):
    """Keeps them here."""

    def __init__(self) -> None:
        super().__init__("")
        self.lines: list[tuple[str, str]] = []

    def add(self, name: str, lines: Sequence[LogLine]) -> bool:
        self.lines += [(name, line.text) for line in lines]
        return True


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_only_lines_of_believed_heartbeats_are_kept(tmp_path: Path, database_url: str) -> None:
    kept, owner, other = Kept(), Signer.fresh(), Signer.fresh()
    context = dataclasses.replace(core_flow.core_context(tmp_path, database_url), logs=kept)
    with context.sessions.begin() as session:
        for signer in (owner, other):
            enrolment.enrol(session, signer.worker, signer.public_key, "w", (), "test")

    def deliver(signer: Signer, *log: LogLine) -> dict[str, object]:
        report = DeviceReport(worker="w", name="d", host="h", device_classes=[], target={}, cores=1)
        signed = signer.sign(report.model_copy(update={"log": list(log)})).model_dump(mode="json")
        core_flow.deliver(context, DeviceReport, signed)
        return signed

    again = deliver(owner, LINE)
    core_flow.deliver(context, DeviceReport, again)
    deliver(other, LINE)  # the device is not its own
    deliver(owner, LINE.model_copy(update={"text": "x" * (TEXT_CHARACTERS + 1)}))
    deliver(owner, *[LINE] * (LINES_AT_ONCE + 1))
    deliver(owner, LINE.model_copy(update={"text": "later"}))
    assert kept.lines == [("device.d", "said"), ("device.d", "later")]
    with context.readers() as session:
        events = session.scalars(sa.select(Event).where(Event.kind == "report_refused").order_by(Event.id)).all()
        assert [event.data["reason"] for event in events] == ["device", "unreadable", "unreadable"]
    context.sessions.kw["bind"].dispose()
