"""ONNX's operators on boxes of images: those that overlap least, and means or maxima of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.onnx.computed import Convert, operand
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported
from workers.tvm_backend.passes import ordering

LIMITS = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
"""Operands of ``NonMaxSuppression`` behind boxes and scores."""
HALF_PIXEL = 16
"""First opset whose ``RoiAlign`` moves regions by half a pixel unless it says otherwise."""


def _suppressed(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """As many boxes as the file declares; rows of zeros behind the last where there are fewer."""
    name = "NonMaxSuppression"
    if importer.shape is None:
        for at, what in enumerate(LIMITS, 2):
            if operand(importer, inputs, at) is not None:
                remedy = f"export the model with a constant {what}, or with a declared shape of the result"
                raise unsupported(name, f"a {what} that depends on the model's inputs", remedy)
        return None
    bb, (boxes, scores, *limits) = importer.bb, [*inputs, None, None, None][:5]
    rows, batches, classes, count = importer.shape[0], *fixed_extents(name, scores)
    fixed_extents(name, boxes)
    most, overlap, least = (
        relax.const(np.zeros(1, kind), kind) if given is None else bb.emit(relax.op.reshape(given, [1]))
        for given, kind in zip(limits, ("int64", "float32", "float32"), strict=True)
    )
    order = bb.emit_te(ordering.key, scores, primfunc_name_hint="order")
    order = bb.emit(relax.op.argsort(order, axis=2, descending=True, dtype="int64"))
    kernel = _Suppression(batches, classes, count, rows, bool(attrs.get("center_point_box")), limits[2] is not None)
    groups = batches * classes
    shapes, kinds = [[rows, 3], [groups, count], [groups], [groups]], ["int64"] * 4

    def chosen(*given: te.Tensor) -> list[te.Tensor]:
        return list(te.extern(shapes, list(given), kernel.built, dtype=kinds, name="suppressed"))

    made = bb.emit_te(chosen, boxes, scores, order, most, overlap, least, primfunc_name_hint="suppressed")
    return relax.TupleGetItem(made, 0)


class _Suppression:
    """A kernel that takes each class' boxes by their scores, except those that overlap one taken before too much."""

    def __init__(self, batches: int, classes: int, count: int, rows: int, centred: bool, bounded: bool) -> None:
        """``count``: boxes of an image; ``rows``: of the result; ``bounded``: there is a least score."""
        self.groups, self.classes, self.count, self.rows = batches * classes, classes, count, rows
        self.centred, self.bounded = centred, bounded

    def built(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        """The kernel's body.

        Args:
            ins: boxes, scores, their order and the three limits.
            outs: the result, boxes that each class takes, how many these are, and whether one is free of overlap.
        """
        with IRBuilder() as ib:
            with T.serial(0, 1):  # a body is one statement
                with T.parallel(0, self.groups) as group:
                    self._take(group, ins, outs[1:])
                self._list(*outs)
            return ib.get()

    def _take(self, group: Any, ins: Sequence[Any], room: Sequence[Any]) -> None:
        """Take the boxes of one class in one image."""
        (boxes, scores, order, most, overlap, least), (taken, counts, free) = ins, room
        batch, kind = tirx.floordiv(group, self.classes), tirx.floormod(group, self.classes)
        T.buffer_store(counts, _whole(0), [group])
        with T.serial(0, self.count) as rank:
            box = order[batch, kind, rank]
            T.buffer_store(free, tirx.Cast("int64", counts[group] < most[0]), [group])
            if self.bounded:
                above = tirx.Cast("int64", scores[batch, kind, box] > least[0])
                T.buffer_store(free, free[group] * above, [group])
            with T.serial(0, counts[group]) as at, T.If(free[group] > 0), T.Then():
                share = self._share(boxes, batch, box, taken[group, at])
                T.buffer_store(free, tirx.Cast("int64", tirx.Not(share > overlap[0])), [group])
            with T.If(free[group] > 0), T.Then():
                T.buffer_store(taken, box, [group, counts[group]])
                T.buffer_store(counts, counts[group] + _whole(1), [group])

    def _share(self, boxes: Any, batch: Any, one: Any, other: Any) -> Any:
        """The part of two boxes' union that is in both; below every limit where they do not overlap."""
        sides = [self._sides(boxes, batch, one), self._sides(boxes, batch, other)]
        none, both = tirx.const(0, "float32"), tirx.const(1, "float32")
        apart: list[Any] = []
        for (low, high), (first, last) in zip(*sides, strict=True):
            length = tirx.min(high, last) - tirx.max(low, first)
            both = both * length
            apart.append(length <= none)
        areas = [(y[1] - y[0]) * (x[1] - x[0]) for y, x in sides]
        union = areas[0] + areas[1] - both
        apart += [area <= none for area in (*areas, union)]
        return tirx.Select(tirx.any(*apart), tirx.min_value("float32"), both / union)

    def _sides(self, boxes: Any, batch: Any, box: Any) -> list[tuple[Any, Any]]:
        """Where a box begins and ends along two axes."""
        a, b, c, d = (boxes[batch, box, at] for at in range(4))
        if not self.centred:
            return [(tirx.min(a, c), tirx.max(a, c)), (tirx.min(b, d), tirx.max(b, d))]
        half = tirx.const(0.5, "float32")
        return [(b - d * half, b + d * half), (a - c * half, a + c * half)]

    def _list(self, made: Any, taken: Any, counts: Any, free: Any) -> None:
        """Write image, class and box of each that is taken; ``free`` counts the rows."""
        with T.serial(0, self.rows) as row, T.serial(0, 3) as column:
            T.buffer_store(made, _whole(0), [row, column])
        T.buffer_store(free, _whole(0), [0])
        with T.serial(0, self.groups) as group, T.serial(0, counts[group]) as at:
            with T.If(free[0] < self.rows), T.Then():
                parts = (tirx.floordiv(group, self.classes), tirx.floormod(group, self.classes), taken[group, at])
                for column, part in enumerate(parts):
                    T.buffer_store(made, tirx.Cast("int64", part), [free[0], column])
                T.buffer_store(free, free[0] + _whole(1), [0])


def _whole(value: int) -> Any:
    return tirx.const(value, "int64")


def _aligned(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr | None:
    """Regions of half pixels, or maxima: TVM moves regions before it scales them, and its maxima are of samples."""
    usual = b"half_pixel" if opset >= HALF_PIXEL else b"output_half_pixel"
    half = attrs.get("coordinate_transformation_mode", usual) == b"half_pixel"
    most = attrs.get("mode", b"avg") == b"max"
    if not half and not most:
        return None

    def pooled(x: te.Tensor, regions: te.Tensor, images: te.Tensor) -> te.Tensor:
        return _pooled(x, regions, images, attrs, half, most)

    return importer.bb.emit_te(pooled, *inputs, primfunc_name_hint="regions")


def _pooled(
    x: te.Tensor, regions: te.Tensor, images: te.Tensor, attrs: Attributes, half: bool, most: bool
) -> te.Tensor:
    """Means of a region's samples, or maxima of what their four pixels add to them; 0 where it has no sample."""
    kind, extents = str(x.dtype), [int(each) for each in x.shape[2:]]
    scale, ratio = tirx.const(attrs.get("spatial_scale", 1.0), kind), attrs.get("sampling_ratio", 0)
    moved = tirx.const(0.5 if half else 0, kind)
    size = (attrs.get("output_height", 1), attrs.get("output_width", 1))
    corner = te.reduce_axis((0, 4), "corner")

    def value(region: Any, channel: Any, *at: Any) -> Any:
        inner, sides, missing, samples = [], [], [], tirx.const(1, "int32")
        for n in range(2):
            begin = regions[region, 1 - n] * scale - moved
            length = regions[region, 3 - n] * scale - moved - begin
            step = (length if half else tirx.max(length, tirx.const(1, kind))) / tirx.const(size[n], kind)
            count = tirx.const(ratio, "int32") if ratio > 0 else tirx.Cast("int32", tirx.ceil(step))
            missing.append(count <= 0)
            count = tirx.max(count, 1)  # a sum of nothing would not be written
            inner.append(te.reduce_axis((0, count), f"r{n}"))
            part = (tirx.Cast(kind, inner[n]) + tirx.const(0.5, kind)) * step / tirx.Cast(kind, count)
            far = tirx.floormod(tirx.floordiv(corner, 2 - n), 2)
            sides.append(_side(begin + tirx.Cast(kind, at[n]) * step + part, extents[n], far, kind))
            samples = samples * count
        (row, high, off), (column, wide, out) = sides
        found = high * wide * x[tirx.Cast("int32", images[region]), channel, row, column]
        found = tirx.Select(tirx.any(off, out, *missing), tirx.const(0, kind), found)
        axes = [*inner, corner]
        return ordering.LARGEST(found, axis=axes) if most else te.sum(found / tirx.Cast(kind, samples), axis=axes)

    return te.compute((regions.shape[0], x.shape[1], *size), value, name="regions")


def _side(place: Any, extent: int, far: Any, kind: str) -> tuple[Any, Any, Any]:
    """Along one axis: the pixel before a place or the one behind, its weight, and whether the place is off the map."""
    off = tirx.any(place < tirx.const(-1, kind), place > tirx.const(extent, kind))
    inside = tirx.max(tirx.min(place, tirx.const(extent - 1, kind)), tirx.const(0, kind))
    before = tirx.Cast("int32", tirx.floor(inside))
    part = inside - tirx.Cast(kind, before)
    weight = tirx.Select(far > 0, part, tirx.const(1, kind) - part)
    return tirx.min(before + far, extent - 1), weight, off


CONVERTED: Mapping[str, Convert] = {"NonMaxSuppression": _suppressed, "RoiAlign": _aligned}
"""How each is converted; a converter returns None for what TVM's importer does rightly."""
