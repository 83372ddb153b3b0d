"""PyTorch's interpolation, which TVM's importer samples by the sizes alone, and the nearest pixel by other rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax

from workers.tvm_backend.frontends.resize import OLD, Stretch, stretched, unsupported

NEAREST = {"mode": b"nearest", **OLD}
LINEAR = {"mode": b"linear", "coordinate_transformation_mode": b"half_pixel"}
CUBIC = {"mode": b"cubic", "coordinate_transformation_mode": b"half_pixel", "cubic_coeff_a": -0.5}
"""With anti-aliasing PyTorch takes Pillow's coefficient."""
SMOOTH = {"antialias": 1, "exclude_outside": 1}
SPATIAL = (2, 3)

Convert = Callable[[Any, Any], relax.Var]


def converters() -> Mapping[str, Convert]:
    """For TVM's importer of exported programs, by the operator's name."""
    return {
        "upsample_nearest2d.vec": _nearest,
        "upsample_bilinear2d.vec": _bilinear,
        "_upsample_bilinear2d_aa.default": _smooth(LINEAR),
        "_upsample_bicubic2d_aa.default": _smooth(CUBIC),
    }


def _nearest(node: Any, importer: Any) -> relax.Var:
    x, size, scales = _arguments(node, importer, 3)
    return _resized(
        importer,
        x,
        size,
        scales,
        NEAREST,
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def _bilinear(node: Any, importer: Any) -> relax.Var:
    x, size, corners, scales = _arguments(node, importer, 4)
    return _resized(
        importer,
        x,
        size,
        scales,
        None if corners else LINEAR,
        method="linear",
        coordinate_transformation_mode="align_corners" if corners else "half_pixel",
    )


def _resized(
    importer: Any,
    x: relax.Expr,
    size: Sequence[int] | None,
    scales: Sequence[float] | None,
    attrs: Mapping[str, Any] | None,
    **by_size: str,
) -> relax.Var:
    """By TVM's operator, which knows sizes, unless scales say something else; without ``attrs`` they never do."""
    found = [] if size else _stretches(x, None, scales)
    if attrs and not all(each.whole for each in found):
        return importer.block_builder.emit(stretched(importer.block_builder, x, found, attrs))
    wanted = tuple(size or (each.after for each in found))
    return importer.block_builder.emit(relax.op.image.resize2d(x, wanted, layout="NCHW", **by_size))


def _smooth(attrs: Mapping[str, Any]) -> Convert:
    def convert(node: Any, importer: Any) -> relax.Var:
        x, size, corners, *scales = _arguments(node, importer, 5)
        if corners:
            raise unsupported("antialias and align_corners")
        before = [int(x.ty.shape[axis]) for axis in SPATIAL]
        given = None if None in scales else scales
        if (
            size
            and given
            and [int(extent * factor) for extent, factor in zip(before, given, strict=True)] != list(size)
        ):
            raise unsupported("a size that is not what the scales make")
        found = _stretches(x, size, given)
        return importer.block_builder.emit(stretched(importer.block_builder, x, found, {**attrs, **SMOOTH}))

    return convert


def _arguments(node: Any, importer: Any, count: int) -> list[Any]:
    """The node's input and its other arguments, those that are left out as None."""
    return [importer.env[node.args[0]], *node.args[1:], *[None] * (count - len(node.args))]


def _stretches(x: relax.Expr, size: Sequence[int] | None, scales: Sequence[float] | None) -> list[Stretch]:
    """What becomes of the rows and the columns; without a size they are cut off to whole numbers, as PyTorch does."""
    before = [int(x.ty.shape[axis]) for axis in SPATIAL]
    factors: Sequence[float | None] = scales or (None, None)
    after = size or [int(extent * factor) for extent, factor in zip(before, factors, strict=True) if factor]
    return [Stretch(*each) for each in zip(SPATIAL, before, map(int, after), factors, strict=True)]
