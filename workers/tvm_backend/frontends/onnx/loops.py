"""ONNX's ``Loop`` and ``Scan``, unrolled: as many steps as are known when a model is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from tvm import relax
from tvm.ir import GenericConst

from workers.tvm_backend.frontends.onnx import recurrent
from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

BATCHED = 9
"""First opset whose ``Scan`` has no axis of batches."""
REMEDY = "export the model with a constant count, or with a declared shape of what the steps make"


def _scan(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    return relax.Tuple(_batches(importer, inputs, attrs) if opset < BATCHED else _scanned(importer, inputs, attrs))


def _batches(importer: Any, inputs: Any, attrs: Attributes) -> list[relax.Expr]:
    """One scan for each place of the first axis."""
    lengths, *given = inputs
    if lengths is not None:
        raise unsupported("Scan", "sequences of differing lengths", "export the model without sequence_lens")
    emit, (batch, steps) = importer.bb.emit, fixed_extents("Scan", given[-1])[:2]
    _check_steps("Scan", batch * steps)
    own = {name: value for name, value in attrs.items() if name != "directions"}
    own["scan_input_directions"] = attrs.get("directions", [0] * int(attrs["num_scan_inputs"]))
    rows = [
        _scanned(importer, [emit(relax.op.take(x, relax.const(at, "int64"), 0)) for x in given], own)
        for at in range(batch)
    ]
    return [_stacked(importer, parts, 0) for parts in zip(*rows, strict=True)]


def _scanned(importer: Any, inputs: Any, attrs: Attributes) -> list[relax.Expr]:
    """The last states, and what all steps make."""
    body, count = attrs["body"], int(attrs["num_scan_inputs"])
    given = list(inputs)
    states, scanned = given[: len(given) - count], given[len(given) - count :]
    axes = [int(axis) % x.ty.ndim for axis, x in zip(attrs.get("scan_input_axes", [0] * count), scanned, strict=True)]
    steps = fixed_extents("Scan", scanned[0])[axes[0]]
    back = attrs.get("scan_input_directions", [0] * count)
    _check_steps("Scan", steps)
    made: list[list[relax.Expr]] = [[] for _ in range(len(body.output) - len(states))]
    for step in range(steps):
        parts = [
            importer.bb.emit(relax.op.take(x, relax.const(steps - 1 - step if turned else step, "int64"), axis))
            for x, axis, turned in zip(scanned, axes, back, strict=True)
        ]
        found = _run(importer, body, [*states, *parts])
        states = found[: len(states)]
        for kept, part in zip(made, found[len(states) :], strict=True):
            kept.append(part)
    out_axes = attrs.get("scan_output_axes", [0] * len(made))
    turned_back = attrs.get("scan_output_directions", [0] * len(made))
    for kept, turned in zip(made, turned_back, strict=True):
        if turned:
            kept.reverse()
    return [*states, *(_stacked(importer, kept, axis) for kept, axis in zip(made, out_axes, strict=True))]


def _loop(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Steps until the condition is false; a count that depends on inputs follows from the shape of what steps make."""
    body, (most, going, *states) = attrs["body"], list(inputs)
    limit = _count(importer, most, going, len(states))
    made: list[list[relax.Expr]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    condition: relax.Expr = relax.const(True, "bool")
    if isinstance(going, GenericConst):
        condition = going
    step = 0
    while _holds(condition) and (limit is None or step < limit):
        _check_steps("Loop", step + 1)
        condition, *found = _run(importer, body, [relax.const(step, "int64"), condition, *states])
        states = found[: len(states)]
        for kept, part in zip(made, found[len(states) :], strict=True):
            kept.append(part)
        step += 1
    return relax.Tuple([*states, *(_stacked(importer, kept, 0) for kept in made)])


def _count(importer: Any, most: Any, going: Any, states: int) -> int | None:
    """Steps at most; None for no limit."""
    varying = [each for each in (most, going) if each is not None and not isinstance(each, GenericConst)]
    if not varying:
        return None if most is None else int(most.value.numpy().item())
    for name in list(importer.results)[states:]:
        if name in importer.declared:
            return int(importer.declared[name][0])
    raise unsupported("Loop", "a count or a condition that depends on the model's inputs", REMEDY)


def _holds(condition: relax.Expr) -> bool:
    if not isinstance(condition, GenericConst):
        raise unsupported("Loop", "a condition that depends on what its steps compute", REMEDY)
    return bool(condition.value.numpy().all())


def _check_steps(name: str, steps: int) -> None:
    if steps > recurrent.MOST_STEPS:
        raise unsupported(name, f"{steps} steps, of which {recurrent.MOST_STEPS} are the most")


def _run(importer: Any, body: onnx.GraphProto, given: Sequence[Any]) -> list[relax.Expr]:
    """One step: what the body makes of its inputs."""
    names = dict(zip((value.name for value in body.input), given, strict=True))
    return list(importer.branch(body, names))


def _stacked(importer: Any, parts: Sequence[relax.Expr], axis: int) -> relax.Expr:
    if not parts:
        raise unsupported("Loop", "results of no steps")
    emit = importer.bb.emit
    axis %= parts[0].ty.ndim + 1
    return recurrent.joined(emit, [emit(relax.op.expand_dims(part, axis)) for part in parts], axis)


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr]] = {"Loop": _loop, "Scan": _scan}
"""How each is converted, by its name, to a tuple of its results."""
