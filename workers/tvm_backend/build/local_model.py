"""A model on this machine, from its file to libraries: for ``tunesmith compile`` and ``tunesmith compare``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tunesmith.errors import InvalidInput, TargetUnavailable
from tunesmith.metaschedule import DatabaseRecord, write_database
from tunesmith.model_files import source_by_content
from tunesmith.operators import looks_like_operator, parse_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import Preparation, for_target, of_operator
from tunesmith.targets import Target, parse_target
from tunesmith.types import TensorSpec
from workers.tvm_backend.host import describe
from workers.tvm_backend.warm import warm


class PreparedModel:
    """A module that was prepared, and its parameters.

    Args:
        module: JSON of the prepared module.
        params: ``.npz`` of its parameters.
        folder: where intermediate files go.
    """

    def __init__(self, module: bytes, params: Path, folder: Path) -> None:
        warm("llvm")
        self.module, self.params, self._folder = module, params, folder

    def drawn_inputs(self) -> tuple[TensorSpec, ...]:
        """What the model takes, with the values to draw for it."""
        from workers.tvm_backend.passes.value_ranges import models

        return models.drawn_inputs(self.module)

    def compile(self, out: Path, target: Target, records: list[DatabaseRecord] | None) -> list[str]:
        """Write a library whose ``main`` takes the model's inputs; returns the tasks that found no schedule.

        Args:
            out: the library.
            target: what to compile for.
            records: schedules to apply; None compiles untuned.

        Raises:
            InvalidInput: there are schedules, and none fits the model; the library is of no use then.
        """
        from workers.tvm_backend.build.compile_model import compile_model

        database = None
        if records is not None:
            database = self._folder / "database"
            write_database(database, records)
        compiled = compile_model(self.module, self.params, target, database, out, bind=True)
        if records and not compiled.applied:
            raise InvalidInput(
                "no schedule in the log fits the model: the log belongs to another model or other input shapes; "
                "pass the log of a job that tuned this model",
                field="log",
            )
        return compiled.missing


class LocalModel(PreparedModel):
    """A prepared model in a working folder.

    Args:
        model: a file or an operator spec.
        inputs: static shapes by input name.
        folder: where intermediate files go.
        preparation: as of the job whose schedules it will take; see :func:`default_preparation` where there is none.

    Attributes:
        inputs: what the model takes.
        module: JSON of the prepared module.
        params: ``.npz`` of its parameters.
        note: what the preparation was to be and is not; empty where there is no such thing.
        preparation: how it was prepared.

    Raises:
        ModelRejected, InvalidOperator, MissingDependency: as when it is submitted.
    """

    inputs: tuple[TensorSpec, ...]
    module: bytes
    params: Path
    note: str
    preparation: Preparation

    def __init__(
        self, model: str, inputs: Mapping[str, tuple[int, ...]], folder: Path, preparation: Preparation
    ) -> None:
        warm("llvm")
        from workers.tvm_backend.frontends.import_model import import_model
        from workers.tvm_backend.frontends.operator_module import prepare_operator
        from workers.tvm_backend.passes.pipeline import prepare, save_params

        if looks_like_operator(model):
            prepared = prepare_operator(parse_operator(model), preparation)
        else:
            prepared = prepare(import_model(model, source_by_content(Path(model)), inputs), preparation)
        super().__init__(prepared.module, folder / "params.npz", folder)
        self.inputs, self.note, self.preparation = prepared.inputs, prepared.note, preparation
        save_params(prepared.params, self.params)


def default_preparation(model: str, target: Target, options: JobOptions = JobOptions()) -> Preparation:
    """How a job for ``target`` prepares a file or an operator spec.

    Raises:
        PrecisionUnavailable: not in the precision of the options.
    """
    if looks_like_operator(model):
        return of_operator(target.kind, parse_operator(model), options, target.tiled)
    return for_target(target.kind, False, options, target.tiled)


def local_target(spec: str) -> Target:
    """The target that a short name means on this host.

    Raises:
        UnknownTarget: it is none.
        TargetUnavailable: it is ``cuda``, which says too little to compile for.
    """
    parsed = parse_target(spec)
    if parsed.target is not None:
        return parsed.target
    if parsed.kind == "cuda":
        raise TargetUnavailable(
            "name the GPU by its tag, such as nvidia/nvidia-h100, or by target JSON", field="target", value=spec
        )
    host = describe()
    return Target(host.target | {"num-cores": parsed.cores or host.cores})


def target_of(records: list[DatabaseRecord]) -> Target | None:
    """The target that schedules were found for."""
    return Target(dict(records[0].target)) if records else None
