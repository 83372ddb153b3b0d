"""The registry of runtimes that are not TVM: which files each reads, and where to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Runtime:
    """A runtime at one precision.

    Attributes:
        name: of the runtime, which is also its package.
        module: of ``workers.peers``, with ``prepare``.
        reads: source of a model, ``onnx`` or ``pt2``.
        extra: of Tunesmith, that brings it.
        precision: ``model``: the model's own; ``default``: what the runtime takes unless it is told otherwise, where
            that may be another one.
    """

    name: str
    module: str
    reads: str
    extra: str
    precision: str = "model"

    @property
    def installed(self) -> bool:
        """Found without importing it."""
        return importlib.util.find_spec(self.name) is not None

    @property
    def version(self) -> str:
        """Of the installed package."""
        return importlib.metadata.version(self.name)

    @property
    def missing(self) -> str:
        """What to do where it is not installed."""
        return f"{self.name} is not installed: pip install 'tunesmith[{self.extra}]'"


RUNTIMES: Sequence[Runtime] = (
    Runtime("onnxruntime", "workers.peers.onnxruntime", "onnx", "worker"),
    Runtime("openvino", "workers.peers.openvino", "onnx", "compare"),
    Runtime("openvino", "workers.peers.openvino_default", "onnx", "compare", "default"),
    Runtime("torch", "workers.peers.torch", "pt2", "torch"),
)
AT_MODEL_PRECISION: Mapping[str, Runtime] = {each.name: each for each in RUNTIMES if each.precision == "model"}
"""By name, as the model says."""


def readers(source: str) -> list[Runtime]:
    """Those that read models of a source."""
    return [each for each in RUNTIMES if each.reads == source]
