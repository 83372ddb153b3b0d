"""Passes for a user's own pipeline, and the importers whose modules have the tuned form."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tunesmith.errors import InvalidInput, catalogue
from tunesmith.operators import looks_like_operator
from tunesmith.options import JobOptions
from tunesmith.preparation import Preparation, for_target
from tunesmith.sdk.sources import shapes, source
from tunesmith.targets import Target, parse_target
from tunesmith.tvm.database import BACKEND, Database
from workers import in_process

import tvm  # isort: skip
import tvm_ffi  # isort: skip

log = logging.getLogger("tunesmith.tvm")

for error in catalogue().values():  # a pass that refuses a module says so by the same errors as everything else
    tvm_ffi.register_error(f"tunesmith.{error.__name__}", error)


def prepare(
    target: Any = "cpu",
    *,
    database: Database | None = None,
    options: JobOptions = JobOptions(),
    inputs: Mapping[str, Any] | None = None,
) -> Any:
    """The pass that brings a module into the form in which the service tunes models.

    It folds constants, lowers operators to functions and fuses them, for CPUs with feature maps in blocks of channels
    and with fast math. It goes first: a module that was lowered or fused before has lost what the form is made of.
    Later passes, ``zero`` among them, leave the functions as they are.

    Args:
        target: ``cpu``, a TVM tag, target JSON, or a ``tvm.target.Target``.
        database: says how its models were prepared, if all were alike, and where a convolution by Winograd's algorithm
            is the faster one; without it convolutions are direct.
        options: options of the job that tuned the model, where they are not the default ones.
        inputs: shapes of dynamic inputs by name.

    Returns:
        A ``tvm.transform.Pass``: call it with a module, or put it into a ``tvm.transform.Sequential``.

    Raises:
        UnknownTarget: no such target.
        PrecisionUnavailable: not the precision of these options.
    """
    preparation = _preparation(target, database, options)
    extents = shapes(inputs)

    def better(direct: Any, other: Any) -> bool:
        if database is None:
            return False
        ours, theirs = database.known(direct), database.known(other)
        if theirs is None or theirs.trace is None or theirs.seconds is None:
            return False
        return ours is None or ours.seconds is None or theirs.seconds < ours.seconds

    def prepared(mod: Any, _: Any) -> Any:
        made, note = BACKEND.in_tuned_form(mod, preparation, extents, better)
        if note:
            log.warning("%s", note)
        return made

    return tvm.transform.module_pass(prepared, opt_level=0, name="tunesmith.prepare")


def defaults(target: Any) -> Any:
    """The pass that schedules what has no record: as the exported ``compile.py`` does it, on CPUs in parallel.

    Args:
        target: the ``tvm.target.Target`` for which the module is built.

    Returns:
        A ``tvm.transform.Pass``, to run after the database was applied.
    """
    return tvm.transform.module_pass(
        lambda mod, _: BACKEND.with_defaults(mod, target), opt_level=0, name="tunesmith.defaults"
    )


def load(model: Any, inputs: Any = None) -> Any:
    """A model as a ``tvm.IRModule``, by the importers of the service.

    TVM's own importers write some operators in other ways, so that fewer functions are found.

    Args:
        model: what :func:`tunesmith.tune` takes, but for operator specs.
        inputs: as there.

    Raises:
        InvalidInput: the object, or its inputs.
        ModelRejected: or a subclass: it cannot be imported, and why.
    """
    if isinstance(model, str) and looks_like_operator(model):
        raise InvalidInput(f"{model} is an operator spec: give a model, or a path", field="model", value=model)
    with TemporaryDirectory(prefix="tunesmith-load-") as folder:
        found = source(model, inputs, Path(folder))
        return in_process.imported(Path(found.model), found.inputs)


def _preparation(target: Any, database: Database | None, options: JobOptions) -> Preparation:
    if database is not None and database.preparation is not None:
        return database.preparation
    options.check_values()
    if isinstance(target, tvm.target.Target):
        known = Target(dict(target.export()))
        return for_target(known.kind, False, options, known.tiled)
    spec = parse_target(target)
    return for_target(spec.kind, False, options, () if spec.target is None else spec.target.tiled)
