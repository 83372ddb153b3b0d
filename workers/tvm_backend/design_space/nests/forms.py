"""What the nests of one trace have in common: the tasks of a model often differ in nothing but their extents."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

from cachetools import LRUCache

from tunesmith.analysis.nest import Block, Extent, Factor, Nest

KEPT = 1024
"""Nests that are remembered."""

Part = tuple[tuple[tuple[int, tuple[Factor, ...]], ...], bool, tuple[Factor, ...]]


class NestForms:
    """The newest nest by trace and places of blocks, and which sketch of a space was the best. Threads may share it."""

    def __init__(self) -> None:
        self._chosen: LRUCache[bytes, int] = LRUCache(KEPT)
        self._found: LRUCache[tuple[bytes, tuple[int, ...]], Nest] = LRUCache(KEPT)
        self._lock = threading.Lock()

    def get(self, trace: str, places: tuple[int, ...]) -> Nest | None:
        """The nest of another workload; None where none is known."""
        with self._lock:
            return self._found.get(_key(trace, places))

    def put(self, trace: str, places: tuple[int, ...], nest: Nest) -> None:
        """Remember a nest."""
        with self._lock:
            self._found[_key(trace, places)] = nest

    def chosen(self, traces: Sequence[str]) -> int | None:
        """Which sketch the static model took in a space of sketches with these traces; None where none is known."""
        with self._lock:
            return self._chosen.get(_hash("\n".join(traces)))

    def choose(self, traces: Sequence[str], sketch: int) -> None:
        """Remember which it took."""
        with self._lock:
            self._chosen[_hash("\n".join(traces))] = sketch


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _key(trace: str, places: tuple[int, ...]) -> tuple[bytes, tuple[int, ...]]:
    return _hash(trace), places


def alike(a: Nest, b: Nest) -> bool:
    """True where two nests differ in constants alone: the same decisions move the same loops and sizes."""
    sizes = [[[size == 0 for size in buffer.shape] for buffer in nest.buffers] for nest in (a, b)]
    return [_form(block) for block in a.blocks] == [_form(block) for block in b.blocks] and sizes[0] == sizes[1]


def explained(nest: Nest) -> dict[int, Extent]:
    """Extents of a nest's loops by their numbers."""
    return {loop.number: loop.extent for block in nest.blocks for loop in block.loops}


def _form(block: Block) -> tuple[object, ...]:
    """Which axes a loop moves is left out: where it has one step, TVM does not tell."""
    loops = tuple((loop.number, _moved(loop.extent), loop.kind) for loop in block.loops)
    return loops, tuple(size == 0 for size in block.axes)


def _moved(extent: Extent) -> Part:
    """What moves an extent."""
    terms = tuple((term.stride, term.count.factors) for term in extent.terms)
    return terms, extent.most > 0, extent.per.factors
