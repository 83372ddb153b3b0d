"""A sketch as it is stored for ever: trace skeleton, knobs and postprocessors."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from tunesmith.space.base import Sketch
from tunesmith.space.knobs import Knob, knob_from_json
from workers.tvm_backend.tir import canonical_json

FORMAT = 1


@dataclass(frozen=True)
class SketchBody:
    """What rebuilds a schedule from decisions, without the generator that made the sketch.

    Attributes:
        trace: JSON text of the trace's instructions, without decisions.
        knobs: one per sampling instruction, in trace order.
        postprocs: class names of MetaSchedule's postprocessors, in the order in which they apply.
        format: format of this JSON; a reader refuses what it does not know.
    """

    trace: str
    knobs: tuple[Knob, ...]
    postprocs: tuple[str, ...]
    format: int = FORMAT

    @functools.cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_json()).hexdigest()

    @property
    def sketch(self) -> Sketch:
        """The numeric side."""
        return Sketch(self.hash, self.knobs)

    def to_json(self) -> bytes:
        """Canonical JSON text."""
        body = {
            "format": self.format,
            "trace": json.loads(self.trace),
            "knobs": [k.to_json() for k in self.knobs],
            "postprocs": list(self.postprocs),
        }
        return canonical_json(body).encode()

    @classmethod
    def from_json(cls, data: bytes | str | dict[str, Any]) -> SketchBody:
        """Inverse of :meth:`to_json`; takes the parsed object, too.

        Raises:
            ValueError: for a format that this version does not know.
        """
        body = data if isinstance(data, dict) else json.loads(data)
        if body.get("format") != FORMAT:
            raise ValueError(f"sketch format {body.get('format')!r} is not {FORMAT}")
        knobs = tuple(knob_from_json(k) for k in body["knobs"])
        return cls(canonical_json(body["trace"]), knobs, tuple(body["postprocs"]))
