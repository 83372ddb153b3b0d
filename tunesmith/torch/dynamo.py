"""What ``torch.compile`` calls: a graph in, a function out, and tuning behind it."""

from __future__ import annotations

import functools
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import fx

from tunesmith.answers.models import TensorBody
from tunesmith.cli.checks import LEAST_SECONDS
from tunesmith.client import Client
from tunesmith.data_folder import DATABASE
from tunesmith.errors import InvalidInput, MissingDependency, first_line
from tunesmith.extras import lacking
from tunesmith.names import DEFAULT_PRECISION
from tunesmith.options import JobOptions
from tunesmith.sdk import exporting
from tunesmith.sdk.calling import TENSOR
from tunesmith.sdk.known import OfServer
from tunesmith.sdk.library import Library
from tunesmith.sdk.tuning import key_in_reach, server_in_reach, tune
from tunesmith.targets import parse_target
from tunesmith.torch.graphs import Exported, check_mode, export, freeze
from tunesmith.unmeasured import Known, Source

log = logging.getLogger("tunesmith.torch")

Run = Callable[[Sequence[Any]], list[Any]]
"""Outputs for inputs, tensors in a row."""


@dataclass(frozen=True)
class Settings:
    """See :func:`backend`."""

    server: str | None = None
    target: str = "cpu"
    tune: float | None = None
    precision: str = DEFAULT_PRECISION
    key: str | None = None
    data_dir: str | Path = ".tunesmith"

    def checked(self) -> Settings:
        """With the key in reach; ``tune=False`` is None. Raises InvalidInput, UnknownTarget and UnknownPrecision."""
        parse_target(self.target)
        self.options.check_values()
        seconds = self.tune or None
        if seconds is True or (seconds is not None and seconds < LEAST_SECONDS):
            raise InvalidInput(
                f"tune is a number of seconds for each graph, {LEAST_SECONDS:g} or more, or False, not {self.tune!r}",
                field="tune",
                value=self.tune,
            )
        return replace(self, tune=seconds, key=key_in_reach(self.key))

    @property
    def options(self) -> JobOptions:
        """A job's options."""
        return JobOptions(precision=self.precision)


class CompiledGraph:
    """A graph as a function that Dynamo calls. ``run`` may be replaced by a faster one at any time."""

    def __init__(self, name: str, eager: Callable[..., Any], exported: Exported, run: Run) -> None:
        self.name, self.run = name, run
        self._eager, self._exported = eager, exported
        self._weights = list(exported.weights.values())
        self._versions = list(map(_version, self._weights))
        self._stale = False

    def __call__(self, *args: Any) -> Any:
        """The graph's outputs."""
        if self._stale or list(map(_version, self._weights)) != self._versions:
            return self._changed(*args)
        made = iter(self.run([args[place] for place in self._exported.places]))
        return tuple(next(made) if each is TENSOR else each for each in self._exported.outputs)

    def _changed(self, *args: Any) -> Any:
        if not self._stale:
            log.warning(
                "%s runs in eager mode: weights changed after it was compiled; torch.compiler.reset() has it compiled "
                "with the new ones",
                self.name,
            )
            self._stale = True
        return self._eager(*args)


def _version(tensor: torch.Tensor) -> tuple[int, int]:
    """Changes when somebody writes to the tensor; those of the inference mode count no writes."""
    return tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version


class Backend:
    """A backend of ``torch.compile``; :func:`backend` makes it.

    Attributes:
        compiled: graphs that run by Tunesmith.
        eager: graphs that run in eager mode, each with the reason.
    """

    __name__ = "tunesmith"

    def __init__(self, settings: Settings) -> None:
        missing = lacking(["worker"])
        if missing:
            raise MissingDependency(
                "graphs are compiled by the server side, which is not installed here: clone the repository and run "
                "'make venv', or there 'pip install -e .[worker,torch]'",
                extra="worker",
            )
        self.settings = settings
        self.compiled: list[str] = []
        self.eager: dict[str, str] = {}
        self._waiting: queue.Queue[tuple[CompiledGraph, Any]] = queue.Queue()
        self._tuning = False

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile a graph of Dynamo.

        Args:
            graph: the graph.
            inputs: example inputs, parameters and buffers among them.

        Returns:
            A function of the graph's inputs; the graph itself where it cannot be compiled, which is logged.

        Raises:
            InvalidInput: the model is in training mode, or gradients are tracked.
        """
        name = f"graph {len(self.compiled) + len(self.eager)}"
        check_mode(graph, inputs)
        try:
            frozen = freeze(graph, inputs)
            # A new thread has none of the modes and contexts of Dynamo, which is at work in this one.
            with ThreadPoolExecutor(1) as clean:
                made = clean.submit(self._made, name, graph, inputs).result()
        except Exception as error:  # a compiler raises whatever it raises, and nobody should lose a model to it
            reason = getattr(error, "detail", None) or f"{type(error).__name__}: {first_line(error)}"
            log.warning("%s runs in eager mode: %s", name, reason)
            self.eager[name] = reason
            forward: Callable[..., Any] = graph.forward
            return forward
        if frozen.extents:
            log.warning("%s has dynamic dimensions, frozen: %s; other extents are compiled anew", name, frozen)
        self.compiled.append(name)
        return made

    def wait(self) -> None:
        """Wait until every graph that is compiled so far was tuned. Without ``tune`` nothing is waited for."""
        self._waiting.join()

    def _made(self, name: str, graph: fx.GraphModule, inputs: Sequence[Any]) -> CompiledGraph:
        exported = export(graph, inputs)
        with TemporaryDirectory(prefix="tunesmith-graph-") as folder:
            model, library = Path(folder, f"{name.replace(' ', '-')}.pt2"), Path(folder, "model.so")
            exporting.save(exported.program, model)
            run = self._library(name, model, library)
        made = CompiledGraph(name, graph.forward, exported, run)
        if self.settings.tune is not None:
            self._tune_behind(made, exported.program)
        return made

    def _library(self, name: str, model: Path, library: Path) -> Run:
        """Compile with what is known."""
        from workers.in_process import compiled

        settings = self.settings
        known: Callable[[str], Known | None] = lambda workload: None  # noqa: E731
        data = Path(settings.data_dir)
        dataset = data if (data / DATABASE).is_file() else None
        server = server_in_reach(settings.server, settings.key)
        if server is not None:
            known = OfServer(server, lambda: Client(server, settings.key), settings.target).find
        target, inputs, answers = compiled(model, library, settings.target, settings.options, dataset, known)
        log.info("%s is compiled; schedules: %s", name, _counted([each.source for each in answers]))
        taken = [TensorBody(name=each.name, dtype=each.dtype, shape=list(each.shape)) for each in inputs]
        return Library(library, target, taken).run

    def _tune_behind(self, made: CompiledGraph, program: Any) -> None:
        self._waiting.put((made, program))
        if not self._tuning:
            self._tuning = True
            threading.Thread(target=self._tune, name="tunesmith-tune", daemon=True).start()

    def _tune(self) -> None:
        """Tune one graph after another, and put each result in the place of what runs."""
        settings = self.settings
        while True:
            made, program = self._waiting.get()
            try:
                tuned = tune(
                    program,
                    target=settings.target,
                    time=settings.tune,
                    precision=settings.precision,
                    name=made.name,
                    server=settings.server,
                    key=settings.key,
                    data_dir=settings.data_dir,
                    quiet=True,
                )
                made.run = Library(tuned.compile(), tuned.job.target_json or {}, tuned.inputs).run
                log.info("%s is tuned: %s", made.name, tuned)
            except Exception as error:  # nobody is there to catch it, and what runs goes on to run
                log.warning("%s was not tuned: %s", made.name, getattr(error, "detail", None) or first_line(error))
            finally:
                self._waiting.task_done()


def _counted(sources: Sequence[Source]) -> str:
    return ", ".join(f"{sources.count(each)} {each.value}" for each in Source if each in sources) or "none"


def backend(
    server: str | None = None,
    target: str = "cpu",
    *,
    tune: float | None = None,
    precision: str = DEFAULT_PRECISION,
    key: str | None = None,
    data_dir: str | Path = ".tunesmith",
) -> Backend:
    """A backend for ``torch.compile(net, backend=…)`` with options of its own.

    Each graph that Dynamo finds is compiled with what is known of its functions: what a server or the data folder has
    measured, else what the static model of the CPU chooses. A graph that cannot be compiled runs in eager mode, and the
    log says why.

    Args:
        server: address of a coordinator, such as ``lab:8700``; by default the one of ``TUNESMITH_SERVER``, else one
            that runs on this machine, else none.
        target: ``cpu``, ``cpu:N``, or target JSON of this machine's CPU.
        tune: seconds for which each graph is tuned behind the program, whose calls then use the result. By a server, or
            by an embedded stack where there is none.
        precision: ``float32``, ``bf16`` or ``int8``.
        key: API key, where the server asks for one (default: ``TUNESMITH_KEY``).
        data_dir: folder where an embedded stack keeps what it learns.

    Raises:
        InvalidInput: an option.
        MissingDependency: the server side is not installed here.
    """
    return Backend(Settings(server, target, tune, precision, key, data_dir).checked())


@functools.lru_cache(maxsize=64)
def _shared(settings: Settings) -> Backend:
    return Backend(settings)


def compile_graph(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """``torch.compile(net, backend="tunesmith", options={…})``; PyTorch finds this function by its entry point.

    Args:
        graph: the graph.
        inputs: example inputs.
        options: what :func:`backend` takes, by name.
        mode: refused: modes are Inductor's.

    Raises:
        InvalidInput: an option, or what :class:`Backend` refuses.
    """
    known = [each.name for each in fields(Settings)]
    unknown = next((name for name in options or {} if name not in known), None)
    if mode is not None or unknown is not None:
        said = f"there is no option {unknown!r}" if unknown is not None else f"mode {mode!r} is Inductor's"
        raise InvalidInput(f"{said}: the backend takes the options {', '.join(known)}", field="options", value=unknown)
    return _shared(Settings(**(options or {})).checked())(graph, inputs)
