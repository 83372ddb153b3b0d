"""``tunesmith.tune``: what ``tunesmith tune`` does, for an object in a program."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tunesmith.answers.curves import CurveBody
from tunesmith.cli.checks import check_extras, check_target_is_here
from tunesmith.cli.output import INDENT, lay_out
from tunesmith.cli.progress import shown
from tunesmith.cli.summary import report, summarise, write
from tunesmith.cli.tune import Request, checked, connection, reachable, run
from tunesmith.extras import here
from tunesmith.names import DEFAULT_PRECISION
from tunesmith.options import JobOptions
from tunesmith.sdk.calling import ByName
from tunesmith.sdk.sources import source
from tunesmith.sdk.tuned import TunedModel


def tune(
    model: Any,
    inputs: Any = None,
    *,
    target: str = "cpu",
    time: float | None = None,
    trials: int | None = None,
    precision: str = DEFAULT_PRECISION,
    options: JobOptions | None = None,
    until_converged: bool = False,
    name: str | None = None,
    server: str | None = None,
    key: str | None = None,
    data_dir: str | Path | None = None,
    quiet: bool = False,
) -> TunedModel:
    """Tune a model or an operator, and return it as a function.

    Args:
        model: a ``torch.nn.Module`` in evaluation mode, a ``torch.export.ExportedProgram``, an ``onnx.ModelProto``, a
            ``tvm.IRModule`` with a Relax function ``main``, a ``tvm.tirx.PrimFunc``, the path of an ``.onnx``, ``.pt2``
            or TVM ``.json`` file, or an operator spec such as ``gemm:512x512x512:float32``.
        inputs: for an ``nn.Module`` its example inputs: a tensor, a sequence of positional arguments, or a mapping of
            named ones; the model is tuned for their shapes. For other models, shapes of dynamic inputs by name, such as
            ``{"x": (1, 3, 224, 224)}``; a tensor stands for its shape.
        target: ``cpu``, ``cpu:N``, ``cuda``, a TVM tag or target JSON.
        time: seconds for the whole run, without the start of an embedded stack; 300 if neither this nor ``trials`` is
            given.
        trials: how many candidates to measure at most; 0 answers from what is known, without a measurement.
        precision: ``float32``, ``bf16``, ``int8`` or ``auto``.
        options: the job's other options; ``precision`` wins over theirs.
        until_converged: end early when no further gain is expected.
        name: name of the job; the model's by default.
        server: address of a coordinator, such as ``lab:8700``; by default the one of ``TUNESMITH_SERVER``, else one
            that runs on this machine, else an embedded stack for the length of the call.
        key: API key, where the server asks for one (default: ``TUNESMITH_KEY``).
        data_dir: folder where the embedded stack keeps what it learns (default: ``TUNESMITH_DATA_DIR``, else
            ``.tunesmith``).
        quiet: show no progress on standard error.

    Returns:
        The tuned model. Where TVM is not installed it can be saved, and not called.

    Raises:
        InvalidInput: the object, its inputs or an option; a module in training mode.
        ModelRejected: or a subclass, such as DynamicShape: the model cannot be imported, and why.
        NothingToTune: it has no task that a schedule could make faster.
        MissingDependency: no server and no embedded stack, because the server side is not installed.
        JobFailed: the job failed or was cancelled.
    """
    key = key_in_reach(key)
    data = Path(data_dir or os.environ.get("TUNESMITH_DATA_DIR") or ".tunesmith")
    with TemporaryDirectory(prefix="tunesmith-tune-") as work:
        found, result = source(model, inputs, Path(work)), Path(work, "tuned")
        wanted = (options or JobOptions()).model_copy(update={"precision": precision})
        asked = Request(found.model, target, trials, time, until_converged, name, wanted, found.inputs)
        request = checked(asked)
        with shown("starting", quiet) as display:
            chosen = server_in_reach(server, key)
            if chosen is None:
                check_target_is_here(target)
                check_extras(request.model, wanted)
            with connection(target, chosen, key, data, display) as (client, own):
                job, spent = run(client, request, own, display)
                display.phase("saving")
                summary = summarise(client, job, Path(found.model).name, target, spent)
                write(client, job, result, summary)
                taken = client.model(job.model_id).inputs or []
                curve = CurveBody.model_validate(client.curve(job.id), extra="ignore")
                text = lay_out(report(summary, None, data if own else None, client.url), INDENT)
            calling = found.calling or ByName(tuple(each.name for each in taken))
            made = TunedModel(result, job, taken, calling, text, curve)
            if here("tvm") and (job.target_json or {}).get("kind") == "llvm":
                display.phase("compiling")
                made.compile()
            display.job(job)
    return made


def key_in_reach(key: str | None) -> str | None:
    """The API key that is given, else that of ``TUNESMITH_KEY``, if any."""
    return key or os.environ.get("TUNESMITH_KEY")


def server_in_reach(server: str | None, key: str | None) -> str | None:
    """The address of the server that is named, else of ``TUNESMITH_SERVER``, else of one on this machine, if any."""
    return server or os.environ.get("TUNESMITH_SERVER") or reachable(key)
