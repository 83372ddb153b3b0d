"""A tuned model: a function, a report and a folder to deploy."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunesmith.answers.curves import CurveBody
from tunesmith.answers.jobs import JobBody
from tunesmith.answers.models import TensorBody
from tunesmith.answers.shown import html_table, html_text
from tunesmith.child_process import run_to_end
from tunesmith.client.frames import figures
from tunesmith.cuda import for_child
from tunesmith.errors import MeasurementFailed
from tunesmith.extras import here
from tunesmith.full_disk import writing
from tunesmith.metaschedule import COMPILE_SCRIPT, SCRIPTS
from tunesmith.sdk.calling import Calling
from tunesmith.sdk.library import Library

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATABASE, LIBRARY = "metaschedule", "model.so"
COMPILE_SECONDS = 600.0


class TunedModel:
    """A model with its tuned schedules, to be called like the original; :func:`tunesmith.tune` makes it.

    Calls from several threads take turns. A call with PyTorch's tensors returns PyTorch's tensors, which do not track
    gradients; any other returns NumPy's arrays. A PyTorch model takes and returns the structures that it was exported
    with. Other models take their inputs in order or by name, and return one tensor, or a tuple of them.

    Attributes:
        job: the finished job, as the server tells it.
        inputs: name, dtype and shape of each input, in order.
    """

    def __init__(
        self,
        result: Path,
        job: JobBody,
        inputs: Sequence[TensorBody],
        calling: Calling,
        report: str,
        curve: CurveBody,
    ) -> None:
        self.job, self.inputs = job, tuple(inputs)
        self._calling, self._report, self._curve = calling, report, curve
        self._library: Library | None = None
        own = tempfile.mkdtemp(prefix="tunesmith-tuned-")
        weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
        self._folder = Path(shutil.move(result, own))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model.

        Args:
            *args: inputs, of the shapes and dtypes in ``inputs``.
            **kwargs: inputs by name.

        Raises:
            InvalidInput: another structure, shape or dtype than it was tuned for.
            MissingDependency: TVM, or anything to link with, is not installed here.
            TargetUnavailable: it was tuned for another processor.
        """
        tensors = self._calling.tensors(args, kwargs)
        if self._library is None:
            self._library = Library(self.compile(), self.job.target_json or {}, self.inputs)
        return self._calling.result(self._library.run(tensors))

    def __repr__(self) -> str:
        taken = ", ".join(f"{each.name}: {each.dtype}{each.shape}" for each in self.inputs)
        took = "not measured" if self.latency is None else f"{self.latency:.3g} s"
        return f"<TunedModel {self.job.name} ({taken}), {took}>"

    def _repr_html_(self) -> str:
        """The tuned model as a notebook shows it."""
        inputs = [(each.name, f"{each.dtype}{each.shape}") for each in self.inputs]
        return html_table(f"tuned {self.job.name}", inputs) + html_text(self._report)

    @property
    def latency(self) -> float | None:
        """Seconds of one call, as the job measured it on its device; None where nothing was measured or known."""
        return self.job.latency.current

    def report(self) -> str:
        """What ``tunesmith tune`` prints: latencies and how sure they are, outputs, schedules, effort."""
        return self._report

    def plot(self) -> Figure:
        """The model's estimated latency against trials as a ``matplotlib.figure.Figure``, which notebooks draw.

        It is empty for a job of 0 trials.

        Raises:
            MissingDependency: without matplotlib, which the extra ``notebook`` brings.
        """
        drawn: Figure = figures().curve(self.job.name, self._curve)
        return drawn

    def save(self, folder: str | Path) -> Path:
        """Write what deploys the model: ``best.jsonl``, ``metaschedule/``, ``summary.json``, and ``model.so``.

        The library is there if TVM is installed here. README.md in ``metaschedule`` says how to load it, and how to
        compile it elsewhere.

        Args:
            folder: made when missing; files of an earlier result in it are replaced.

        Raises:
            MeasurementFailed: TVM is here and cannot compile the model.
            DiskFull: there is no room.
        """
        folder = Path(folder)
        if here("tvm"):
            self.compile()
        with writing(folder):
            shutil.copytree(self._folder, folder, dirs_exist_ok=True)
        return folder

    def compile(self) -> Path:
        """The compiled library, made in a process of its own when it is first asked for; gone with this object.

        Raises:
            MeasurementFailed: TVM is not installed or cannot build the model, or there is nothing to link with.
        """
        library = self._folder / LIBRARY
        if not library.exists():
            for each in SCRIPTS:  # ours: no program that a server sends is run
                shutil.copyfile(each, self._folder / DATABASE / each.name)
            script = self._folder / DATABASE / COMPILE_SCRIPT.name
            cuda = for_child(os.environ) if (self.job.target_json or {}).get("kind") == "cuda" else {}
            done = run_to_end([sys.executable, str(script), str(library)], COMPILE_SECONDS, **cuda)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
                raise MeasurementFailed(f"the tuned model cannot be compiled here: {reason[:500]}")
        return library
