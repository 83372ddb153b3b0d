"""Tensors that a program's blocks access. The operands of a concatenation are one tensor: a block reads one or another
of them, and of all together what it would read of their concatenation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm.ir import Call, TensorLoad, Var

from tunesmith.analysis.nest import Buffer, Index
from workers.tvm_backend.design_space.nests.lanes import Lanes
from workers.tvm_backend.dot.intrinsics import LANE_BYTES

LOCAL = "local"
"""Scope of a buffer of one thread."""

Indices = tuple[Index, ...]


@dataclass(frozen=True)
class Source:
    """A tensor, its lanes, or several tensors behind one another.

    Attributes:
        tensors: TVM's; more than one are joined.
        lanes, group: which part of its shape shares 32-bit lanes, and how many values one holds.
        dimension: in which the tensors are joined.
    """

    tensors: tuple[Any, ...]
    lanes: Lanes = Lanes.NONE
    group: int = 1
    dimension: int = 0

    def buffer(self) -> Buffer:
        """The tensor as the model sees it; lanes are what an instruction reads."""
        first = self.tensors[0]
        name, local = str(first.name), str(first.scope()) == LOCAL
        shape, size = shape_of(first), _bytes(str(first.ty.dtype))
        if len(self.tensors) > 1:
            whole = sum(shape_of(each)[self.dimension] for each in self.tensors)
            shape = (*shape[: self.dimension], whole, *shape[self.dimension + 1 :])
        if self.lanes is Lanes.DIMENSION:
            return Buffer(name, shape[:-1], LANE_BYTES, local)
        if self.lanes is Lanes.PART:
            return Buffer(name, (*shape[:-1], shape[-1] // self.group), LANE_BYTES, local)
        return Buffer(name, shape, size, local)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape of a tensor, of which every dimension is a number."""
    return tuple(int(extent) for extent in tensor.ty.shape)


def _bytes(dtype: str) -> int:
    return max(1, np.dtype(dtype).itemsize) if dtype != "bfloat16" else 2


def joined(block: Any, indices_of: Callable[[Any], Indices]) -> list[tuple[Source, Indices, list[Any]]]:
    """Tensors of which a block reads one or another, with the indices that they have in common, and their regions.

    Args:
        indices_of: indices of a region.
    """
    found, taken = [], list[Any]()
    for choice in _choices(block.body):
        tensors = _found(choice, TensorLoad, lambda load: load.source)
        regions = [region for region in block.reads if _is_in(region.source, tensors)]
        if len(regions) > 1 and not any(_is_in(region.source, taken) for region in regions):
            taken += [region.source for region in regions]
            dimension = _dimension(choice, regions)
            if dimension is not None and len({indices_of(region) for region in regions}) == 1:
                source = Source(tuple(region.source for region in regions), dimension=dimension)
                found.append((source, indices_of(regions[0]), regions))
    return found


def _choices(body: Any) -> list[Any]:
    """Choices between loads of single tensors, without those that are a part of another choice."""
    calls = [call for call in _found(body, Call, lambda call: call) if _is_choice(call)]
    parts = [part for call in calls for part in list(call.args)[1:]]
    outer = [call for call in calls if not _is_in(call, parts)]
    return [
        call for call in outer if all(len(_found(leaf, TensorLoad, lambda x: x.source)) == 1 for leaf in _leaves(call))
    ]


def _dimension(choice: Any, regions: list[Any]) -> int | None:
    """The dimension in which the tensors of some regions follow one another: the one that is chosen by, in which alone
    they may differ. None where there is no such one."""
    shapes = {shape_of(region.source) for region in regions}
    kinds = {(len(region.region), str(region.source.ty.dtype)) for region in regions}
    chosen = _found(choice.args[0], Var, lambda variable: variable)
    if len(kinds) > 1 or len(chosen) != 1:
        return None
    moved = [at for at, each in enumerate(regions[0].region) if _is_in(chosen[0], _found(each.min, Var, lambda x: x))]
    if len(moved) != 1:
        return None
    (at,) = moved
    return at if len({(*shape[:at], *shape[at + 1 :]) for shape in shapes}) == 1 else None


def _is_choice(value: Any) -> bool:
    return isinstance(value, Call) and str(getattr(value.op, "name", "")).endswith("if_then_else")


def _leaves(value: Any) -> list[Any]:
    """What nested choices choose between."""
    return [leaf for part in list(value.args)[1:] for leaf in _leaves(part)] if _is_choice(value) else [value]


def _found(value: Any, kind: type, what: Callable[[Any], Any]) -> list[Any]:
    """What each node of a kind in a value has, each once."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(value, (kind, nodes.append))
    found: list[Any] = []
    for node in nodes:
        if not _is_in(what(node), found):
            found.append(what(node))
    return found


def _is_in(node: Any, nodes: list[Any]) -> bool:
    return any(node.same_as(each) for each in nodes)
