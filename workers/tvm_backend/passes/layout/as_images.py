"""Maps of one or three dimensions as images ``[N, C, H, W]``, which have kernels and layouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from workers.tvm_backend.passes import fold_constants
from workers.tvm_backend.passes.layout.expressions import operator, shape
from workers.tvm_backend.passes.layout.operators import BINARY, FINITE, STEEP


class AsImages(PyExprMutator, ABC):  # type: ignore[misc]
    """Rewrites convolutions as two-dimensional ones, and what stands between them on the same images.

    A result is emitted as images and given back its own shape, from which the next operator finds the images again;
    what nobody asks for is dead code.

    Attributes:
        RANK: axes of a map.
    """

    RANK: ClassVar[int]

    @abstractmethod
    def view(self, expr: relax.Expr) -> relax.Expr | None:
        """The images that there are of a map."""

    @abstractmethod
    def images(self, expr: relax.Expr) -> relax.Expr:
        """The images of a map, emitted where there are none yet."""

    @abstractmethod
    def whole(self, images: relax.Expr, dims: tuple[int, ...]) -> relax.Expr:
        """Images as the map of shape ``dims`` that they are of."""

    @abstractmethod
    def constant(self, array: NDArray[Any], dims: tuple[int, ...]) -> NDArray[Any] | None:
        """What broadcasts against images as ``array`` does against maps of shape ``dims``; None where nothing does."""

    @abstractmethod
    def special(self, name: str, call: relax.Call, dims: tuple[int, ...]) -> relax.Expr | None:
        """A convolution or pool, whose result is a map of shape ``dims``, as images; None where it stays."""

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        """A call whose result is a map."""
        call = self.visit_expr_post_order(op)
        dims = shape(call)
        made = None if dims is None or len(dims) != self.RANK else self._made(call, dims)
        return call if made is None or dims is None else self.whole(self.builder_.emit(made), dims)

    def visit_tuple_getitem_(self, op: relax.TupleGetItem) -> relax.Expr:
        """The first result of a normalisation."""
        item = self.visit_expr_post_order(op)
        call, dims = self.bound(item.tuple_value), shape(item)
        images = self.view(call.args[0]) if operator(call) == "relax.nn.batch_norm" else None
        if item.index or images is None or dims is None:
            return item
        normal = self.builder_.emit(relax.Call(call.op, [images, *call.args[1:]], call.attrs, call.ty_args))
        return self.whole(self.builder_.emit(relax.TupleGetItem(normal, 0)), dims)

    def bound(self, expr: relax.Expr) -> relax.Expr:
        """What a variable is bound to."""
        return fold_constants.value_of(self.builder_, expr)

    def array(self, expr: relax.Expr) -> NDArray[Any] | None:
        """The data of a constant; None for anything else."""
        return fold_constants.constant_of(self.builder_, expr)

    def _made(self, call: relax.Call, dims: tuple[int, ...]) -> relax.Expr | None:
        """The call on images; None where it stays."""
        name = operator(call)
        if name in (*FINITE, *STEEP):
            images = self.view(call.args[0])
            return None if images is None else relax.Call(call.op, [images, *call.args[1:]], call.attrs, call.ty_args)
        if name in (*BINARY, "relax.divide"):
            operands = self._operands(call.args, dims)
            return None if operands is None else relax.Call(call.op, operands, call.attrs, call.ty_args)
        return self.special(name, call, dims)

    def _operands(self, args: Sequence[relax.Expr], dims: tuple[int, ...]) -> list[relax.Expr] | None:
        """Operands of an elementwise operator; None where it has no images yet, or other operands than maps of its
        result's shape and constants."""
        if all(self.view(arg) is None for arg in args):
            return None
        arrays = [self.array(arg) for arg in args]
        if any(array is None and shape(arg) != dims for arg, array in zip(args, arrays, strict=True)):
            return None
        made = [None if array is None else self.constant(array, dims) for array in arrays]
        if any(array is not None and other is None for array, other in zip(arrays, made, strict=True)):
            return None
        return [
            self.images(arg) if other is None else fold_constants.to_constant(other)
            for arg, other in zip(args, made, strict=True)
        ]


def rewritten(mod: tvm.IRModule, mutator: PyExprMutator) -> tvm.IRModule:
    """``mod`` with what ``mutator`` makes of ``main``, and with the functions that this calls."""
    main = mutator.visit_expr(mod["main"])
    made = tvm.IRModule(dict(mutator.builder_.get().functions.items()), attrs=mod.attrs)
    made["main"] = main
    return made
