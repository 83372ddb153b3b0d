"""What people call the knobs of a sketch: what of which block each one decides, read from the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Instruction = Sequence[Any]
"""MetaSchedule's JSON: primitive, inputs, attributes, outputs."""
UNROLLING = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit")


@dataclass(frozen=True)
class KnobName:
    """A knob in words.

    Attributes:
        name: unlike that of every other knob of the sketch, such as ``matmul.loop_0``.
        about: what it decides, a sentence without a full stop.
        choices: what a categorical knob chooses from; empty for other knobs.
    """

    name: str
    about: str
    choices: tuple[Any, ...] = ()


def knob_names(trace: Sequence[Instruction]) -> list[KnobName]:
    """The knobs of a trace in its order.

    Args:
        trace: instructions of the sketch's trace skeleton.
    """
    reader = _Reader()
    for instruction in trace:
        reader.read(*instruction)
    used: Counter[str] = Counter()
    found = []
    for knob in reader.knobs:
        used[knob.name] += 1
        again = f"_{used[knob.name]}" if used[knob.name] > 1 else ""
        found.append(KnobName(knob.name + again, knob.about, knob.choices))
    return found


class _Reader:
    """Follows blocks and loops through a trace."""

    def __init__(self) -> None:
        self._blocks: dict[str, str] = {}
        self._loops: dict[str, str] = {}
        self._waiting: dict[str, int] = {}
        self.knobs: list[KnobName] = []

    def read(self, kind: str, inputs: Sequence[Any], attrs: Any, outputs: Sequence[str]) -> None:
        """Take in one instruction."""
        if kind == "GetSBlock":
            self._blocks[outputs[0]] = str(attrs[0])
        elif kind == "GetLoops":
            block = self._block(inputs[0])
            self._loops.update({loop: f"{block}.loop_{i}" for i, loop in enumerate(outputs)})
        elif kind == "Split":
            parts = ("outer", "inner") if len(outputs) == 2 else tuple(str(i) for i in range(len(outputs)))
            loop = self._loops.get(inputs[0], inputs[0])
            self._loops.update({each: f"{loop}.{part}" for each, part in zip(outputs, parts, strict=True)})
        elif kind == "Fuse":
            self._loops[outputs[0]] = "+".join(self._loops.get(loop, loop) for loop in inputs)
        elif kind in ("CacheRead", "CacheWrite", "DecomposeReduction", "RFactor") and outputs:
            word = {"CacheRead": "read", "CacheWrite": "write", "DecomposeReduction": "init"}.get(kind, "rfactor")
            self._blocks.update({each: f"{self._block(inputs[0])}.{word}" for each in outputs})
        elif kind.startswith("Sample"):
            self._sample(kind, inputs, attrs, outputs)
        elif kind == "Annotate":
            self._annotate(inputs, attrs)

    def _block(self, block: str) -> str:
        return self._blocks.get(block, block)

    def _sample(self, kind: str, inputs: Sequence[Any], attrs: Any, outputs: Sequence[str]) -> None:
        if kind == "SamplePerfectTile":
            loop = self._loops.get(inputs[0], inputs[0])
            self.knobs.append(KnobName(loop, f"factors of {attrs[0]} loops that {loop} is split into, outermost first"))
        elif kind == "SampleComputeLocation":
            block = self._block(inputs[0])
            about = f"loop in which {block} is computed; -1 stands for the root, -2 for inline"
            self.knobs.append(KnobName(f"{block}.compute_location", about))
        else:
            self._waiting[outputs[0]] = len(self.knobs)
            choices = tuple(attrs[0])
            self.knobs.append(KnobName("choice", f"which of {len(choices)} values", choices))

    def _annotate(self, inputs: Sequence[Any], attrs: Any) -> None:
        """What a category is for shows where it is used."""
        at = self._waiting.pop(str(inputs[1]), None) if len(inputs) > 1 else None
        if at is None:
            return
        key = str(attrs[0])
        name = "unroll" if key in UNROLLING else key.removeprefix("meta_schedule.")
        about = "most steps that are unrolled" if name == "unroll" else f"value of {name}"
        self.knobs[at] = KnobName(name, f"{about}, as the place among the choices", self.knobs[at].choices)


def described(trace: Sequence[Instruction], decisions: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Knobs of a candidate: name, decision, what it stands for, and what it is about."""
    return [
        {
            "name": knob.name,
            "decision": decision,
            "value": knob.choices[decision] if knob.choices and decision < len(knob.choices) else decision,
            "about": knob.about,
        }
        for knob, decision in zip(knob_names(trace), decisions, strict=False)
    ]


def numbered(
    trace: Sequence[Instruction], decisions: Sequence[Sequence[Any]]
) -> tuple[list[KnobName], list[list[float]]]:
    """Decisions of several candidates of a sketch as columns of numbers: the columns, and a row for each candidate.

    Every factor of a tile is a column; a category counts as its value where that is a number, else as its place.
    """
    knobs = knob_names(trace)
    heads: list[KnobName] = []
    for knob, value in zip(knobs, decisions[0] if decisions else [], strict=False):
        parts = [f"{knob.name}[{i}]" for i in range(len(value))] if isinstance(value, list) else [knob.name]
        heads += [KnobName(name, knob.about, knob.choices) for name in parts]
    return heads, [
        [number for knob, value in zip(knobs, each, strict=False) for number in _numbers(knob, value)]
        for each in decisions
    ]


def _numbers(knob: KnobName, value: Any) -> list[float]:
    if isinstance(value, list):
        return [float(part) for part in value]
    chosen = knob.choices[value] if knob.choices and value < len(knob.choices) else value
    return [float(chosen if isinstance(chosen, int | float) else value)]
