"""PyTorch's sorts and places of extremes: NaN is the largest number to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax, te, tirx

from workers.tvm_backend.frontends.torch.resize import Convert
from workers.tvm_backend.passes import ordering

DEFAULTS: list[Any] = [-1, True, True]
"""Axis, direction and order of the largest elements."""
ALL: list[Any] = [None, False]
"""Axis of an extreme's place, and whether it is kept."""


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        "sort.default": _sort(stable=False),
        "sort.stable": _sort(stable=True),
        "argsort.default": _sort(stable=False, places=True),
        "argsort.stable": _sort(stable=True, places=True),
        "topk.default": _topk,
        "argmax.default": _place(relax.op.argmax),
        "argmin.default": _place(relax.op.argmin),
        "signbit.default": _signbit,
        "nextafter.default": _neighbour,
    }


def _order(bb: Any, x: relax.Expr) -> relax.Expr:
    """Whole numbers that sort as ``x`` does."""
    kind = str(x.ty.dtype)
    if kind in ordering.FLOATS:
        return bb.emit_te(ordering.key, x, primfunc_name_hint="order")
    return x if kind in ("int32", "int64") else bb.emit(relax.op.astype(x, "int32"))


def _sorted(bb: Any, x: relax.Expr, axis: int, descending: bool) -> tuple[relax.Expr, relax.Expr]:
    places = bb.emit(relax.op.argsort(_order(bb, x), axis, descending, "int64"))
    return bb.emit(relax.op.gather_elements(x, places, axis)), places


def _sort(stable: bool, places: bool = False) -> Convert:
    """TVM's sort is stable."""

    def convert(node: Any, importer: Any) -> relax.Var:
        given = dict(enumerate(node.args))
        if "stable" in str(node.target):
            axis = node.kwargs.get("dim", given.get(2, given.get(1, -1)))
            axis = -1 if isinstance(axis, bool) else axis
            down = node.kwargs.get("descending", given.get(3, False))
        else:
            axis, down = given.get(1, -1), given.get(2, False)
        x, bb = importer.env[node.args[0]], importer.block_builder
        values, at = _sorted(bb, x, axis % x.ty.ndim, bool(down))
        return at if places else bb.emit(relax.Tuple([values, at]))

    return convert


def _topk(node: Any, importer: Any) -> relax.Var:
    x, count, axis, largest, _ = list(node.args) + DEFAULTS[len(node.args) - 2 :]
    x, bb = importer.env[x], importer.block_builder
    axis %= x.ty.ndim
    found = _sorted(bb, x, axis, bool(largest))
    return bb.emit(relax.Tuple([bb.emit(relax.op.strided_slice(each, [axis], [0], [count])) for each in found]))


def _place(op: Callable[..., relax.Expr]) -> Convert:
    def convert(node: Any, importer: Any) -> relax.Var:
        x, axis, keep = list(node.args) + ALL[len(node.args) - 1 :]
        x, bb = importer.env[x], importer.block_builder
        rank = x.ty.ndim
        if axis is not None:
            return bb.emit(op(x, axis, bool(keep)))
        found = bb.emit(op(bb.emit(relax.op.reshape(x, [-1])), 0, False))
        return bb.emit(relax.op.reshape(found, [1] * rank)) if keep else found

    return convert


def _signbit(node: Any, importer: Any) -> relax.Var:
    x, bb = importer.env[node.args[0]], importer.block_builder
    kind = str(x.ty.dtype)
    if kind not in ordering.FLOATS:
        return bb.emit(relax.op.less(x, relax.const(0, kind)))
    bits = {"float64": "int64", "float32": "int32"}.get(kind, "int16")

    def negative(x: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, bits)
        return te.compute(x.shape, lambda *at: tirx.reinterpret(bits, x(*at)) < zero, name="signbit")

    return bb.emit_te(negative, x, primfunc_name_hint="signbit")


def _neighbour(node: Any, importer: Any) -> relax.Var:
    """The next number in a direction: one more or one less as a whole number of the same bits."""
    bb, kind = importer.block_builder, str(node.meta["val"].dtype).removeprefix("torch.")
    shape = [int(extent) for extent in node.meta["val"].shape]
    bits = {"float64": "int64", "float32": "int32"}.get(kind, "int16")
    x, to = (bb.emit(relax.op.broadcast_to(importer.env[arg], shape)) for arg in node.args)

    def following(x: te.Tensor, to: te.Tensor) -> te.Tensor:
        one, none = tirx.const(1, bits), tirx.const(0.0, kind)

        def value(*at: Any) -> Any:
            number, goal = x(*at), to(*at)
            whole = tirx.reinterpret(bits, number)
            moved = tirx.Select(
                tirx.any(tirx.all(goal > number, number > none), tirx.all(goal < number, number < none)),
                whole + one,
                whole - one,
            )
            least = tirx.Select(goal > none, one, tirx.min_value(bits) + one)
            found = tirx.reinterpret(kind, tirx.Select(number.equal(none), least, moved))
            found = tirx.Select(number.equal(goal), goal, found)
            return tirx.Select(tirx.any(tirx.isnan(number), tirx.isnan(goal)), number + goal, found)

        return te.compute(x.shape, value, name="nextafter")

    return bb.emit_te(following, x, to, primfunc_name_hint="nextafter")
