"""ONNX's ``LSTM``, ``GRU`` and ``RNN``, which TVM's importer lacks, step by step.

All products with the inputs are one; each step has the product with what the step before left. Every step calls the
same functions, so a sequence of a hundred steps has no more tasks than one of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, topi
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported
from workers.tvm_backend.passes import fold_constants

Array = NDArray[Any]
Emit = Callable[[relax.Expr], relax.Var]
MOST_STEPS = 512
"""Most steps of a sequence: each is a few calls of the compiled model."""
PARTS = 16
"""Operands of a concatenation and results of a split at most: more make functions that are slow to compile."""
OPAQUE = 8
"""TVM's pattern of a function that is not fused with any other."""
INPUTS = 8
RECTIFIED = "Relu"
"""What an ``RNN`` may have instead of its usual activation."""
WAYS: Mapping[str, tuple[bool, ...]] = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction begins at the end."""


@dataclass(frozen=True)
class Weights:
    """Weights of one direction; the gates lie next to one another in the order of ONNX.

    Attributes:
        kernel: [inputs, gates * hidden].
        recurrent: [hidden, gates * hidden].
        bias, recurrent_bias: [gates * hidden].
        peepholes: what the input, output and forget gate see of the memory, [3 * hidden].
    """

    kernel: Array | relax.Expr
    recurrent: Array | relax.Expr
    bias: Array | relax.Expr
    recurrent_bias: Array | relax.Expr
    hidden: int
    """Width of the state."""
    peepholes: relax.Expr | None = None


State = tuple[relax.Expr, ...]
"""What a step leaves to the next one, the output first; each [batch, hidden]."""


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer.

    Attributes:
        gates: weights of how many gates each matrix has.
        states: that a step leaves.
        activations: the usual ones.
        step: from the products of one step's inputs, and the state before, to the state.
    """

    gates: int
    states: int
    activations: tuple[str, ...]
    step: Callable[[Emit, relax.Expr, State, Weights, Mapping[str, Any]], State]


def converted(
    builder: relax.BlockBuilder, name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], known: Any
) -> relax.Tuple:
    """The results of a recurrent node: all outputs ``[steps, directions, batch, hidden]``, and the last states.

    Args:
        known: what the importer knows of constants.

    Raises:
        UnsupportedOperator: for clipping, other activations, or sequences of more than MOST_STEPS steps.
    """
    cell, emit = CELLS[name], builder.emit
    given: list[Any] = [*inputs, *[None] * (INPUTS - len(inputs))]
    if attrs.get("layout"):
        return _batch_first(builder, name, given, attrs, known)
    x, rest = given[0], given[1:]
    steps, batch, _ = fixed_extents(name, x)
    _check(name, cell, attrs, steps)
    weights = _weights(emit, rest[:3], cell, known)
    if rest[6] is not None:
        weights = [replace(each, peepholes=_row(emit, rest[6], at)) for at, each in enumerate(weights)]
    live = _live(emit, rest[3], steps, known)
    ways = WAYS[_text(attrs, "direction", "forward")]
    firsts = [_firsts(emit, rest[4 + at], len(ways), batch, weights[0].hidden) for at in range(cell.states)]
    runs = [
        _run(emit, x, cell, weights[at], tuple(first[at] for first in firsts), attrs, back, live)
        for at, back in enumerate(ways)
    ]
    every = joined(emit, [_stacked(builder, [state[0] for state in states]) for states in runs], 1)
    if live is not None:
        every = _masked(emit, emit(relax.op.expand_dims(live, 1)), every)
    lasts = [states[0 if back else -1] for states, back in zip(runs, ways, strict=True)]
    return relax.Tuple(
        [
            every,
            *(
                joined(emit, [emit(relax.op.expand_dims(last[at], 0)) for last in lasts], 0)
                for at in range(cell.states)
            ),
        ]
    )


def _batch_first(
    builder: relax.BlockBuilder, name: str, given: list[Any], attrs: Mapping[str, Any], known: Any
) -> relax.Tuple:
    """Inputs and results with the batch as their first axis."""
    for at in (0, 5, 6):
        if given[at] is not None:
            given[at] = builder.emit(relax.op.permute_dims(given[at], [1, 0, 2]))
    every, *lasts = converted(builder, name, given, {**attrs, "layout": 0}, known).fields
    turned = [relax.op.permute_dims(every, [2, 0, 1, 3]), *(relax.op.permute_dims(each, [1, 0, 2]) for each in lasts)]
    return relax.Tuple([builder.emit(each) for each in turned])


def _live(emit: Emit, lengths: Any, steps: int, known: Any) -> relax.Expr | None:
    """Which steps belong to each sequence, [steps, batch, 1]; None where all do."""
    if lengths is None:
        return None
    constant = get_constant(lengths, known)
    if isinstance(constant, tvm.ir.GenericConst) and (fold_constants.constant_array(constant) == steps).all():
        return None
    places = np.arange(steps, dtype=str(lengths.ty.dtype)).reshape(-1, 1, 1)
    column = emit(relax.op.reshape(lengths, [1, -1, 1]))
    return emit(relax.op.less(fold_constants.to_constant(places), column))


def _masked(emit: Emit, live: relax.Expr, x: relax.Expr) -> relax.Expr:
    """Zero where a sequence has no step."""
    kind = str(x.ty.dtype)
    return emit(relax.op.where(live, x, relax.const(np.zeros((), kind), kind)))


def _run(
    emit: Emit,
    x: relax.Expr,
    cell: Cell,
    weights: Weights,
    state: State,
    attrs: Mapping[str, Any],
    back: bool,
    live: relax.Expr | None,
) -> list[State]:
    """The states after each step, in the order of the inputs; beyond its end a sequence keeps its state."""
    kernel, bias = (_columns(emit, each, slice(None)) for each in (weights.kernel, weights.bias))
    products = emit(relax.op.add(emit(relax.op.matmul(x, kernel)), bias))
    each = [emit(relax.op.squeeze(part, [0])) for part in _parted(emit, products)]
    kept = [None] * len(each) if live is None else [emit(relax.op.squeeze(part, [0])) for part in _parted(emit, live)]
    if live is not None:  # as in onnxruntime, a sequence of no steps leaves nothing
        state = tuple(_masked(emit, kept[0], first) for first in state)
    states = list[State]()
    for at in reversed(range(len(each))) if back else range(len(each)):
        new = cell.step(emit, each[at], state, weights, attrs)
        if kept[at] is not None:
            new = tuple(emit(relax.op.where(kept[at], after, before)) for after, before in zip(new, state, strict=True))
        state = new
        states.append(state)
    return states[::-1] if back else states


def _lstm(emit: Emit, product: relax.Expr, state: State, weights: Weights, attrs: Mapping[str, Any]) -> State:
    """Hochreiter and Schmidhuber, "Long short-term memory", 1997, with a forget gate."""
    hidden, memory = state
    all_ = emit(relax.op.add(product, _recurrent(emit, hidden, weights, slice(None))))
    into, out, keep, new = (_gate(emit, all_, at, weights.hidden) for at in range(4))
    into, keep = _peeped(emit, into, weights, 0, memory), _peeped(emit, keep, weights, 2, memory)
    kept = emit(relax.op.multiply(emit(relax.op.sigmoid(keep)), memory))
    added = emit(relax.op.multiply(emit(relax.op.sigmoid(into)), emit(relax.op.tanh(new))))
    memory = emit(relax.op.add(kept, added))
    out = _peeped(emit, out, weights, 1, memory)
    return emit(relax.op.multiply(emit(relax.op.sigmoid(out)), emit(relax.op.tanh(memory)))), memory


def _peeped(emit: Emit, gate: relax.Expr, weights: Weights, at: int, memory: relax.Expr) -> relax.Expr:
    """A gate that sees the memory, if the layer has peepholes."""
    if weights.peepholes is None:
        return gate
    width = weights.hidden
    own = emit(relax.op.strided_slice(weights.peepholes, [0], [at * width], [(at + 1) * width]))
    return emit(relax.op.add(gate, emit(relax.op.multiply(own, memory))))


def _gru(emit: Emit, product: relax.Expr, state: State, weights: Weights, attrs: Mapping[str, Any]) -> State:
    """Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014."""
    (hidden,), width = state, weights.hidden
    linear_first = bool(attrs.get("linear_before_reset", 0))
    known = _recurrent(emit, hidden, weights, slice(None if linear_first else 2 * width))
    update, reset = (
        emit(relax.op.sigmoid(emit(relax.op.add(_gate(emit, product, at, width), _gate(emit, known, at, width)))))
        for at in range(2)
    )
    if linear_first:
        past = emit(relax.op.multiply(reset, _gate(emit, known, 2, width)))
    else:
        past = _recurrent(emit, emit(relax.op.multiply(reset, hidden)), weights, slice(2 * width, None))
    new = emit(relax.op.tanh(emit(relax.op.add(_gate(emit, product, 2, width), past))))
    return (emit(relax.op.add(new, emit(relax.op.multiply(update, emit(relax.op.subtract(hidden, new)))))),)


def _rnn(emit: Emit, product: relax.Expr, state: State, weights: Weights, attrs: Mapping[str, Any]) -> State:
    activation = relax.op.nn.relu if RECTIFIED in _activations(attrs) else relax.op.tanh
    return (emit(activation(emit(relax.op.add(product, _recurrent(emit, state[0], weights, slice(None)))))),)


CELLS: Mapping[str, Cell] = {
    "LSTM": Cell(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm),
    "GRU": Cell(3, 1, ("Sigmoid", "Tanh"), _gru),
    "RNN": Cell(1, 1, ("Tanh",), _rnn),
}


def _recurrent(emit: Emit, hidden: relax.Expr, weights: Weights, columns: slice) -> relax.Expr:
    """The product with what the step before left, nothing at the beginning: [batch, columns]."""
    bias = _columns(emit, weights.recurrent_bias, columns)
    if isinstance(hidden, tvm.ir.GenericConst) and isinstance(bias, tvm.ir.GenericConst):
        return fold_constants.to_constant(np.tile(fold_constants.constant_array(bias), (int(hidden.ty.shape[0]), 1)))
    return emit(relax.op.add(emit(relax.op.matmul(hidden, _columns(emit, weights.recurrent, columns))), bias))


def _columns(emit: Emit, value: Array | relax.Expr, columns: slice) -> relax.Expr:
    """Columns of weights, which are known or computed."""
    if isinstance(value, np.ndarray):
        return fold_constants.to_constant(np.ascontiguousarray(value[..., columns]))
    if columns == slice(None):
        return value
    last = value.ty.ndim - 1
    begin, end, _ = columns.indices(int(value.ty.shape[last]))
    return emit(relax.op.strided_slice(value, [last], [begin], [end]))


def _gate(emit: Emit, gates: relax.Expr, at: int, width: int) -> relax.Var:
    return emit(relax.op.strided_slice(gates, [1], [at * width], [(at + 1) * width]))


def _stacked(builder: relax.BlockBuilder, outputs: Sequence[relax.Expr]) -> relax.Var:
    """Outputs of all steps, each [batch, hidden], as [steps, 1, batch, hidden].

    A function of its own puts the outputs of some steps together. Fused, it would have as many arguments as steps, and
    look through all of them for each row.
    """
    rows, width = (int(extent) for extent in outputs[0].ty.shape)
    parts: Sequence[relax.Expr] = outputs
    if len(outputs) > PARTS:
        groups = [outputs[at : at + PARTS] for at in range(0, len(outputs), PARTS)]
        parts = [
            builder.emit_te(topi.concatenate, list(group), 0, primfunc_attrs={"op_pattern": OPAQUE}) for group in groups
        ]
    whole = joined(builder.emit, parts, 0)
    return builder.emit(relax.op.reshape(whole, (len(outputs), 1, rows, width)))


def _parted(emit: Emit, products: relax.Expr) -> list[relax.Expr]:
    """Slices of one step each, [1, batch, width], by splits of few results that steps share."""
    count = int(products.ty.shape[0])
    if count == 1:
        return [products]
    size = PARTS if count > PARTS else 1
    cuts = list(range(size, count, size))
    parts = (
        [products]
        if not cuts
        else [
            emit(relax.TupleGetItem(split, at))
            for split in [emit(relax.op.split(products, cuts, 0))]
            for at in range(len(cuts) + 1)
        ]
    )
    return parts if size == 1 else [one for part in parts for one in _parted(emit, part)]


def joined(emit: Emit, parts: Sequence[relax.Expr], axis: int) -> relax.Expr:
    """A concatenation of any number, of few at a time."""
    while len(parts) > 1:
        groups = [parts[at : at + PARTS] for at in range(0, len(parts), PARTS)]
        parts = [group[0] if len(group) == 1 else emit(relax.op.concat(list(group), axis)) for group in groups]
    return parts[0]


def _firsts(emit: Emit, given: Any, ways: int, batch: int, width: int) -> list[relax.Expr]:
    """The first state of each direction, zeros where none is given."""
    if given is None:
        return [fold_constants.to_constant(np.zeros((batch, width), np.float32))] * ways
    return [_row(emit, given, at) for at in range(ways)]


def _weights(emit: Emit, given: Sequence[Any], cell: Cell, known: Any) -> list[Weights]:
    """Weights of each direction."""
    constants = [None if each is None else get_constant(each, known) for each in given]
    width = int(given[1].ty.shape[2])
    if not all(each is None or isinstance(each, tvm.ir.GenericConst) for each in constants):
        return [_computed_weights(emit, given, cell, at) for at in range(int(given[0].ty.shape[0]))]
    kernel, recurrent, bias = (None if each is None else fold_constants.constant_array(each) for each in constants)
    assert kernel is not None  # ONNX's checker has seen them
    assert recurrent is not None
    biases = (
        np.zeros((len(kernel), 2, cell.gates * width), np.float32) if bias is None else bias.reshape(len(kernel), 2, -1)
    )
    return [
        Weights(
            np.ascontiguousarray(kernel[at].T),
            np.ascontiguousarray(recurrent[at].T),
            biases[at][0],
            biases[at][1],
            width,
        )
        for at in range(len(kernel))
    ]


def _row(emit: Emit, x: relax.Expr, at: int) -> relax.Expr:
    """One place of the first axis."""
    return emit(relax.op.squeeze(emit(relax.op.strided_slice(x, [0], [at], [at + 1])), [0]))


def _computed_weights(emit: Emit, given: Sequence[Any], cell: Cell, at: int) -> Weights:
    """Weights of one direction that depend on the model's inputs."""

    kernel, recurrent = (emit(relax.op.permute_dims(_row(emit, each, at))) for each in given[:2])
    width = int(given[1].ty.shape[2])
    size = cell.gates * width
    if given[2] is None:
        none = np.zeros(size, np.float32)
        return Weights(kernel, recurrent, none, none, width)
    bias = _row(emit, given[2], at)
    first, second = (emit(relax.op.strided_slice(bias, [0], [n * size], [(n + 1) * size])) for n in range(2))
    return Weights(kernel, recurrent, first, second, width)


def _check(name: str, cell: Cell, attrs: Mapping[str, Any], steps: int) -> None:
    """Attributes besides weights and state must say nothing special."""
    for attribute in ("clip", "input_forget"):
        if attrs.get(attribute):
            raise unsupported(name, f"{attribute} = {attrs[attribute]:g}")
    names = _activations(attrs)
    usual = all(each == cell.activations[at % len(cell.activations)] for at, each in enumerate(names))
    if not usual and not (name == "RNN" and set(names) == {RECTIFIED}):
        raise unsupported(name, f"the activations {', '.join(names)}")
    if steps > MOST_STEPS:
        raise unsupported(name, f"{steps} steps, of which {MOST_STEPS} are the most")


def _activations(attrs: Mapping[str, Any]) -> list[str]:
    """Given activations, all directions' one after the other."""
    return [
        (each.decode() if isinstance(each, bytes) else str(each)).capitalize() for each in attrs.get("activations", ())
    ]


def _text(attrs: Mapping[str, Any], name: str, default: str) -> str:
    value = attrs.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)
