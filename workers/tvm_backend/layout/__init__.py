"""Layouts across a model's graph: feature maps in blocks of channels, weights packed once."""

from workers.tvm_backend.layout.packing import Packed
from workers.tvm_backend.layout.rewrite import block

__all__ = ["Packed", "block"]
