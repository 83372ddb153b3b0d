"""Imports in boxes: a user's file goes in, claims come out."""

from __future__ import annotations

import logging
import math
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from db.blobs import BlobStore
from db.transactions.model_import import Imported, ImportedTask
from tunesmith.arithmetic import NARROW
from tunesmith.errors import ModelRejected
from tunesmith.names import INT8
from tunesmith.preparation import Preparation
from workers.core import claims
from workers.sandbox.box import probe
from workers.sandbox.box.base import Limits
from workers.sandbox.boxed import BadOutput, Box, Boxes
from workers.sandbox.limits import EXHAUSTED_SHARE, allowance, exit_reason
from workers.sandbox.pool import Actor
from workers.sandbox.process import ChildCrashed, ChildGarbled, ChildTimeout, End
from workers.settings import Settings
from workers.tvm_backend.frontends.boxed_import import MODEL, MODULE, PARAMS, task_file

log = logging.getLogger("tunesmith.import")

IMPORTER = "workers.tvm_backend.run.precisions:Importer"
LOAD_SECONDS = 120.0
MODULE_BYTES = 1 << 30
TASK_BYTES = 64 << 20
CHUNK = 1 << 20
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that end a process for no fault of its own."""


class ImportLost(Exception):
    """The box was ended by somebody else, or could not be entered: the model may be tried again."""


@dataclass(frozen=True)
class Upload:
    """What is to be imported.

    Attributes:
        source: ``onnx``, ``pt2``, ``tvm``, ``operator`` or ``operators``.
        path: the file, or a list of operators; None for a single one.
        operator: the operator's text.
        shapes: static shapes by input.
    """

    source: str
    path: Path | None
    operator: str
    shapes: Mapping[str, tuple[int, ...]]
    preparation: Preparation


class Importing:
    """The importers of one process, which is the only one to use them and has one thread for that.

    Two processes are kept warm, one with PyTorch; boxes are forked from them. Nothing is started before it is needed,
    or asked for with :meth:`begin`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._boxes: dict[bool, Boxes] = {}

    def begin(self) -> None:
        """Load what most models need without waiting for it."""
        if probe.choose(trust=True) or self._settings.trust_models:
            self._of(torch=False).begin()

    def close(self) -> None:
        """End the warm processes."""
        while self._boxes:
            self._boxes.popitem()[1].close()

    def run(self, upload: Upload, blobs: BlobStore) -> Imported:
        """Import, and store the result.

        Raises:
            ModelRejected, InvalidInput: the model's fault, its limits among them.
            MissingDependency: a package, or anything to box the import in.
            ImportLost, ChildRaised: nobody's fault that is known.
        """
        boxes = self._of(torch=upload.source == "pt2")
        try:
            with boxes.open(self._limits()) as box:
                if upload.path is not None:
                    shutil.copyfile(upload.path, box.folder / MODEL)
                wanted = (upload.source, upload.operator, dict(upload.shapes), upload.preparation)
                note = claims.note(self.ask(box, "prepare", *wanted))
                module = _store(box, MODULE, MODULE_BYTES, blobs)
                params = _store(box, PARAMS, self._limits().file_bytes, blobs)
            with self.open_box() as box:  # one that never saw the user's file
                shutil.copyfile(blobs.path(module), box.folder / MODULE)
                split = claims.split(self.ask(box, "split"))
                if upload.preparation.precision == INT8:
                    log.info(
                        "%.1f %% of the model's operations are in kernels of bytes",
                        100 * split.share(NARROW[INT8].products),
                    )
                return Imported(module, params, split.specs(), _tasks(box, split, blobs), split.params_size, note)
        except BadOutput as error:
            raise ModelRejected(f"the import gave an invalid result: {error}", field="file") from error

    def try_precisions(
        self, upload: Upload, preparations: Sequence[Preparation], tolerance: float
    ) -> Sequence[claims.PrecisionClaim]:
        """How far the outputs of preparations of a file lie from float32's, up to the first within the tolerance.

        Raises:
            What :meth:`run` raises.
        """
        assert upload.path is not None
        with self._of(torch=upload.source == "pt2").open(self._limits()) as box:
            shutil.copyfile(upload.path, box.folder / MODEL)
            wanted = (upload.source, dict(upload.shapes), list(preparations), tolerance)
            return claims.precisions(self.ask(box, "try_precisions", *wanted))

    def open_box(self) -> Box:
        """A box of an importer that has seen no user's file, for use in ``with``."""
        return self._of(torch=False).open(self._limits())

    def _of(self, torch: bool) -> Boxes:
        if torch not in self._boxes:
            walls = probe.choose(self._settings.trust_models)
            hidden = tuple(path.resolve() for path in (self._settings.data_dir, self._settings.blobs()))
            self._boxes[torch] = Boxes(Actor(IMPORTER, (torch,), start_timeout=LOAD_SECONDS), walls, hidden)
        return self._boxes[torch]

    def _limits(self) -> Limits:
        memory = allowance(self._settings.import_memory_share)
        return Limits(memory=memory, cpu_seconds=math.ceil(self._settings.import_cpu_seconds))

    def ask(self, box: Box, method: str, *arguments: Any) -> Any:
        """What the box answers. Raises ModelRejected at the limits of an import, ImportLost."""
        limit = self._settings.import_seconds
        try:
            return box.call(method, *arguments, timeout=limit)
        except ChildTimeout as error:
            raise ModelRejected(
                f"the import was stopped after {limit:g} s (TUNESMITH_IMPORT_SECONDS)", field="file"
            ) from error
        except ChildGarbled as error:
            raise ModelRejected(f"the import gave {error}", field="file") from error
        except ChildCrashed as error:
            raise self._why(error.end, box.said()) from error

    def _why(self, end: End, said: str) -> Exception:
        """Another try makes no sense where the model alone is to blame."""
        text, allowed = exit_reason(end.code, end.peak, end.limit, said), self._settings.import_cpu_seconds
        if end.limit and end.peak >= EXHAUSTED_SHARE * end.limit:
            text += " (TUNESMITH_IMPORT_MEMORY_SHARE)"
        elif end.cpu >= EXHAUSTED_SHARE * allowed:
            text = f"was ended after {end.cpu:.0f} s of processor time (TUNESMITH_IMPORT_CPU_SECONDS: {allowed:g})"
        elif end.code >= 0 or -end.code in FROM_OUTSIDE:
            return ImportLost(f"the import {text}")
        return ModelRejected(f"the import {text}", field="file")


def _store(box: Box, name: str, most: int, blobs: BlobStore) -> str:
    """Copy an output into the store: its hash is that of what was copied, whatever the box does to it meanwhile."""
    with box.output(name, most) as file, blobs.writer() as writer:
        _copy(file, writer.write, most)
    return writer.sha


def _store_small(box: Box, name: str, blobs: BlobStore) -> str:
    """The same of a file that fits in memory; one that is there already, as most tasks' are, costs no writing."""
    with box.output(name, TASK_BYTES) as file:
        data = file.read(TASK_BYTES + 1)
    if len(data) > TASK_BYTES:
        raise BadOutput("a file grew")
    return blobs.put_bytes(data)


def _copy(file: BinaryIO, write: Any, most: int) -> None:
    while chunk := file.read(CHUNK):
        most -= len(chunk)
        if most < 0:
            raise BadOutput("a file grew")
        write(chunk)


def _tasks(box: Box, split: claims.SplitClaim, blobs: BlobStore) -> tuple[ImportedTask, ...]:
    """The tasks, those of equal workloads as one."""
    found: dict[str, ImportedTask] = {}
    for index, task in enumerate(split.tasks):
        known = found.get(task.hash)
        found[task.hash] = ImportedTask(
            workload=known.workload if known else task.workload(),
            weight=task.weight + (known.weight if known else 0),
            module_blob=_store_small(box, task_file(index, "module"), blobs),
            metaschedule_blob=_store_small(box, task_file(index, "metaschedule"), blobs),
            alternative_of=task.alternative_of,
            weights=known.weights if known else tuple(task.weights),
        )
    return tuple(found.values())
