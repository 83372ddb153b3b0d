"""The part of the client that asks for the dataset."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from tunesmith.answers.base import Page
from tunesmith.answers.fleet import WorkloadBest
from tunesmith.answers.records import RecordBody, RecordImportBody, RecordStats, WorkloadBody, WorkloadDetail
from tunesmith.client.aio.transport import Transport
from tunesmith.client.aio.waiting import in_thread, sleep
from tunesmith.client.exchange import EXPORT_SECONDS, UPLOAD_SECONDS, pack_database, unpack
from tunesmith.errors import InvalidInput, TunesmithError, from_problem
from tunesmith.states import OPEN_WORK, WorkState


class Dataset:
    """Records and workloads of all jobs."""

    _transport: Transport

    async def records(
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
        answer = await self._transport.get("/v1/records", **given)
        return Page[RecordBody].read(answer)

    async def records_stats(self, **filters: str | bool | None) -> RecordStats:
        """Counts of the records that :meth:`records` would list."""
        given: dict[str, Any] = dict(filters)
        return RecordStats.model_validate(await self._transport.get("/v1/records/stats", **given), extra="ignore")

    async def export_records(
        self, path: str | Path, *, licence: str | None = None, **filters: str | bool | None
    ) -> Path:
        """Write records to a dataset file (Parquet), which appears when it is complete.

        Args:
            path: the file.
            licence: under which the records may be used, such as ``CC-BY-4.0``; the file says so.
            **filters: those of :meth:`records`.
        """
        path = Path(path)
        given = {**filters, "licence": licence}
        body = {name: value for name, value in given.items() if value is not None}
        await self._transport.download("/v1/records/export", path, body=body, timeout=EXPORT_SECONDS)
        return path

    async def export_schedules(self, folder: str | Path, **filters: str | bool | None) -> Path:
        """Write a MetaSchedule database of the best schedules of one target to ``folder``.

        Args:
            folder: made where it is missing.
            **filters: ``workload``, ``family``, ``target`` and ``cache``.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / "download.zip"
        body = {"format": "metaschedule", **{name: value for name, value in filters.items() if value is not None}}
        try:
            await self._transport.download("/v1/records/export", archive, body=body, timeout=EXPORT_SECONDS)
            await in_thread(unpack, archive, folder)
        finally:
            archive.unlink(missing_ok=True)
        return folder

    async def import_records(self, path: str | Path) -> RecordImportBody:
        """Send a file, streamed from disk; :meth:`wait_import` waits for what becomes of it.

        Args:
            path: a dataset file, a JSON log, or a zip or folder with a MetaSchedule database.

        Raises:
            InvalidInput: when the file cannot be read.
        """
        path = Path(path)
        if path.is_dir():
            return await self._import_folder(path)
        try:
            with path.open("rb") as file:
                answer = await self._transport.request(
                    "POST",
                    "/v1/records/import",
                    timeout=UPLOAD_SECONDS,
                    files={"file": (path.name, file, "application/octet-stream")},
                )
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file", value=str(path)) from error
        return RecordImportBody.read(answer.json())

    async def _import_folder(self, folder: Path) -> RecordImportBody:
        with tempfile.TemporaryDirectory() as place:
            archive = await in_thread(pack_database, folder, Path(place))
            return await self.import_records(archive)

    async def record_import(self, import_id: str) -> RecordImportBody:
        """One import of records: its state, and how many were taken and refused.

        Raises:
            NotFound: no such import, or it is somebody else's.
        """
        return RecordImportBody.read(await self._transport.get(f"/v1/records/imports/{import_id}"))

    async def wait_import(self, import_id: str, timeout: float = 3600.0, poll: float = 0.5) -> RecordImportBody:
        """Wait until an import of records has ended.

        Raises:
            TunesmithError: the import failed, or takes longer than ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        while (found := await self.record_import(import_id)).state in OPEN_WORK:
            if time.monotonic() > end:
                raise TunesmithError(f"the import {import_id} did not end within {timeout:g} s")
            await sleep(poll)
        if found.state is not WorkState.DONE:
            raise from_problem(found.error or {"code": "error", "detail": f"the import {import_id} failed"})
        return found

    async def workloads(
        self,
        *,
        family: str | None = None,
        target: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[WorkloadBody]:
        """Tensor programs that have records, newest first; ``text``: part of a name, or the beginning of a hash."""
        answer = await self._transport.get(
            "/v1/workloads", family=family, target=target, q=text, limit=limit, cursor=cursor
        )
        return Page[WorkloadBody].read(answer)

    async def workload(self, workload: str) -> WorkloadDetail:
        """One tensor program, with its records by target and precision and its best schedules (seconds).

        Raises:
            NotFound: no such workload.
        """
        return WorkloadDetail.read(await self._transport.get(f"/v1/workloads/{workload}"))

    async def best_of_workload(self, workload: str, target: str | None = None) -> WorkloadBest:
        """The fastest known schedule of a tensor program, else that of its nearest relative.

        Args:
            workload: hash of the program.
            target: hash of a target, device class, tag or short name such as ``cpu``; None: any.

        Raises:
            NotFound: neither has one there.
        """
        answer = await self._transport.get(f"/v1/workloads/{workload}/best", target=target)
        return WorkloadBest.model_validate(answer, extra="ignore")
