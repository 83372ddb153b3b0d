"""From a sketch and knobs by name, as people and programs give them, to a candidate. Everything that is wrong has a
name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.errors import KnobOutOfRange, MissingKnob, UnknownKnob, UnknownSketch
from tunesmith.space.knob_names import knob_names
from tunesmith.space.knobs import Categorical, ComputeLocation, Knob, PerfectTile, knob_from_json
from tunesmith.types import Candidate, Decision

MAX_VALUE = 2**62
"""No decision is that far from 0."""

MAX_SHOWN = 200
"""Characters of a wrong value that an error repeats."""


@dataclass(frozen=True)
class NamedSketch:
    """A sketch whose knobs have names."""

    hash: str
    knobs: Mapping[str, Knob]

    @classmethod
    def of(cls, key: str, body: Mapping[str, Any]) -> NamedSketch:
        """The sketch with hash ``key``; ``body``: as it is stored, with ``trace`` and ``knobs``."""
        names = [each.name for each in knob_names(body["trace"])]
        return cls(key, dict(zip(names, map(knob_from_json, body["knobs"]), strict=True)))


def candidate_of(
    sketch: str, knobs: Mapping[str, Any], sketches: Mapping[str, NamedSketch], field: str = "candidate"
) -> Candidate:
    """The candidate that ``knobs`` describe.

    Args:
        sketch: hash of one of the task's sketches.
        knobs: decision by name: factors of a tile, outermost first; place of a category, from 0; a compute location.
        sketches: the task's, by hash.
        field: where the candidate is in its request, for messages.

    Raises:
        UnknownSketch, UnknownKnob, MissingKnob, KnobOutOfRange: naming what is wrong and what there is.
    """
    found = sketches.get(sketch)
    if found is None:
        detail = f"the task has no sketch {sketch!r}: it has {', '.join(sketches)}"
        raise UnknownSketch(detail, field=f"{field}.sketch", value=sketch)
    for name in knobs:
        if name not in found.knobs:
            near = difflib.get_close_matches(name, found.knobs, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(found.knobs) or 'none'}"
            given = _brief(name)
            raise UnknownKnob(f"the sketch has no knob {given!r}: {meant}", field=f"{field}.knobs", value=given)
    missing = [name for name in found.knobs if name not in knobs]
    if missing:
        detail = f"a candidate needs a value for each knob of its sketch: {', '.join(missing)} missing"
        raise MissingKnob(detail, field=f"{field}.knobs", value=missing[0])
    return Candidate(sketch, tuple(_decision(name, knob, knobs[name], field) for name, knob in found.knobs.items()))


def _decision(name: str, knob: Knob, value: Any, field: str) -> Decision:
    given: Any = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    parts = given if isinstance(given, tuple) else (given,)
    if all(type(part) is int and abs(part) < MAX_VALUE for part in parts):
        try:
            knob.find([given])
        except ValueError:
            pass
        else:
            decision: Decision = given
            return decision
    raise KnobOutOfRange(f"knob {name!r} is {_range(knob)}", field=f"{field}.knobs.{name}", value=_brief(value))


def _brief(value: Any) -> Any:
    """What was given, if it is short; its beginning, if it is not: a body may have a mebibyte."""
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _range(knob: Knob) -> str:
    """What a knob may be, in words."""
    if isinstance(knob, PerfectTile):
        last = f", the last of them at most {knob.max_innermost}" if knob.parts > 1 else ""
        return f"a list of {knob.parts} factors whose product is {knob.extent}{last}"
    if isinstance(knob, Categorical):
        return f"the place of one of {knob.count} choices, 0 to {knob.count - 1}"
    assert isinstance(knob, ComputeLocation), "every kind of knob has words"
    return f"a number from {knob.low} to {knob.high}"
