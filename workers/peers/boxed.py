"""A peer inside a box: it reads a user's model, so it gets no more than the import of one does."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from workers.peers.timing import PeerRun, Timing

MODEL, INPUTS, OUTPUTS = "model", "inputs.npz", "outputs.npz"
"""Files of the box."""


class BoxedPeer:
    """Loads a model into one runtime, then times it. What the runtime needs is imported in the box.

    Args:
        module: module in ``workers.peers``.
    """

    def __init__(self, module: str) -> None:
        self._prepare = importlib.import_module(module).prepare
        self._timing: Timing | None = None

    def load(self, threads: int, cores: Sequence[int]) -> None:
        """Read the model of the working folder, run it once on the inputs there, write the outputs.

        Args:
            cores: to run on; empty: those that this process has.
        """
        here = sorted(cores or os.sched_getaffinity(0))
        os.sched_setaffinity(0, here[:threads])
        job = PeerRun(str(Path(MODEL).absolute()), INPUTS, OUTPUTS, 0.0, threads)
        self._timing = Timing(job, self._prepare)

    def time(self, seconds: float) -> list[float]:
        """Seconds of single runs."""
        if self._timing is None:
            raise RuntimeError("load a model first")
        return self._timing.samples(seconds)
