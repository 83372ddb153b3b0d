"""Import a file of records: claims that searchers may begin with, and that nothing answers with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.orm import Session

from db import clock
from db.models import RecordImport, TargetRow
from db.queries import by_key, record_imports
from db.transactions import record_import
from db.transactions.record_import import Claim
from tunesmith.dataset.judge import Named, Reason, quarantined
from tunesmith.dataset.rows import About, Definition, Kind, RecordRow, digest, public
from tunesmith.errors import TunesmithError
from tunesmith.messages import Calibration, ImportRecords
from tunesmith.space.knobs import Knob
from tunesmith.targets import Target, parse_target
from workers.core import record_file
from workers.core.context import Context
from workers.core.leased import Lease, run_leased
from workers.tvm_backend.design_space.sketch import SketchBody

FILL, WRITE = 1000, 5000
"""Records of one transaction: those that get the hash of their content, and those that are stored."""
SKETCH_BYTES = 1_000_000


def import_records(context: Context, message: ImportRecords) -> bool:
    """The task ``tunesmith.import_records``. What a lost attempt stored is known to the next one."""

    def work(lease: Lease) -> None:
        with context.readers() as session:
            row = by_key.existing(session, RecordImport, message.import_id)
        while context.write(lambda session: record_import.fill_contents(session, FILL)) == FILL:
            lease.check()
        context.blobs.size(row.file_hash)  # NotFound where it is gone
        path = context.blobs.path(row.file_hash)
        run = _Import(context, row, lease)
        with record_file.opened(context.importing, path) as file:
            for group in range(file.groups):
                lease.check()
                run.take(file.rows(group))
            manifest = file.manifest.model_dump(mode="json", by_alias=True)
        context.write(lambda session: record_import.finish(session, lease.hold(session), manifest, run.result(session)))

    timeout = context.settings.ingest_timeout
    return run_leased(context, RecordImport, message.import_id, message.attempt, timeout, work)


class _Import:
    """What one import has read so far, by the hashes that records name."""

    def __init__(self, context: Context, row: RecordImport, lease: Lease) -> None:
        self._context, self._id, self._queued, self._lease = context, row.id, row.created_at, lease
        self._targets: dict[str, Target] = {}
        self._workloads: dict[str, tuple[str, Sequence[Any], float]] = {}
        self._knobs: dict[str, tuple[Knob, ...]] = {}
        self._bodies: dict[str, dict[str, Any]] = {}
        self._environments: dict[str, dict[str, Any]] = {}
        self._rows = self._known = 0
        self._refused: Counter[Reason] = Counter()
        self._examples: dict[Reason, str] = {}
        self._new: Counter[str] = Counter()
        with context.readers() as session:
            self._calibrations = record_imports.calibrations(session)
            self._now = clock.now(session)

    def take(self, rows: Iterable[Definition | RecordRow]) -> None:
        """Store what a group of rows brings."""
        definitions: list[Definition] = []
        claims: list[Claim] = []
        for row in rows:
            if isinstance(row, Definition):
                definitions.append(row)
                continue
            self._define(definitions)
            definitions.clear()
            claim = self._claim(row)
            if claim is not None:
                claims.append(claim)
            if len(claims) == WRITE:
                self._store(claims)
                claims = []
        self._define(definitions)
        self._store(claims)

    def result(self, session: Session) -> dict[str, Any]:
        """Counts, at the end."""
        added, failures = record_imports.added(session, self._id, self._queued)
        return {
            "rows": self._rows,
            "added": added,
            "failures": failures,
            "known": self._rows - added - self._refused.total(),
            "quarantined": {reason.value: number for reason, number in sorted(self._refused.items())},
            "examples": {reason.value: text for reason, text in sorted(self._examples.items())},
            "workloads": self._new["workloads"],
            "sketches": self._new["sketches"],
            "targets": self._new["targets"],
        }

    def _claim(self, row: RecordRow) -> Claim | None:
        self._rows += 1
        target, work = self._targets.get(row.target), self._workloads.get(row.workload)
        environment = self._environments.get(row.environment)
        named = Named(
            args=work[1] if work else None,
            flops=work[2] if work else 0.0,
            target=target.json if target else None,
            knobs=() if row.sketch is None else self._knobs.get(row.sketch),
            environment=environment,
            calibration=self._calibration(target, environment),
        )
        found = quarantined(row, named, self._now)
        if found is not None:
            reason, example = found
            self._refused[reason] += 1
            self._examples.setdefault(reason, example[:300])
            return None
        assert environment is not None
        assert work is not None
        return Claim(row, row.content, environment, About.of(work[0], environment))

    def _calibration(self, target: Target | None, environment: dict[str, Any] | None) -> Calibration | None:
        if target is None or environment is None:
            return None
        return self._calibrations.get((target.device_class, str(environment.get("cpu", ""))))

    def _store(self, claims: Sequence[Claim]) -> None:
        """Those that are not there yet, and the sketches that they name."""
        self._lease.check()
        # Equal sketches of several workloads are one, so it is the first record that says of which this one is.
        named = {str(row.sketch): row.workload for row in (claim.row for claim in reversed(claims))}
        sketches = [(hash_, named[hash_], self._bodies.pop(hash_)) for hash_ in named if hash_ in self._bodies]

        def store(session: Session) -> int:
            known = record_imports.known_sketches(session, [hash_ for hash_, _, _ in sketches])
            record_import.add_sketches(session, [each for each in sketches if each[0] not in known])
            own = record_imports.measured_contents(session, [claim.content for claim in claims])
            record_import.add_records(session, self._id, [claim for claim in claims if claim.content not in own])
            return len(sketches) - len(known)

        if claims:
            self._new["sketches"] += self._context.write(store)

    def _define(self, definitions: Sequence[Definition]) -> None:
        of_kind = {kind: [each for each in definitions if each.kind is kind] for kind in Kind}
        for each in of_kind[Kind.ENVIRONMENT]:
            if digest(each.body) == each.hash and public(each.body) == each.body:
                self._environments[each.hash] = each.body
        if of_kind[Kind.TARGET]:
            self._define_targets(of_kind[Kind.TARGET])
        if of_kind[Kind.WORKLOAD]:
            self._define_workloads(of_kind[Kind.WORKLOAD])
        if of_kind[Kind.SKETCH]:
            self._define_sketches(of_kind[Kind.SKETCH])

    def _define_targets(self, found: Sequence[Definition]) -> None:
        targets = {each.hash: target for each in found if (target := _target(each)) is not None}

        def store(session: Session) -> int:
            new = set(targets) - record_imports.known_targets(session, targets)
            rows = [
                TargetRow(hash=key, json=dict(targets[key].json), device_class=targets[key].device_class) for key in new
            ]
            record_import.add_targets(session, rows)
            return len(new)

        self._new["targets"] += self._context.write(store)
        self._targets |= targets

    def _define_workloads(self, found: Sequence[Definition]) -> None:
        """Known ones are as they are here; of others only the module is looked at, in a box of its own."""
        with self._context.readers() as session:
            known = record_imports.known_workloads(session, [each.hash for each in found])
        for hash_, row in known.items():
            self._workloads[hash_] = row.family, row.args, row.flops
        new = [each for each in found if each.hash not in known and {"name", "module"} <= set(each.body)]
        if not new:
            return
        described = record_file.describe(self._context.importing, self._context.blobs, new)
        right = [each for each, claimed in zip(described, new, strict=True) if each.hash == claimed.hash]
        self._context.write(lambda session: record_import.add_workloads(session, [each.columns for each in right]))
        self._new["workloads"] += len(right)
        for each in right:
            self._workloads[each.hash] = each.columns["family"], each.columns["args"], each.columns["flops"]

    def _define_sketches(self, found: Sequence[Definition]) -> None:
        """Kept until a record names them."""
        for each in found:
            body = _sketch(each)
            if body is not None and each.hash not in self._knobs:
                self._knobs[each.hash], self._bodies[each.hash] = body.knobs, each.body["body"]


def _target(found: Definition) -> Target | None:
    """None for what is no target that this version knows, or has another hash."""
    try:
        target = Target(found.body)
        parse_target(found.body)
        return target if target.hash == found.hash and target.device_class else None
    except (TunesmithError, KeyError, ValueError, TypeError):
        return None


def _sketch(found: Definition) -> SketchBody | None:
    """None for what is no sketch that this version reads, or has another hash."""
    body = found.body.get("body")
    try:
        read = SketchBody.from_json(body) if isinstance(body, dict) else None
        return read if read is not None and read.hash == found.hash and len(read.to_json()) <= SKETCH_BYTES else None
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
