"""ONNX's operators on windows that TVM's importer lacks: maxima and their places, sums of windows, moved windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.relax.frontend.onnx.onnx_frontend import get_constant

from workers.tvm_backend.frontends import places
from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.onnx.computed import MOST_CHOICES, Convert, chosen, operand, whole
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported


def with_places(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``MaxPool`` with the places of its maxima, counted through the whole tensor; its padding is written out."""
    bb, x, window = importer.bb, inputs[0], attrs["kernel_shape"]
    count = len(window)
    single = {**attrs, "tvm_custom": {**attrs["tvm_custom"], "num_outputs": 1}}
    values = bb.emit(importer.by_tvm("MaxPool", inputs, single, opset))
    strides, dilations = (attrs.get(name, [1] * count) for name in ("strides", "dilations"))
    windows = places.sliding(window, strides, attrs.get("pads", [0] * count), dilations)
    wanted = fixed_extents("MaxPool", values)
    where = places.of_maxima("MaxPool", bb, x, window, windows, wanted[2:])
    _, channels, *extents = fixed_extents("MaxPool", x)
    across = bool(attrs.get("storage_order", 0))

    def counted(where: te.Tensor) -> te.Tensor:
        def value(image: Any, channel: Any, *at: Any) -> Any:
            place = where(image, channel, *at)
            return (image * channels + channel) * math.prod(extents) + (_turned(place, extents) if across else place)

        return te.compute(where.shape, value, name="counted")

    return relax.Tuple([values, bb.emit_te(counted, where, primfunc_name_hint="counted")])


def _turned(place: Any, extents: Sequence[int]) -> Any:
    """A place in a plane, counted along its first axis first."""
    found, behind = tirx.const(0, "int64"), math.prod(extents)
    for n, extent in enumerate(extents):
        behind //= extent
        index = tirx.floormod(tirx.floordiv(place, behind), extent)
        found = found + index * math.prod(extents[:n])
    return found


def _unpooled(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """Elements written at their places, which are counted in a result without ``output_shape``."""
    emit, (x, where, given) = importer.bb.emit, [*inputs, None][:3]
    if operand(importer, inputs, 2) is not None:
        remedy = "export the model with a constant output_shape, or with a declared shape of the result"
        raise unsupported("MaxUnpool", "an output_shape that depends on the model's inputs", remedy)
    images, channels, *extents = fixed_extents("MaxUnpool", x)
    window, count = attrs["kernel_shape"], len(extents)
    strides, pads = attrs.get("strides", [1] * count), attrs.get("pads", [0] * (2 * count))
    own = [images, channels]
    for n, extent in enumerate(extents):
        own.append((extent - 1) * strides[n] - pads[n] - pads[count + n] + window[n])
    flat = [emit(relax.op.reshape(each, [-1])) for each in (where, x)]
    nothing = emit(relax.op.zeros([math.prod(own)], str(x.ty.dtype)))
    made = emit(relax.op.reshape(emit(relax.op.scatter_elements(nothing, *flat, axis=0)), own))
    if given is None:
        return made
    wanted = _numbers(importer, given)
    if len(wanted) != len(own) or any(more < extent for more, extent in zip(wanted, own, strict=True)):
        remedy = f"export the model with at least {own}"
        raise unsupported("MaxUnpool", f"the output_shape {wanted}, smaller than its windows make", remedy)
    return relax.op.nn.pad(
        made, [side for more, extent in zip(wanted, own, strict=True) for side in (0, more - extent)]
    )


def _numbers(importer: Any, given: Any) -> list[int]:
    """A constant's numbers."""
    found = get_constant(given, [importer._nodes, importer._params])
    if isinstance(found, relax.ShapeExpr):
        return [int(each) for each in found.values]
    return [int(each) for each in found.value.numpy().ravel()]


def _summed(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``Col2Im``: each element of an image is the sum of what windows have there."""
    emit, x = importer.bb.emit, inputs[0]
    fixed_extents("Col2Im", x)
    if operand(importer, inputs, 1) is not None:
        remedy = "export the model with a constant image_shape, or with a declared shape of the result"
        raise unsupported("Col2Im", "an image_shape that depends on the model's inputs", remedy)
    image = _numbers(importer, inputs[1])
    block = operand(importer, inputs, 2)
    if block is None:
        return _sums(importer, x, image, _numbers(importer, inputs[2]), attrs)
    choices = list(itertools.islice(_blocks(importer, x, image, attrs), MOST_CHOICES + 1))
    if not 0 < len(choices) <= MOST_CHOICES:
        remedy = "export the model with a constant block_shape, or with a declared shape of the result"
        raise unsupported("Col2Im", "a block_shape that depends on the model's inputs", remedy)
    options = []
    for choice in choices:
        same = emit(relax.op.equal(emit(relax.op.astype(block, "int64")), whole(choice)))
        hits = emit(relax.op.sum(emit(relax.op.astype(same, "int64"))))
        options.append((emit(relax.op.equal(hits, whole(len(image)))), emit(_sums(importer, x, image, choice, attrs))))
    return chosen(emit, options)


def _counts(image: Sequence[int], block: Sequence[int], attrs: Attributes) -> list[int]:
    """Windows along each axis."""
    rank = len(image)
    strides, dilations = (attrs.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = attrs.get("pads", [0] * (2 * rank))
    return [
        (extent + pads[n] + pads[rank + n] - dilations[n] * (block[n] - 1) - 1) // strides[n] + 1
        for n, extent in enumerate(image)
    ]


def _blocks(importer: Any, x: relax.Expr, image: Sequence[int], attrs: Attributes) -> Iterator[list[int]]:
    """Windows that fit the channels, the declared channels of the result, and how many windows there are."""
    _, rows, columns = fixed_extents("Col2Im", x)
    if importer.shape is None or rows % importer.shape[1]:
        return
    size = rows // importer.shape[1]
    divisors = [each for each in range(1, size + 1) if size % each == 0]
    for choice in itertools.product(divisors, repeat=len(image)):
        if math.prod(choice) == size:
            counts = _counts(image, choice, attrs)
            if min(counts) > 0 and math.prod(counts) == columns:
                yield list(choice)


def _sums(importer: Any, x: relax.Expr, image: Sequence[int], block: Sequence[int], attrs: Attributes) -> relax.Expr:
    images, rows, _ = fixed_extents("Col2Im", x)
    rank, size, counts = len(image), math.prod(block), _counts(image, block, attrs)
    strides, dilations = (attrs.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = attrs.get("pads", [0] * rank)

    def summed(x: te.Tensor) -> te.Tensor:
        inner = [te.reduce_axis((0, extent), f"k{n}") for n, extent in enumerate(block)]

        def value(batch: Any, channel: Any, *at: Any) -> Any:
            row, column, tests = tirx.const(0, "int32"), tirx.const(0, "int32"), []
            for n in range(rank):
                place = at[n] + pads[n] - inner[n] * dilations[n]
                window = tirx.floordiv(place, strides[n])
                tests += [place >= 0, tirx.floormod(place, strides[n]).equal(0), window < counts[n]]
                row, column = row * block[n] + inner[n], column * counts[n] + window
            number = x(batch, channel * size + row, column)
            return te.sum(tirx.if_then_else(tirx.all(*tests), number, tirx.const(0, x.dtype)), axis=inner)

        return te.compute((images, rows // size, *image), value, name="windows_summed")

    return importer.bb.emit_te(summed, x, primfunc_name_hint="windows_summed")


def _deformed(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    """``DeformConv`` as a product with what is read between pixels at moved places."""
    emit, (x, weight, moves, bias, mask) = importer.bb.emit, [*inputs, None, None][:5]
    images, _, *extents = fixed_extents("DeformConv", x)
    made, own, *window = fixed_extents("DeformConv", weight)
    if len(extents) != 2:
        raise unsupported("DeformConv", f"images of {len(extents)} axes", "export the model with images of two axes")
    groups, (high, wide) = attrs.get("group", 1), fixed_extents("DeformConv", moves)[2:]
    given = [x, moves] if mask is None else [x, moves, mask]

    def read(*given: te.Tensor) -> te.Tensor:
        return _read(given, window, attrs, (high, wide))

    cells = importer.bb.emit_te(read, *given, primfunc_name_hint="deformed")
    columns = emit(relax.op.reshape(cells, [images, groups, own * math.prod(window), high * wide]))
    rows = emit(relax.op.reshape(weight, [1, groups, made // groups, own * math.prod(window)]))
    found = emit(relax.op.reshape(emit(relax.op.matmul(rows, columns)), [images, made, high, wide]))
    return found if bias is None else relax.op.add(found, emit(relax.op.reshape(bias, [1, made, 1, 1])))


def _read(given: Sequence[te.Tensor], window: Sequence[int], attrs: Attributes, size: Sequence[int]) -> te.Tensor:
    """What windows read of an image, [images, channels, window …, places …]; nothing is outside of the image."""
    x, moves = given[:2]
    images, channels, *extents = (int(each) for each in x.shape)
    strides, dilations, pads = (
        attrs.get(name, default) for name, default in (("strides", [1, 1]), ("dilations", [1, 1]), ("pads", [0] * 4))
    )
    each, cells = channels // attrs.get("offset_group", 1), math.prod(window)

    def value(image: Any, channel: Any, row: Any, column: Any, *at: Any) -> Any:
        cell = tirx.floordiv(channel, each) * cells + row * window[1] + column
        found = tirx.const(0, x.dtype)
        starts, parts = [], []
        for n, inner in enumerate((row, column)):
            place = tirx.Cast("float32", at[n] * strides[n] - pads[n] + inner * dilations[n])
            place = place + tirx.Cast("float32", moves(image, cell * 2 + n, *at))
            # Far off the image every place is alike, and fits a whole number.
            place = tirx.max(tirx.min(place, tirx.const(extents[n] + 1, "float32")), tirx.const(-2, "float32"))
            starts.append(tirx.Cast("int32", tirx.floor(place)))
            parts.append(place - tirx.floor(place))
        for ends in itertools.product((0, 1), repeat=2):
            where, weight = [], tirx.const(1, "float32")
            for n, end in enumerate(ends):
                where.append(starts[n] + end)
                weight = weight * (parts[n] if end else tirx.const(1, "float32") - parts[n])
            inside = tirx.all(*(tirx.all(a >= 0, a < extent) for a, extent in zip(where, extents, strict=True)))
            number = tirx.if_then_else(inside, x(image, channel, *where), tirx.const(0, x.dtype))
            found = found + number * tirx.Cast(x.dtype, weight)
        return found * given[2](image, cell, *at) if len(given) > 2 else found

    return te.compute((images, channels, *window, *size), value, name="deformed")


CONVERTED: Mapping[str, Convert] = {"Col2Im": _summed, "DeformConv": _deformed, "MaxUnpool": _unpooled}
"""How each is converted."""
