"""The registry of runtimes that are not TVM: which files each reads, and where to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunesmith.host import cpu_flags


@dataclass(frozen=True)
class Runtime:
    """A runtime at one precision.

    Attributes:
        name: name of the runtime, which is also its package.
        module: module in ``workers.peers``, with ``prepare``.
        reads: source of a model, ``onnx`` or ``pt2``.
        extra: Tunesmith's extra that brings it.
        precision: ``model``: the model's own; ``default``: the runtime's default, where that may be another one.
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
        """Version of the installed package."""
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
SHORT_FLOATS = frozenset({"avx512_bf16", "amx_bf16", "amx_fp16", "avx512_fp16", "bf16", "asimdhp"})
"""Flags of CPUs whose arithmetic is faster in sixteen bits, which a runtime may then choose."""
AT_MODEL_PRECISION: Mapping[str, Runtime] = {each.name: each for each in RUNTIMES if each.precision == "model"}
"""By name, as the model says."""


def readers(source: str, flags: frozenset[str] | None = None) -> list[Runtime]:
    """Runtimes that read models of a source; at their default precision only where this CPU has a shorter one.

    Args:
        flags: flags of the CPU; None: this host's.
    """
    shorter = bool(SHORT_FLOATS & (cpu_flags() if flags is None else flags))
    return [each for each in RUNTIMES if each.reads == source and (each.precision == "model" or shorter)]
