"""Modules, traces and targets between TVM's objects and plain JSON."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.s_tir import Trace
from tvm_ffi.serialization import from_json_graph_str

from tunesmith.targets import Target
from tunesmith.types import Decision

OWN = json.dumps({"metadata": {"tvm_version": tvm.__version__}}, separators=(",", ":"))[1:]
"""How the JSON of a module ends that this version of TVM wrote."""


def dump_module(mod: tvm.IRModule) -> bytes:
    """The module as JSON text."""
    return str(tvm.ir.save_json(mod)).encode()


def load_module(data: bytes) -> tvm.IRModule:
    """Inverse of :func:`dump_module`.

    TVM translates what older versions wrote, which takes twenty times as long as to read what this one did.
    """
    text = data.decode()
    return from_json_graph_str(text) if text.endswith(OWN) else tvm.ir.load_json(text)


def tvm_target(target: Target) -> tvm.target.Target:
    """TVM's object for a target."""
    return tvm.target.Target(target.to_json())


def plain(value: Any) -> Any:
    """TVM containers and immediates as lists, dicts, strings and numbers."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return str(value) if isinstance(value, str) else value
    if hasattr(value, "items"):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "__iter__"):
        return [plain(v) for v in value]
    return plain(value.value)


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys and no blanks: equal values have equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def trace_json(trace: Trace) -> str:
    """A trace as MetaSchedule's JSON, ``[instructions, decisions]``."""
    return canonical_json(plain(trace.as_json()))


def is_knob(instruction: Any) -> bool:
    """True for a sampling instruction."""
    return str(instruction.kind.name).startswith("Sample")


def plain_decision(value: Any) -> Decision:
    """A decision that TVM holds, as an integer or a tuple of integers."""
    return int(value) if isinstance(value, int) else tuple(int(v) for v in value)
