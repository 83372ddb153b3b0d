"""Kernels that are loops: one matrix or one element after another in each thread, for what has no other form.

They are for CPUs: no schedule of TVM's puts them on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from workers.tvm_backend.frontends.refusals import fixed_extents
from workers.tvm_backend.frontends.torch.resize import Convert

KIND = "float64"
"""Type in which all is computed."""
Body = Callable[..., None]
"""Writes the results of one matrix or element; called with the items of the operands, and those of the results."""


def elementwise(name: str, body: Body, room: int = 1) -> Convert:
    """An operator on tensors or numbers that are broadcast; ``body`` has a vector of ``room`` to work in at last."""

    def convert(node: Any, importer: Any) -> relax.Var:
        bb, shape = importer.block_builder, [int(extent) for extent in node.meta["val"].shape]
        flat = []
        for arg in node.args[:2]:
            x = importer.env[arg] if hasattr(arg, "meta") else relax.const(float(arg), KIND)
            fixed_extents(str(node.target), x)
            wide = bb.emit(relax.op.broadcast_to(bb.emit(relax.op.astype(x, KIND)), shape))
            flat.append(bb.emit(relax.op.reshape(wide, [-1, 1])))
        count = int(flat[0].ty.shape[0])
        found = emitted(name, bb, flat, [[count, 1], [count, room]], body)
        values = bb.emit(relax.op.reshape(bb.emit(relax.TupleGetItem(found, 0)), shape))
        return bb.emit(relax.op.astype(values, str(node.meta["val"].dtype).removeprefix("torch.")))

    return convert


def emitted(name: str, bb: Any, inputs: Sequence[relax.Expr], outputs: Sequence[Sequence[int]], body: Body) -> Any:
    """Results of a kernel as a tuple of the builder's.

    Args:
        name: the kernel's name.
        inputs: tensors of float64.
        outputs: shapes of its results, which may serve as room to work in; all are float64.
        body: writes them, called within the loop over matrices with its index and all buffers.
    """

    def computed(*given: te.Tensor) -> Sequence[te.Tensor]:
        found = te.extern(
            [list(each) for each in outputs],
            list(given),
            lambda ins, outs: _built(int(outputs[0][0]), [*ins, *outs], body),
            dtype=[KIND] * len(outputs),
            name=name,
        )
        return list(found) if isinstance(found, (list, tuple)) else [found]

    return bb.emit_te(computed, *inputs, primfunc_name_hint=name)


def _built(count: int, buffers: Sequence[Any], body: Body) -> Any:
    with IRBuilder() as ib:
        with T.parallel(0, count) as at:
            body(*(Item(each, at) for each in buffers))
        return ib.get()


class Item:
    """One matrix, or one vector, of a buffer: its elements are read and written by their indices."""

    def __init__(self, buffer: Any, at: Any) -> None:
        self.buffer, self.at = buffer, at

    def __getitem__(self, index: Any) -> Any:
        return tirx.BufferLoad(self.buffer, [self.at, *(index if isinstance(index, tuple) else [index])])

    def __setitem__(self, index: Any, value: Any) -> None:
        T.buffer_store(self.buffer, value, [self.at, *(index if isinstance(index, tuple) else [index])])


def number(value: float) -> Any:
    """A constant."""
    return tirx.const(value, KIND)
