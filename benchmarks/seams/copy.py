"""A kernel in which each core writes pieces of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tunesmith.types import TensorSpec

LANES = 16
FLOAT = 4
"""Bytes."""


@dataclass(frozen=True)
class Copy:
    """``y = x + x``, of which each core writes ``pieces`` of ``bytes`` bytes.

    Attributes:
        threads: cores.
        between: the pieces of the cores take turns; else those of a core follow each other.
    """

    threads: int
    pieces: int
    bytes: int
    between: bool

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """What is read and what is written."""
        spec = TensorSpec("float32", (self.threads * self.pieces * self.bytes // FLOAT,))
        return spec, spec

    def module(self) -> Any:
        """The kernel."""
        import tvm
        from tvm.script import tirx as T

        threads, pieces, vectors = self.threads, self.pieces, self.bytes // FLOAT // LANES
        size, lanes = threads * pieces * vectors * LANES, LANES
        core, piece = (1, threads) if self.between else (pieces, 1)

        @T.prim_func  # type: ignore[untyped-decorator]
        def main(  # type: ignore[no-untyped-def]
            x: T.Buffer((size,), "float32"),  # type: ignore[valid-type]
            y: T.Buffer((size,), "float32"),  # type: ignore[valid-type]
        ):
            T.func_attr({"tirx.noalias": True})
            for t in T.parallel(threads):
                for p in range(pieces):
                    for i in range(vectors):
                        for v in T.vectorized(lanes):
                            y[((t * core + p * piece) * vectors + i) * lanes + v] = (
                                x[((t * core + p * piece) * vectors + i) * lanes + v]
                                + x[((t * core + p * piece) * vectors + i) * lanes + v]
                            )

        return tvm.IRModule({"main": main.with_attr("global_symbol", "main")})
