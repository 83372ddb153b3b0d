"""PyTorch's sorts and places of extremes: NaN is the largest number to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx

from workers.tvm_backend.frontends.refusals import fixed_extents
from workers.tvm_backend.frontends.torch.resize import Convert
from workers.tvm_backend.passes import ordering

Windows = Sequence[Callable[[Any, Any], Any]]
"""Functions of a window and an element, one an axis: the place of that element, which may lie in the padding."""
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


def sliding(window: Sequence[int], strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Windows:
    """Windows of a pool."""

    def along(n: int) -> Callable[[Any, Any], Any]:
        return lambda at, k: at * strides[n] - padding[n] + k * dilation[n]

    return [along(n) for n in range(len(window))]


def adaptive(extents: Sequence[int], counts: Sequence[int]) -> tuple[list[int], Windows]:
    """Extents of the largest of PyTorch's adaptive windows, and these; small ones repeat their last element."""

    def along(extent: int, count: int) -> Callable[[Any, Any], Any]:
        return lambda at, k: tirx.min(
            tirx.floordiv(at * extent, count) + k, tirx.floordiv((at + 1) * extent + count - 1, count) - 1
        )

    sizes = [
        max(-(-(at + 1) * extent // count) - at * extent // count for at in range(count))
        for extent, count in zip(extents, counts, strict=True)
    ]
    return sizes, [along(*each) for each in zip(extents, counts, strict=True)]


def places(
    name: str, bb: Any, x: relax.Expr, window: Sequence[int], windows: Windows, counts: Sequence[int]
) -> relax.Var:
    """Where each window's maximum is in its plane, as PyTorch counts: int64, row by row; NaN is the maximum."""
    extents = fixed_extents(name, x)
    first = len(extents) - len(window)
    spatial = extents[first:]

    def found(x: te.Tensor) -> te.Tensor:
        order = ordering.key(x) if ordering.is_float(x) else x
        kind = str(order.dtype)
        inner = [te.reduce_axis((0, extent), f"k{n}") for n, extent in enumerate(window)]

        def better(a: Any, b: Any) -> Any:
            left = tirx.any(a[1] > b[1], tirx.all(a[1] == b[1], a[0] < b[0]))
            return tirx.Select(left, a[0], b[0]), tirx.Select(left, a[1], b[1])

        def worst(place: str, value: str) -> Any:
            return tirx.const(2**62, place), tirx.min_value(value)

        reducer = te.comm_reducer(better, worst, name="places")

        def value(*at: Any) -> Any:
            where = [along(at[first + n], inner[n]) for n, along in enumerate(windows)]
            inside = tirx.all(
                *(tirx.all(each >= 0, each < extent) for each, extent in zip(where, spatial, strict=True))
            )
            place = tirx.const(0, "int64")
            for each, extent in zip(where, spatial, strict=True):
                place = place * extent + each
            safe = [tirx.max(tirx.min(each, extent - 1), 0) for each, extent in zip(where, spatial, strict=True)]
            number = tirx.Select(inside, order(*at[:first], *safe), tirx.min_value(kind))
            return reducer(
                (tirx.Select(inside, tirx.Cast("int64", place), tirx.const(2**62, "int64")), number), axis=inner
            )

        return te.compute((*extents[:first], *counts), value, name="places")[0]

    return bb.emit_te(found, x, primfunc_name_hint="places")
