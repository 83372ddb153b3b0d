# Written by `python -m tools.sync_client` from tunesmith/client/aio/proposals.py.
"""The part of the client that proposes candidates of a task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunesmith.answers.base import Page
from tunesmith.answers.proposals import ProposalBody, TaskCurvesBody
from tunesmith.client.transport import Transport
from tunesmith.client.waiting import sleep
from tunesmith.errors import TunesmithError
from tunesmith.proposals import ProposalSource, ProposalState


class Proposals:
    """Candidates from outside: proposed, listed, and what they reached."""

    _transport: Transport

    def propose(
        self,
        job_id: str,
        task_id: int,
        candidates: Sequence[Mapping[str, Any]],
        *,
        source: ProposalSource | str = ProposalSource.SCRIPT,
        author: str = "",
        measure: bool = True,
        timeout: float = 60.0,
        poll: float = 0.2,
    ) -> list[ProposalBody]:
        """Propose candidates of a task, and wait until a worker has judged them.

        Args:
            job_id: a job that is not over.
            task_id: one of its tasks.
            candidates: 64 at most; each has ``sketch``, a hash that :meth:`Client.space` names, and ``knobs``, a value
                by name for each knob of that sketch.
            source: ``person``, ``script`` or ``agent``.
            author: a name for it, for people.
            measure: False only asks which are valid and what is expected of them.
            timeout: seconds to wait for the verdicts; 0 returns at once.
            poll: seconds between two looks.

        Returns:
            The proposals in the order given: ``waiting`` for a measurement, ``judged`` if there is to be none, or
            ``refused`` with the reason; with ``estimate`` in seconds where the static model has one. After ``timeout``
            they may still be ``judging``.

        Raises:
            InvalidProposal: UnknownSketch, UnknownKnob, MissingKnob or KnobOutOfRange; nothing is taken in then.
            DuplicateProposal: the task has one of them already.
            ProposalsRefused: the job or the task takes none, or none now.
            NotFound: no such job or task.
        """
        body = {"candidates": [dict(each) for each in candidates], "source": str(ProposalSource(source).value)}
        path = f"/v1/jobs/{job_id}/tasks/{task_id}/proposals"
        answer = self._transport.call("POST", path, json={**body, "author": author, "measure": measure})
        found = [ProposalBody.read(item) for item in answer["items"]]
        end, first = time.monotonic() + timeout, found[0].id - 1
        while any(each.state is ProposalState.JUDGING for each in found) and time.monotonic() < end:
            sleep(poll)
            page = self.proposals_page(job_id, task_id, limit=len(found), cursor=str(first))
            found = [each for each in page.items if each.set == found[0].set]
        return found

    def proposals(self, job_id: str, task_id: int) -> Iterator[ProposalBody]:
        """Everything that was proposed for a task, oldest first, fetched page by page. Raises NotFound."""
        path = f"/v1/jobs/{job_id}/tasks/{task_id}/proposals"
        return (ProposalBody.read(item) for item in self._transport.items(path, limit=200))

    def proposals_page(
        self, job_id: str, task_id: int, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ProposalBody]:
        """Some of what was proposed for a task. Raises NotFound.

        Args:
            limit: items of the page, 200 at most.
            cursor: ``next_cursor`` of the page before.
        """
        path = f"/v1/jobs/{job_id}/tasks/{task_id}/proposals"
        return Page[ProposalBody].read(self._transport.get(path, limit=limit, cursor=cursor))

    def wait_proposals(
        self, job_id: str, task_id: int, ids: Sequence[int], timeout: float | None = None, poll: float = 0.5
    ) -> list[ProposalBody]:
        """Wait until proposals are measured, or will not be.

        Args:
            ids: ids of the proposals.
            timeout: seconds to wait; None: as long as the job goes on.
            poll: seconds between two looks.

        Returns:
            The proposals; ``latency`` is in seconds.

        Raises:
            TunesmithError: it takes longer than ``timeout`` seconds.
        """
        wanted, end = set(ids), None if timeout is None else time.monotonic() + timeout
        open_states = (ProposalState.JUDGING, ProposalState.WAITING, ProposalState.MEASURING)
        while True:
            found = [each for each in self.proposals(job_id, task_id) if each.id in wanted]
            if not any(each.state in open_states for each in found):
                return found
            if end is not None and time.monotonic() > end:
                raise TunesmithError(f"proposals of task {task_id} were not measured within {timeout:g} s")
            sleep(poll)

    def task_curve(self, job_id: str, task_id: int) -> TaskCurvesBody:
        """What a task's searcher reached, and what those who proposed did; latencies in seconds. Raises NotFound."""
        return TaskCurvesBody.read(self._transport.get(f"/v1/jobs/{job_id}/tasks/{task_id}/curve"))
