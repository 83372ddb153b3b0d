"""Decision rows of what was measured, from recordings or from a database."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from costmodels.base import Floats32
from costmodels.labelled import Measured
from db.blobs import BlobStore
from db.engine import create_engine, session_factory
from db.queries import devices, measured, sketches
from db.queries.measured import MeasuredCandidate, MeasuredWorkload
from tunesmith.analysis import machine_code
from tunesmith.analysis.prior import Unit
from tunesmith.dataset.again import Again
from tunesmith.dataset.code import key
from tunesmith.errors import InvalidInput, NotFound
from tunesmith.messages import Calibration
from tunesmith.names import FLOAT32
from tunesmith.operators import parse_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import of_operator
from tunesmith.targets import Target
from tunesmith.testing.replay import Recording
from workers.settings import Settings
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.design_space.space import TraceSpace, generate
from workers.tvm_backend.design_space.static_model import prior_of
from workers.tvm_backend.frontends.operator_module import prepare_operator
from workers.tvm_backend.passes.extract_tasks import extract_tasks
from workers.tvm_backend.warm import warm

MAX_RECORDS = 100_000
"""Records of a target that are learned from at most, the newest ones."""
DATABASE = "tunesmith.db"


def of_recordings(folder: Path) -> list[Measured]:
    """Every complete recording of a folder whose sketches this version makes.

    Raises:
        InvalidInput: there is none.
    """
    loaded = [Recording.load(path) for path in sorted(folder.glob("*.npz"))]
    made = [_recorded(each) for each in loaded if not each.missing]
    found = [each for each in made if each is not None]
    if not found:
        raise InvalidInput(
            f"{folder.name} has no complete recording of sketches that this version makes: make some with 'tunesmith "
            "bench replay collect'",
            field="folder",
            value=folder.name,
        )
    return found


def _recorded(recording: Recording) -> Measured | None:
    target, operator = Target(json.loads(str(recording.facts["target"]))), parse_operator(recording.name)
    warm(target.kind)
    preparation = of_operator("llvm", operator, JobOptions(fast_math=False), target.tiled)
    (task,) = extract_tasks(prepare_operator(operator, preparation).module)
    bodies = generate(task.module, target)
    if not {sketch.hash for sketch in recording.space.sketches} <= {body.hash for body in bodies}:
        return None
    traces, points = TraceSpace(task.module, target, bodies), recording.points
    prior = prior_of(traces, target, None)
    assert prior is not None, "recordings are of CPUs"
    # A recorded space has some choices of each knob, and the same sketches.
    batch = traces.space.batch(recording.space.candidates(recording.space.at(points)))
    rows = prior.rows(batch, task.workload.family, FLOAT32)
    seconds, spread = recording.seconds[points], recording.spread[points]
    return Measured(recording.name, task.workload.family, frozenset(), rows, seconds, spread, target=target.hash)


def of_folder(
    folder: Path,
    target: str | None = None,
    precision: str = FLOAT32,
    sampler: str | None = None,
    without: Collection[str] = (),
    imported: bool = False,
    again: Sequence[Again] = (),
    code: Mapping[str, Floats32] = MappingProxyType({}),
) -> list[Measured]:
    """What a service's data folder or a folder of recordings holds.

    Args:
        target: hash; None: the target with most records. Recordings are taken whatever it is.
        sampler: see :func:`load`.
        without: hashes of workloads that are left out.
        imported: what was imported is taken, too.
        again: further measurements of the records; see :func:`replaced`. Programs of all but the first are only learned
            from.
        code: counts of machine code by the records' keys, for the records' own target.

    Raises:
        InvalidInput: there is nothing.
    """
    if not (folder / DATABASE).is_file():
        return of_recordings(folder)
    rows = in_database(folder, target, precision, sampler, imported)
    if rows is not None:
        rows = replace(rows, workloads=[each for each in rows.workloads if each.hash not in without])
    found: list[Measured] = []
    for number, further in enumerate(again or [None]):
        taken = rows if rows is None or further is None else _again(rows, further, failures=not number)
        read = code if rows is None or taken is None or taken.target == rows.target else {}
        measured = of_records(taken, blobs_of(folder), code=read) if taken else []
        found += [replace(each, judges=not number) for each in measured]
    if not found:
        what = "record" if sampler is None else f"label of the sampler {sampler!r}"
        raise InvalidInput(
            f"the database in {folder.name} has no {what} in {precision} to judge by", field="folder", value=folder.name
        )
    return found


def _again(found: Found, further: Again, failures: bool) -> Found:
    """Records with other latencies; failures go with one measurement, and only with one on their own processor."""
    there = further.processor if further.processor and further.processor.target != found.target else None
    failures = failures and there is None
    again = {key: replaced(each, further.latencies) for key, each in found.rows.items()}
    left = {
        key: [row for row in each if failures or row.latency is not None]
        for key, each in again.items()
        if any(row.latency is not None for row in each)
    }
    found = replace(found, rows=left, workloads=[each for each in found.workloads if each.hash in left])
    return found if there is None else replace(found, target=there.target, calibration=there.calibration)


def in_database(
    folder: Path,
    target: str | None = None,
    precision: str = FLOAT32,
    sampler: str | None = None,
    imported: bool = False,
) -> Found | None:
    """The records of a service's data folder; None where there are none. For the arguments see :func:`of_folder`."""
    engine = create_engine(Settings(data_dir=folder).url())
    with session_factory(engine, read_only=True)() as session:
        key = target or measured.richest_target(session, imported)
        return load(session, key, precision, MAX_RECORDS, sampler, imported) if key else None


def blobs_of(folder: Path) -> BlobStore:
    """The blobs of a service's data folder."""
    return BlobStore(Settings(data_dir=folder).blobs())


def replaced(rows: Sequence[MeasuredCandidate], again: Mapping[str, float]) -> list[MeasuredCandidate]:
    """Records with the latencies of a second measurement, and failures; those that it left out are left out."""
    return [
        row if row.latency is None else replace(row, latency=again[str(row.content)], samples=())
        for row in rows
        if row.latency is None or row.content in again
    ]


@dataclass(frozen=True)
class Found:
    """Records of a target as the database has them. ``through``: id of the newest one."""

    target: Target
    precision: str
    calibration: Calibration | None
    rows: Mapping[str, Sequence[MeasuredCandidate]]
    workloads: Sequence[MeasuredWorkload]
    bodies: Mapping[str, dict[str, Any]]
    through: int


def load(
    session: Session,
    target_hash: str,
    precision: str,
    limit: int,
    sampler: str | None = None,
    imported: bool = False,
) -> Found:
    """The newest records of a target and a precision.

    Args:
        sampler: only labels of collecting jobs with that sampler; None: whatever was measured.
        imported: what was imported, too.

    Raises:
        NotFound: there is no such target.
        InvalidInput: the target is no CPU, and has no static model.
    """
    known = measured.target(session, target_hash)
    if known is None:
        raise NotFound(f"there is no target {target_hash}", field="target", value=target_hash)
    target, device_class = known
    if target.kind != "llvm":
        raise InvalidInput("the ranker corrects the static model of CPUs: give one", field="target", value=target_hash)
    calibrated = devices.calibration(session, device_class)
    rows = measured.candidates(session, target_hash, precision, limit, sampler, imported)
    by_workload: dict[str, list[MeasuredCandidate]] = {}
    for row in rows:
        by_workload.setdefault(row.workload, []).append(row)
    return Found(
        target,
        precision,
        Calibration.model_validate(calibrated) if calibrated else None,
        by_workload,
        measured.workloads(session, by_workload),
        sketches.get(session, {str(row.candidate.sketch) for row in rows}),
        max((row.id for row in rows), default=0),
    )


def of_records(
    found: Found,
    blobs: BlobStore,
    unit: Unit = contextlib.nullcontext,
    code: Mapping[str, Floats32] = MappingProxyType({}),
) -> list[Measured]:
    """Decision rows of records, and what ``code`` has of them; ``unit`` is entered for each small piece of work."""
    warm(found.target.kind)
    return [_measured(found, workload, blobs, unit, code) for workload in found.workloads]


def _measured(
    found: Found, workload: MeasuredWorkload, blobs: BlobStore, unit: Unit, code: Mapping[str, Floats32]
) -> Measured:
    rows = [row for row in found.rows[workload.hash] if row.candidate.sketch in found.bodies]
    keys = dict.fromkeys(str(row.candidate.sketch) for row in rows)
    bodies = [SketchBody.from_json(found.bodies[key]) for key in keys]
    with unit():
        traces = TraceSpace(blobs.get_bytes(workload.module_blob), found.target, bodies)
    prior = prior_of(traces, found.target, found.calibration, unit)
    assert prior is not None, "it is a CPU"
    known = traces.space.known([row.candidate for row in rows])
    rows = [row for row, mine in zip(rows, known, strict=True) if mine]
    batch = traces.space.batch([row.candidate for row in rows])
    features = prior.rows(batch, workload.family, found.precision)
    latency = np.array([np.inf if row.latency is None else row.latency for row in rows], dtype=np.float64)
    counts = _counts(rows, code) if code else None
    return Measured(
        workload.name,
        workload.family,
        workload.models,
        features,
        latency,
        _spread(rows),
        counts,
        hash=workload.hash,
        target=found.target.hash,
    )


def _counts(rows: Sequence[MeasuredCandidate], code: Mapping[str, Floats32]) -> Floats32:
    """Counts of their machine code, float32 [rows, counts]; NaN where nobody read it."""
    unread = np.full(len(machine_code.COLUMNS), np.nan, dtype=np.float32)
    return np.stack([code.get(key(str(row.content)), unread) for row in rows])


def _spread(rows: Iterable[MeasuredCandidate]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Relative standard deviations of latencies, which are medians of samples; 0 for a single one.

    That of a sample is estimated without the say of a disturbed one, from the median absolute deviation. A median of n
    normal samples has √(π/2n) of it (Laplace, 1818).
    """
    return np.array([_of_median(np.asarray(row.samples)) for row in rows], dtype=np.float64)


def _of_median(samples: np.ndarray[Any, Any]) -> float:
    if len(samples) < 2:
        return 0.0
    median = np.median(samples)
    of_one = 1.4826 * np.median(abs(samples - median)) / median
    return float(np.sqrt(np.pi / (2 * len(samples))) * of_one)
