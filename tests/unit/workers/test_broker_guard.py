"""What a message says of itself is not believed."""

from __future__ import annotations

from types import SimpleNamespace

import garbage
import pytest
from kombu.transport import redis

from tunesmith.messages import INGEST, RECORD, BatchReport, EvaluateModel, IngestModel, MeasureBatch, measure_queue
from workers.broker import MAX_MESSAGE_BYTES, GuardedChannel, GuardedTransport, defect, foreign


def test_a_compressed_message_is_none_of_ours() -> None:
    good = garbage.message(IngestModel.task, [{}])
    assert defect(good) == ""
    assert "compressed" in defect({**good, "headers": {**good["headers"], "compression": "application/x-gzip"}})
    assert "longer" in defect({**good, "body": "A" * (MAX_MESSAGE_BYTES + 1)})


@pytest.mark.parametrize(
    ("task", "queue", "ours"),
    [
        (IngestModel.task, INGEST, True),
        (IngestModel.task, RECORD, False),
        (BatchReport.task, RECORD, True),
        (MeasureBatch.task, RECORD, False),
        (MeasureBatch.task, measure_queue("x"), True),
        (EvaluateModel.task, measure_queue("x"), True),
        (BatchReport.task, measure_queue("x"), False),
    ],
)
def test_a_task_belongs_to_its_queue(task: str, queue: str, ours: bool) -> None:
    assert (foreign(garbage.message(task, [{}])["headers"], queue) == "") == ours


def test_a_message_is_put_back_where_it_was_taken_from(monkeypatch: pytest.MonkeyPatch) -> None:
    delivered = []
    monkeypatch.setattr(redis.Transport, "_deliver", lambda self, message, queue: delivered.append(message))
    item = garbage.message(BatchReport.task, [{}])
    item["properties"]["delivery_info"] = {"exchange": "", "routing_key": INGEST}
    GuardedTransport._deliver(GuardedTransport.__new__(GuardedTransport), item, RECORD)
    assert [message["properties"]["delivery_info"]["routing_key"] for message in delivered] == [RECORD]


@pytest.mark.parametrize(("queue", "back"), [(RECORD, [True]), (measure_queue("x"), [])])
def test_a_message_that_comes_as_its_worker_ends_goes_back_first_in_line(
    monkeypatch: pytest.MonkeyPatch, queue: str, back: list[bool]
) -> None:
    """But for a measure worker's, which may not write there."""
    put: list[bool] = []
    monkeypatch.setattr(redis.Channel, "_restore", lambda self, message, leftmost=False: put.append(leftmost))
    message = SimpleNamespace(delivery_info={"exchange": "", "routing_key": queue})
    GuardedChannel.__new__(GuardedChannel)._restore_at_beginning(message)
    assert put == back
