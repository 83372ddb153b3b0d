"""One batch: build every candidate in the pool, race what is built, confirm the fastest, report while it goes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path

from tunesmith.errors import DeviceLost
from tunesmith.measuring.champion_latency import champion_latency
from tunesmith.messages import MeasureBatch, Payload, WireCandidate, WireResult
from tunesmith.types import Isolation
from workers.measure import finals
from workers.measure.builds import DEFAULT, Builds, outcome_of
from workers.measure.crash_blocklist import CrashBlocklist
from workers.measure.library_cache import LibraryCache
from workers.measure.task_memory import TaskMemory
from workers.protocol import Built, Confirmed, ConfirmRequest, Runner, RunOutcome, RunRequest
from workers.sandbox.pool import Pool

WAVE = 16
"""Candidates that are built before any of them runs, where kernels need all of the host's cores. Building and running
then alternate, and each has all of the cores."""


@dataclass(frozen=True)
class Tools:
    """What a worker measures with, batch after batch.

    Attributes:
        builders: pool of ``workers.tvm_backend.build.builder.Builder``.
        load: fetches a payload.
        libraries: built champions and default schedules.
        book: what is not run again.
        check: makes failures of outcomes that cannot be true.
    """

    builders: Pool
    runner: Runner
    load: Callable[[Payload], bytes]
    libraries: LibraryCache
    book: CrashBlocklist
    memory: TaskMemory
    check: Callable[[RunOutcome, Built, MeasureBatch], RunOutcome]


@dataclass(frozen=True)
class Item:
    """A candidate, its build, and what came of running it."""

    candidate: WireCandidate
    built: Built
    outcome: RunOutcome | None = None
    duplicate: bool = False

    @property
    def latency(self) -> float | None:
        """Median in seconds; None without samples."""
        samples = self.outcome.samples if self.outcome is not None else ()
        return statistics.median(samples) if samples else None

    def result(self) -> WireResult:
        """As it is reported."""
        ran = self.outcome or RunOutcome(failure=self.built.failure, message=self.built.message)
        return WireResult(
            index=self.candidate.index,
            samples=list(ran.samples),
            failure=ran.failure,
            message=ran.message,
            build_seconds=self.built.seconds,
            run_seconds=ran.seconds,
            device_seconds=ran.device_seconds,
            stopped=ran.stopped,
            duplicate=self.duplicate,
        )


class BatchMeasurement:
    """Measures the candidates of one batch.

    Args:
        batch: the message.
        tools: the worker's tools.
        folder: an empty folder for the libraries.
    """

    def __init__(self, batch: MeasureBatch, tools: Tools, folder: Path) -> None:
        self._batch, self._tools = batch, tools
        bodies = {name: tools.load(body) for name, body in batch.sketches.items()}
        self._builds = Builds(batch, tools.load(batch.module), bodies, tools.builders, tools.libraries, folder)
        self._champion = tools.memory.champion(batch)
        self._to_beat = self._best = self._champion.seconds
        self._held: dict[int, Item] = {}
        self._seen: dict[str, RunOutcome] = {}
        self._paced = False
        self._last: list[Item] = []

    def results(self, skip: set[int]) -> Iterator[WireResult]:
        """One result per candidate whose index is not in ``skip``, as they come. The fastest come near the end, and
        then a default schedule that may take seconds.

        Raises:
            DeviceLost: the device is gone; what was not yielded is to be tried again.
        """
        todo = [candidate for candidate in self._batch.candidates if candidate.index not in skip]
        builds = {self._builds.submit(candidate, self._build_timeout(candidate)): candidate for candidate in todo}
        try:
            self._tools.runner.open(self._batch.target)
            for wave in self._waves(builds):
                for item in self._run(wave):
                    yield from self._settle(item)
            yield from self._confirm()
            for item in self._race_all(self._last):
                yield from self._settle(item)
        finally:
            for future in builds:
                future.cancel()
            self._tools.runner.release()

    def _build_timeout(self, candidate: WireCandidate) -> float | None:
        """Default schedules build as slowly as they like, within the limits."""
        return None if candidate.sketch is None else self._tools.memory.build_timeout(self._batch)

    def _waves(self, builds: dict[Future[Built], WireCandidate]) -> Iterator[list[Item]]:
        """What is built, as much at a time as the device's isolation makes sense of."""
        size = WAVE if self._tools.runner.isolation is Isolation.EXCLUSIVE else 1
        pending, ready = set(builds), list[Item]()
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            ready += [Item(builds[future], outcome_of(future)) for future in done]
            if len(ready) >= size or not pending:
                yield sorted(ready, key=lambda item: item.candidate.index)
                ready = []

    def _run(self, wave: list[Item]) -> Iterator[Item]:
        """The wave with outcomes. Equal code runs once, what is known to crash never, what is suspected to alone."""
        by_code: dict[str, list[Item]] = {}
        for item in wave:
            if item.built.path is None:
                yield item
                continue
            self._tools.memory.built(self._batch, item.built.seconds)
            known = self._known(item)
            if known is not None:
                yield known
            elif self._builds.slow(item.candidate, item.built):
                self._last.append(item)
            else:
                by_code.setdefault(item.built.code_hash, []).append(item)
        alone = [code for code in by_code if self._tools.book.suspected(code)]
        for group in ([code for code in by_code if code not in alone], *([code] for code in alone)):
            for code, item in zip(group, self._race_all([by_code[code][0] for code in group]), strict=True):
                yield item
                assert item.outcome is not None
                yield from (_twin(other, item.outcome) for other in by_code[code][1:])

    def _known(self, item: Item) -> Item | None:
        """The item with the outcome of one that had the same code, if there was one."""
        code, limits = item.built.code_hash, self._batch.limits
        outcome = self._tools.book.outcome(code, limits.run_timeout)
        if outcome is not None:
            return Item(item.candidate, item.built, outcome)
        outcome = self._seen.get(code) or self._tools.memory.measured(self._batch, code)
        return None if outcome is None else _twin(item, outcome)

    def _race_all(self, items: list[Item]) -> list[Item]:
        """The items with outcomes, in their order."""
        return [replace(item, outcome=found) for item, found in zip(items, self._race(items), strict=True)]

    def _race(self, items: list[Item]) -> list[RunOutcome]:
        if not items:
            return []
        tools, limits = self._tools, self._batch.limits
        for item in items:
            tools.book.begin(item.built.code_hash, limits.run_timeout)
        pace = self._pacemaker()
        try:
            found = tools.runner.race([*pace, *(self._request(item) for item in items)], self._best)
        except DeviceLost:
            tools.book.lost()
            raise
        if pace and found[0].samples:
            self._to_beat = self._best = statistics.median(found[0].samples)
        outcomes = []
        for item, raw in zip(items, found[len(pace) :], strict=True):
            tools.book.end(item.built.code_hash, raw)
            outcome = tools.check(raw, item.built, self._batch)
            self._seen[item.built.code_hash] = outcome
            outcomes.append(outcome)
        return outcomes

    def _pacemaker(self) -> list[RunRequest]:
        """The champion, once a batch: what it takes now is what the others have to beat, however fast the device was
        when it was confirmed."""
        rival = self._champion.candidate
        if self._paced or rival is None:
            return []
        self._paced = True
        built = self._builds.kept(rival)
        return [] if built is None else [replace(self._request(Item(rival, built)), champion=True)]

    def _request(self, item: Item) -> RunRequest:
        default = item.candidate.sketch is None
        return item.built.to_run(self._batch.limits, default=default, weights=self._batch.weights)

    def _settle(self, item: Item) -> Iterator[WireResult]:
        """Report what cannot be among the finalists; hold what may."""
        default = item.candidate.sketch is None
        if item.latency is not None and not default and not item.duplicate:
            self._best = item.latency if self._best is None else min(self._best, item.latency)
            self._held[item.candidate.index] = item
        else:
            yield self._leave(item)
        if default and self._to_beat is None:
            self._to_beat = item.latency
        for index in set(self._held) - set(self._finalists()):
            yield self._leave(self._held.pop(index))

    def _finalists(self) -> list[int]:
        times = {index: item.latency for index, item in self._held.items() if item.latency is not None}
        return finals.choose(times, self._to_beat, self._batch.limits)

    def _leave(self, item: Item) -> WireResult:
        if item.candidate.sketch is None and item.built.path is not None:
            self._builds.keep(DEFAULT, item.built)
        elif item.built.path is not None:
            item.built.path.unlink(missing_ok=True)
        self._remember(item)
        return item.result()

    def _remember(self, item: Item) -> None:
        """For later batches of the task; not before it is reported, or a further attempt would take it for a twin."""
        if item.outcome is not None and not item.duplicate:
            self._tools.memory.remember(self._batch, item.built.code_hash, item.outcome)

    def _confirm(self) -> Iterator[WireResult]:
        """Measure finalists again next to the champion, fastest first, until one of them settles it."""
        items = [self._held[index] for index in self._finalists()]
        results: list[WireResult] = []
        for item in items:
            if results and finals.settled(results[-1], items[0].latency, item.latency):
                results.append(item.result())
            else:
                results.append(self._confirmed(item))
        self._note_champion(items, results)
        self._held.clear()
        for item, result in zip(items, results, strict=True):
            self._remember(replace(item, outcome=finals.lasting(item.outcome, result)))
        yield from results

    def _confirmed(self, item: Item) -> WireResult:
        limits, rival, built = self._batch.limits, self._rival(item), item.built
        champion = self._builds.kept(rival) if rival is not None else None
        reference = self._builds.reference(built) if limits.verify else None
        request = ConfirmRequest(
            finalists=(self._request(item),),
            champion=None if champion is None or rival is None else self._request(Item(rival, champion)),
            reference=None if reference is None else self._request(Item(DEFAULT, reference)),
            limits=limits,
            tolerance=finals.tolerance(built.args),
            problem="the default schedule does not build" if limits.verify and reference is None else "",
        )
        (found,) = self._tools.runner.confirm(request)
        return finals.conclude(
            item.result(), self._checked(found, built), built.trace, built.args, limits, self._champion.candidate
        )

    def _rival(self, item: Item) -> WireCandidate | None:
        """Whom a finalist has to beat in turn: the champion, or the default schedule where that is not far slower."""
        if self._champion.candidate is not None:
            return self._champion.candidate
        near = (
            self._to_beat is not None and item.latency is not None and self._to_beat < finals.FAR_RATIO * item.latency
        )
        return DEFAULT if near else None

    def _checked(self, found: Confirmed, built: Built) -> Confirmed:
        """A failure where the device claims to be faster than it can be."""
        if found.failure is not None or not found.samples:
            return found
        outcome = self._tools.check(RunOutcome(found.samples), built, self._batch)
        return found if outcome.failure is None else replace(found, failure=outcome.failure, message=outcome.message)

    def _note_champion(self, items: list[Item], results: list[WireResult]) -> None:
        """Remember the fastest of those that won."""
        before = None if self._champion.candidate is None else self._champion.seconds
        won = [
            (champion_latency(result.confirmation.samples, result.confirmation.champion_samples, before), item)
            for item, result in zip(items, results, strict=True)
            if result.confirmation is not None and result.confirmation.won
        ]
        if won:
            seconds, item = min(won, key=lambda pair: pair[0])
            self._tools.memory.promote(self._batch, item.candidate, seconds)
            self._builds.keep(item.candidate, item.built)


def _twin(item: Item, outcome: RunOutcome) -> Item:
    """The item with the outcome of one that has the same code; it cost the device nothing."""
    copied = RunOutcome(outcome.samples, outcome.failure, outcome.message, stopped=outcome.stopped)
    return Item(item.candidate, item.built, copied, duplicate=True)
