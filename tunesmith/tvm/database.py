"""A MetaSchedule database that holds what Tunesmith knows: of a server, of a log, or of an exported folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tunesmith import metaschedule
from tunesmith.answers.shown import html_table, seconds
from tunesmith.client import Client
from tunesmith.errors import InvalidInput, NotFound
from tunesmith.preparation import Preparation
from tunesmith.sdk.known import Knowledge, OfLog, OfServer
from tunesmith.sdk.tuning import key_in_reach
from tunesmith.unmeasured import Known
from workers import in_process

BACKEND = in_process.user_module()

import tvm  # noqa: E402  # after the back end, which leaves out PyTorch where that is not loaded yet
from tvm.s_tir import Schedule, ScheduleError, meta_schedule  # noqa: E402

ADDRESS = re.compile(r"https?://|[\w.-]+:\d+$")
"""A server, with or without its scheme."""
MODULE = "module.json"
"""The prepared module in an exported folder."""
PyDatabase: Any = meta_schedule.database.PyDatabase._tvm_metadata["cls"]


@dataclass
class Report:
    """What a database was asked for, by the names of the module's functions.

    Attributes:
        found: functions with a schedule, and its latency in seconds.
        kept: functions that were tuned, and whose default schedule is the fastest that is known.
        views: functions that only give a tensor another shape, which need no kernel.
        missing: functions that nobody tuned.
    """

    found: dict[str, float | None] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """A line for each kind of answer."""
        asked = len(self.found) + len(self.kept) + len(self.missing)
        lines = [f"{len(self.found)} of {asked} functions have a tuned schedule"]
        for words, names in (("keep their default schedules", self.kept), ("have no record", self.missing)):
            if names:
                lines.append(f"{len(names)} {words}: {', '.join(names)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The report as a notebook shows it."""
        found = [(name, seconds(latency)) for name, latency in self.found.items()]
        others = {"default schedule": self.kept, "no record": self.missing}
        return html_table(
            str(self).partition("\n")[0], [*found, *((name, text) for text, names in others.items() for name in names)]
        )


class _Lookup:
    """Answers TVM's questions. Not part of the database: its callbacks would keep that alive for ever."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge, self.report = knowledge, Report()
        self.records: dict[str, Any] = {}
        self._kinds: set[str] = set()

    def known(self, function: Any) -> Known | None:
        """What is known of a function."""
        return self.knowledge.find(BACKEND.workload_hash(function))

    def query(self, mod: Any, target: Any, name: str | None) -> Any:
        """The record of a module with one function."""
        function = mod["main"]
        if function.attrs.get("tirx.is_scheduled", False):
            return None
        known = self.known(function)
        self._note(str(name), function, known)
        if known is None or known.trace is None:
            return None
        self._load_intrinsics(str(target.kind.name), json.dumps(known.trace))
        self.records[str(name)] = record = _record(mod, target, known)
        return record

    def _note(self, name: str, function: Any, known: Known | None) -> None:
        report = self.report
        report.found.pop(name, None)
        for names in (report.kept, report.views, report.missing):
            if name in names:
                names.remove(name)
        if known is not None and known.trace is not None:
            report.found[name] = known.seconds
        elif BACKEND.is_view(function):
            report.views.append(name)
        else:
            (report.missing if known is None else report.kept).append(name)

    def _load_intrinsics(self, kind: str, trace: str) -> None:
        """A trace names instructions that TVM has to know: its own, and ours."""
        steps = BACKEND.script()
        if kind not in self._kinds:
            steps.load_intrinsics(kind)
            self._kinds.add(kind)
        steps.register_intrinsics(metaschedule.intrinsics(set(metaschedule.INTRINSIC.findall(trace))))


def _record(mod: Any, target: Any, known: Known) -> Any:
    if known.program is not None:
        mod = BACKEND.with_names_of(mod, metaschedule.decoded(known.program))
    workload, schedule = meta_schedule.database.Workload(mod), Schedule(mod, error_render_level="none")
    try:
        tvm.s_tir.Trace.apply_json_to_schedule(known.trace, schedule)
    except (ScheduleError, RuntimeError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"a schedule that is known of this function cannot be applied by TVM {tvm.__version__}: it was written by "
            "another version; tune the model again",
            field="database",
        ) from error
    seconds = [] if known.seconds is None else [known.seconds]
    return meta_schedule.database.TuningRecord(schedule.trace, workload, seconds, target, None)


class Database(PyDatabase):  # type: ignore[misc]
    """A MetaSchedule database, to be entered before ``MetaScheduleApplyDatabase`` or the pipeline ``zero``.

    It finds functions of a module that :func:`tunesmith.tvm.prepare` made, and of exported modules. Nothing can be
    added to it.

    Args:
        source: address of a server, such as ``lab:8700``; the path of ``best.jsonl``, of an exported folder, or of one
            that ``TunedModel.save`` wrote.
        target: for which a server is asked: ``cpu``, ``cpu:N``, a TVM tag or target JSON. Files are for one target.
        key: API key, where the server asks for one (default: ``TUNESMITH_KEY``).
        complete: leaving the ``with`` block raises NotFound if a function has no record.

    Raises:
        InvalidInput: there is no such file, or it is no log.
        UnknownTarget: no such target.
    """

    __slots__ = ("__dict__",)

    def __init__(
        self,
        source: str | os.PathLike[str],
        target: str | Mapping[str, Any] = "cpu",
        *,
        key: str | None = None,
        complete: bool = False,
    ) -> None:
        self._lookup = lookup = _Lookup(_knowledge(source, target, key))
        self._complete = complete
        super().__init__(
            f_has_workload=lambda mod: lookup.known(mod["main"]) is not None,
            f_commit_workload=_refuse,
            f_commit_tuning_record=_refuse,
            f_get_top_k=lambda workload, _: [
                each for each in lookup.records.values() if each.workload.same_as(workload)
            ],
            f_get_all_tuning_records=lambda: list(lookup.records.values()),
            f_query_tuning_record=lookup.query,
            f_size=lambda: max(1, len(lookup.records)),  # `zero` passes over an empty one
        )

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        super().__exit__(kind, value, trace)
        if self._complete and kind is None:
            self.check()

    @property
    def preparation(self) -> Preparation | None:
        """How the models were prepared whose schedules these are; None where a server holds those of several."""
        return self._lookup.knowledge.preparation

    def known(self, function: Any) -> Known | None:
        """What is known of a ``PrimFunc``; None where nobody tuned it."""
        return self._lookup.known(function)

    def report(self) -> Report:
        """What TVM asked for so far, and what was found."""
        return self._lookup.report

    def check(self) -> None:
        """Refuse a module of which a function has no record.

        Raises:
            NotFound: naming the functions.
        """
        missing = self.report().missing
        if missing:
            raise NotFound(
                f"{len(missing)} of the module's functions have no record in {self._lookup.knowledge.source}: "
                f"{', '.join(missing)}; run tunesmith.tvm.prepare before all other passes, or tune the model",
                field="database",
                value=missing,
            )


def _refuse(*_: Any) -> None:
    raise InvalidInput("this database is only read: tune the model, and its schedules are found", field="database")


def _knowledge(source: str | os.PathLike[str], target: str | Mapping[str, Any], key: str | None) -> Knowledge:
    if isinstance(source, str) and ADDRESS.match(source) and not os.path.exists(source):
        known = key_in_reach(key)
        return OfServer(source, lambda: Client(source, known), target)
    log = OfLog(source)
    module = log.path / MODULE
    if module.is_file():
        log.keep(BACKEND.workload_hashes(module.read_bytes()))
    return log
