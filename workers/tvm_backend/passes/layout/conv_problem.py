"""What is known of a convolution before its layout is chosen: its weights, shapes and multiplications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from workers.tvm_backend.passes.layout import row_words
from workers.tvm_backend.passes.layout.expressions import Shape


@dataclass(frozen=True)
class Convolution:
    """A convolution in NCHW that has a blocked kernel.

    Attributes:
        weight: [O, C / groups, KH, KW], or [C, 1, KH, KW] of a depthwise one.
        source: [N, C, H, W] of its input.
        stride, dilation: stride and dilation of height and width.
        padding: top, left, bottom, right.
        groups: number of groups of channels; each is convolved by itself.
        joined: how many groups a kernel computes together, so that blocks are filled.
        columns: columns of the result.
        macs: number of multiplications.
    """

    weight: NDArray[Any]
    source: Shape
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    joined: int
    columns: int
    macs: int

    @property
    def depthwise(self) -> bool:
        """Each channel by itself."""
        return self.weight.shape[1] == 1 and self.groups == len(self.weight) == self.source[1] > 1

    @property
    def fits_words(self) -> bool:
        """Whether it is depthwise and rows of narrow values can share lanes: 3×3, stride one, an even number of rows.

        The rows are those of the result.
        """
        rows = self.source[2] + self.padding[0] + self.padding[2] - (row_words.KERNEL - 1)
        single = self.stride == self.dilation == (1, 1) and self.weight.shape[2:] == (row_words.KERNEL,) * 2
        return self.depthwise and single and rows % row_words.STEP == 0

    @property
    def takes_blocks(self) -> bool:
        """Whether it takes its input in blocks alone."""
        return self.groups > 1
