"""Layouts across a model's graph: feature maps in blocks of channels, weights packed once."""

from workers.tvm_backend.passes.layout.blocks import depth_of_tiles
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.one_row import widen
from workers.tvm_backend.passes.layout.packing import Packed
from workers.tvm_backend.passes.layout.pads import absorb_pads
from workers.tvm_backend.passes.layout.rewrite import block
from workers.tvm_backend.passes.layout.slices import slice_maps
from workers.tvm_backend.passes.layout.transposed import phases
from workers.tvm_backend.passes.layout.values import Algorithms

__all__ = ["LANES", "Algorithms", "Packed", "absorb_pads", "block", "depth_of_tiles", "phases", "slice_maps", "widen"]
