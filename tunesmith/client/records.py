"""The part of the client that asks for the dataset."""

from __future__ import annotations

from typing import Any

from tunesmith.answers.base import Page
from tunesmith.answers.records import RecordBody, WorkloadBody, WorkloadDetail
from tunesmith.client.transport import Transport


class Dataset:
    """Records and workloads of all jobs."""

    _transport: Transport

    def records(
        self, *, sort: str = "-id", limit: int = 50, cursor: str | None = None, **filters: str | bool | None
    ) -> Page[RecordBody]:
        """Measured candidates of all jobs, newest first.

        Args:
            sort: ``-id``, ``id``, or ``latency`` for the records of one workload.
            limit: items of the page.
            cursor: ``next_cursor`` of the page before.
            **filters: ``workload``, ``family``, ``target``, ``processor``, ``precision``, ``failure``, ``simulated``,
                ``cache``, ``job``, ``since`` and ``until``, as the REST reference describes them.
        """
        given: dict[str, Any] = {**filters, "sort": sort, "limit": limit, "cursor": cursor}
        answer = self._transport.get("/v1/records", **given)
        return Page[RecordBody].read(answer)

    def workloads(
        self,
        *,
        family: str | None = None,
        target: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[WorkloadBody]:
        """Tensor programs that have records, newest first; ``text``: part of a name, or the beginning of a hash."""
        answer = self._transport.get("/v1/workloads", family=family, target=target, q=text, limit=limit, cursor=cursor)
        return Page[WorkloadBody].read(answer)

    def workload(self, workload: str) -> WorkloadDetail:
        """One tensor program, with its records by target and precision and its best schedules."""
        return WorkloadDetail.read(self._transport.get(f"/v1/workloads/{workload}"))
