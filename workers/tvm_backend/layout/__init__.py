"""Layouts across a model's graph: feature maps in blocks of channels, weights packed once."""

from workers.tvm_backend.layout.one_row import widen
from workers.tvm_backend.layout.packing import Packed
from workers.tvm_backend.layout.pads import absorb_pads
from workers.tvm_backend.layout.rewrite import block
from workers.tvm_backend.layout.slices import slice_maps
from workers.tvm_backend.layout.transposed import phases

__all__ = ["Packed", "absorb_pads", "block", "phases", "slice_maps", "widen"]
