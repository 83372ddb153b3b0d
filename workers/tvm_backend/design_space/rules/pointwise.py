"""Convolution with a 1x1 kernel in NCHW as a product: output channels are rows, an image's pixels are columns.

Nothing has to be transposed: pixels lie one after the other, and so do those of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules import padding
from workers.tvm_backend.design_space.rules.base import Rule, Variant
from workers.tvm_backend.design_space.rules.contraction import Contraction
from workers.tvm_backend.design_space.rules.convolution import Convolution, find
from workers.tvm_backend.design_space.rules.epilogue import fold, foldable
from workers.tvm_backend.design_space.rules.product import Packing, ProductPlan, arrange
from workers.tvm_backend.design_space.rules.registers import product_tiles


class PointwiseConvolution(Rule):
    """Applies to 1x1 convolutions with stride 1, of images whose pixels fill vectors.

    Sketches: tiles of one or two numbers of output channels that divide them. Knobs: those of ``PackedMatmul``.
    Nothing is packed: an image is long enough to be read as it lies.
    """

    def variants(self, sch: Schedule, cpu: CpuModel) -> Iterator[Variant]:
        """See ``Rule``."""
        found = find(sch)
        if found is None or found.dtype != "float32" or not foldable(sch, sch.get_sblock(found.block)):
            return
        image = _image(sch, found)
        if image is None or image.pixels % cpu.lanes():
            return
        channels = image.product.extents[1]
        for tile in product_tiles(cpu, 1, channels, image.pixels // cpu.lanes(), whole=True):
            yield partial(_schedule, image=image, plan=ProductPlan(image.product, cpu.lanes(), tile, Packing.NONE, cpu))


@dataclass(frozen=True)
class Image:
    """A 1x1 convolution as a product.

    Attributes:
        product: batch, output channels, pixels, input channels are its axes, in this order.
        width: pixels of a row.
    """

    product: Contraction
    width: int

    @property
    def pixels(self) -> int:
        """Number of pixels in an image."""
        return self.product.extents[2]


def _image(sch: Schedule, found: Convolution) -> Image | None:
    """None where a pixel of the result is not made of the same pixel of the padded input alone."""
    block = sch.get_sblock(found.block)
    n, o, y, x, i = (found.extents[at] for at in (found.batch, found.channel, found.height, found.width, found.inputs))
    source = [int(side) for side in sch.get(block).reads[found.source].source.shape]
    if any(found.extents[at] != 1 for at in found.kernel) or source != [n, i, y, x]:
        return None
    product = Contraction(
        found.block, (0,), (1,), 2, (3,), found.source, found.weights, 0, (n, o, y * x, i), found.dtype
    )
    return Image(product, x)


def _schedule(sch: Schedule, image: Image, plan: ProductPlan) -> None:
    def pixels(n: Any, c: Any, y: Any, x: Any) -> tuple[Any, ...]:
        return n, c, y * image.width + x

    block = sch.get_sblock(plan.found.block)
    for name in padding.copies(sch, block):
        padding.place(sch, sch.get_sblock(name), plan.lanes, None)
    last = fold(sch, block)
    written = sch.cache_write(block, 0, "local")
    if last is not None:
        sch.reverse_compute_inline(sch.get_sblock(last))
    sch.transform_block_layout(block, lambda n, o, y, x, i, ky, kx: (n, o, y * image.width + x, i))
    sch.transform_block_layout(written, pixels)
    sch.transform_layout(block, ("write", 0), pixels)
    arrange(sch, block, written, None, plan)
