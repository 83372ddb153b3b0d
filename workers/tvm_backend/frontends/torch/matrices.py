"""PyTorch's factors of matrices, which the rest of its linear algebra is made of, as loops of ``factoring``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from workers.tvm_backend.frontends.refusals import fixed_extents
from workers.tvm_backend.frontends.torch import factoring, loops
from workers.tvm_backend.frontends.torch.resize import Convert

ROOM = 6
"""Numbers that loops keep between steps."""


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        "linalg_lu_factor_ex.default": _lower_upper,
        "lu_unpack.default": _unpacked,
        "linalg_cholesky_ex.default": _root,
        "linalg_solve_triangular.default": _solved,
        "linalg_qr.default": _orthogonal_upper,
        "linalg_householder_product.default": _reflected,
        "_linalg_eigh.default": _symmetric,
        "_linalg_svd.default": _singular,
    }


@dataclass(frozen=True)
class _Stack:
    """Tensors as stacks of matrices.

    Attributes:
        node, importer: operator and importer.
        lead: extents of the axes before the matrix.
        kind: type of the matrices.
    """

    node: Any
    importer: Any
    lead: list[int]
    kind: str

    @property
    def count(self) -> int:
        """Matrices."""
        return math.prod(self.lead)

    def emit(self, op: relax.Expr) -> Any:
        """Add an operation to the program."""
        return self.importer.block_builder.emit(op)

    def taken(self, x: Any, axes: int = 2) -> Any:
        """An operand as a stack in float64; ``axes`` belong to each matrix."""
        shape = fixed_extents(str(self.node.target), x)
        wide = self.emit(relax.op.astype(x, loops.KIND))
        return self.emit(relax.op.reshape(wide, [self.count, *shape[len(shape) - axes :]]))

    def run(self, name: str, inputs: list[Any], outputs: list[list[int]], body: loops.Body) -> list[Any]:
        """Results of a kernel, without the axis of the stack in ``outputs``."""
        shapes = [[self.count, *each] for each in outputs]
        found = loops.emitted(name, self.importer.block_builder, inputs, shapes, body)
        if len(outputs) == 1:
            return [found]
        return [self.emit(relax.TupleGetItem(found, at)) for at in range(len(outputs))]

    def given(self, x: Any, kind: str | None = None) -> Any:
        """A result with the axes and the type that the operator has."""
        shape = [int(each) for each in x.ty.shape][1:]
        return self.emit(relax.op.reshape(self.emit(relax.op.astype(x, kind or self.kind)), [*self.lead, *shape]))

    def all(self, *results: Any) -> Any:
        """Several results as one tuple."""
        return self.emit(relax.Tuple(list(results)))


def _stack(node: Any, importer: Any, at: int = 0, axes: int = 2) -> tuple[_Stack, Any, list[int]]:
    """The stack of an operand, its matrices, and the extents of one."""
    x = importer.env[node.args[at]]
    shape = fixed_extents(str(node.target), x)
    first = len(shape) - axes
    stack = _Stack(node, importer, shape[:first], str(x.ty.dtype))
    return stack, stack.taken(x, axes), shape[first:]


def _lower_upper(node: Any, importer: Any) -> Any:
    stack, x, (rows, columns) = _stack(node, importer)
    body = factoring.lower_upper(rows, columns)
    made, pivots, status = stack.run("lu", [x], [[rows, columns], [min(rows, columns)], [2]], body)
    return stack.all(stack.given(made), stack.given(pivots, "int32"), _first(stack, status))


def _first(stack: _Stack, status: Any) -> Any:
    one = stack.emit(relax.op.strided_slice(status, [1], [0], [1]))
    flat = stack.emit(relax.op.reshape(stack.emit(relax.op.astype(one, "int32")), [stack.count]))
    return stack.emit(relax.op.reshape(flat, stack.lead))


def _unpacked(node: Any, importer: Any) -> Any:
    """The order of rows alone, as a matrix; decompositions take the triangles."""
    stack, pivots, (count,) = _stack(node, importer, 1, 1)
    rows = fixed_extents(str(node.target), importer.env[node.args[0]])[-2]
    made, _ = stack.run("pivots", [pivots], [[rows, rows], [rows + 1]], factoring.row_order(rows, count))
    found = stack.given(made, str(importer.env[node.args[0]].ty.dtype))
    return stack.all(found, found, found)


def _root(node: Any, importer: Any) -> Any:
    stack, x, (size, _) = _stack(node, importer)
    made, status = stack.run("cholesky", [x], [[size, size], [1]], factoring.root(size))
    return stack.all(stack.given(made), _first(stack, status))


def _solved(node: Any, importer: Any) -> Any:
    stack, a, (rows, _) = _stack(node, importer)
    _, b, (_, columns) = _stack(node, importer, 1)
    return stack.given(stack.run("triangular_solve", [a, b], [[rows, columns]], factoring.forward(rows, columns))[0])


def _orthogonal_upper(node: Any, importer: Any) -> Any:
    stack, x, (rows, columns) = _stack(node, importer)
    mode, count = [*node.args, "reduced"][1], min(rows, columns)
    made, factors = _householder(stack, x, rows, columns)
    wanted = rows if mode == "complete" else count
    upper = stack.emit(relax.op.triu(stack.emit(relax.op.strided_slice(made, [1], [0], [wanted]))))
    if mode == "r":
        return stack.all(stack.given(upper), stack.given(upper))
    left = _orthogonal(stack, made, factors, rows, wanted, count)
    return stack.all(stack.given(left), stack.given(upper))


def _householder(stack: _Stack, x: Any, rows: int, columns: int) -> tuple[Any, Any]:
    shapes = [[rows, columns], [min(rows, columns)], [ROOM]]
    made, factors, _ = stack.run("qr", [x], shapes, factoring.reflections(rows, columns))
    return made, factors


def _reflected(node: Any, importer: Any) -> Any:
    stack, vectors, (rows, columns) = _stack(node, importer)
    _, factors, (count,) = _stack(node, importer, 1, 1)
    return stack.given(_orthogonal(stack, vectors, factors, rows, columns, count))


def _orthogonal(stack: _Stack, vectors: Any, factors: Any, rows: int, columns: int, count: int) -> Any:
    body = factoring.reflected(rows, columns, count)
    return stack.run("orthogonal", [vectors, factors], [[rows, columns], [ROOM]], body)[0]


def _symmetric(node: Any, importer: Any) -> Any:
    stack, x, (size, _) = _stack(node, importer)
    if [*node.args, "L"][1] == "U":
        x = stack.emit(relax.op.permute_dims(x, [0, 2, 1]))
    shapes = [[size], [size, size], [size, size], [ROOM]]
    values, vectors, *_ = stack.run("eigh", [x], shapes, factoring.symmetric(size))
    return stack.all(stack.given(values), stack.given(vectors))


def _singular(node: Any, importer: Any) -> Any:
    """The left vectors are the reflections that make the matrix times its right ones a triangle."""
    stack, x, (rows, columns) = _stack(node, importer)
    full = bool([*node.args, False][1])
    turned = rows < columns
    if turned:
        x, rows, columns = stack.emit(relax.op.permute_dims(x, [0, 2, 1])), columns, rows
    shapes = [[columns], [columns, columns], [rows, columns], [ROOM]]
    values, right, work, _ = stack.run("svd", [x], shapes, factoring.singular(rows, columns))
    made, factors = _householder(stack, work, rows, columns)
    wanted = rows if full else columns
    left = _orthogonal(stack, made, factors, rows, wanted, columns)
    left = stack.emit(relax.op.multiply(left, _signs(stack, made, columns, wanted)))
    if turned:
        left, right = right, left
    right = stack.emit(relax.op.permute_dims(right, [0, 2, 1]))
    return stack.all(*map(stack.given, (left, values, right)))


def _signs(stack: _Stack, triangle: Any, count: int, wanted: int) -> Any:
    """Signs of a triangle's diagonal, and 1 for columns beyond it: [matrices, 1, columns]."""
    top = stack.emit(relax.op.strided_slice(triangle, [1], [0], [count]))
    unit = relax.const(np.eye(count), loops.KIND)
    diagonal = stack.emit(relax.op.sum(stack.emit(relax.op.multiply(top, unit)), [1], keepdims=True))
    one = relax.const(1.0, loops.KIND)
    below = stack.emit(relax.op.less(diagonal, relax.const(0.0, loops.KIND)))
    found = stack.emit(relax.op.where(below, stack.emit(relax.op.negative(one)), one))
    if wanted == count:
        return found
    rest = stack.emit(relax.op.full([stack.count, 1, wanted - count], one, loops.KIND))
    return stack.emit(relax.op.concat([found, rest], 2))
