"""A library on this machine without a job: schedules that are known, a relative's, or the static model's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tunesmith.data_folder import BLOBS, DATABASE
from tunesmith.errors import InvalidInput
from tunesmith.options import JobOptions
from tunesmith.targets import Target
from tunesmith.types import TensorSpec
from tunesmith.unmeasured import Answer, Known
from workers.tvm_backend.build.local_model import LocalModel, default_preparation, local_target

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from db.blobs import BlobStore

DATA_DIR = Path(".tunesmith")


@dataclass(frozen=True)
class Compiled:
    """What was compiled: ``note`` is the model's, ``answers`` are the schedules that were chosen without a log."""

    target: Target
    preparation: str
    schedules: int
    missing: list[str]
    inputs: tuple[TensorSpec, ...]
    note: str = ""
    answers: list[Answer] = field(default_factory=list)


def by_knowledge(
    model: str,
    shapes: Mapping[str, tuple[int, ...]],
    library: Path,
    target: str,
    data_dir: Path | None,
    options: JobOptions,
    elsewhere: Callable[[str], Known | None] = lambda workload: None,
) -> Compiled:
    """Compile a file or an operator spec.

    Args:
        library: the library to write; intermediate files lie beside it.
        target: a short name, a tag or JSON, see :func:`local_target`.
        data_dir: where earlier jobs left what they found; None: nowhere.
        elsewhere: asked first for what is known of a workload, by its hash.

    Raises:
        ModelRejected, MissingDependency, PrecisionUnavailable: as when the model is submitted.
        UnknownTarget, TargetUnavailable: see :func:`local_target`.
        InvalidInput: there is no such data folder.
        MeasurementFailed: TVM cannot build the model.
    """
    from workers.core import choosers

    with _dataset(data_dir) as (session, blobs), choosers.processes(model) as chosen:
        meant = local_target(target)  # imports TVM, as the processes do by now
        from workers.core.unmeasured_model import records, schedules

        local = LocalModel(model, shapes, library.parent, default_preparation(model, meant, options))
        found = schedules(local.module, meant, session, elsewhere, blobs, chosen)
    made = records(found, meant)
    missing = local.compile(library, meant, made)
    answers = [answer for _, answer in found]
    return Compiled(meant, local.preparation.key, len(made), missing, local.inputs, local.note, answers)


@contextmanager
def _dataset(data_dir: Path | None) -> Iterator[tuple[Session | None, BlobStore | None]]:
    """A session that reads what earlier jobs left, and their files; None where none ran.

    Raises:
        SchemaMismatch: another version keeps it.
    """
    from db import revision
    from db.blobs import BlobStore
    from db.engine import create_engine, session_factory, sqlite_url

    path = (data_dir or DATA_DIR).expanduser().absolute() / DATABASE
    if data_dir is None or not path.is_file():
        if data_dir not in (None, DATA_DIR):
            raise InvalidInput(
                f"there is no database in {data_dir}: give the data folder of a stack, or leave it out",
                field="data_dir",
                value=str(data_dir),
            )
        yield None, None
        return
    revision.check(sqlite_url(path))
    engine, blobs = create_engine(sqlite_url(path)), path.with_name(BLOBS)
    try:
        with session_factory(engine, read_only=True)() as session:
            yield session, BlobStore(blobs) if blobs.is_dir() else None
    finally:
        engine.dispose()
