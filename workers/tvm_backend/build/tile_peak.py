"""The kernel that shows the peak of a matrix unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tunesmith.arithmetic import NARROW
from tunesmith.names import BF16
from tunesmith.types import TensorSpec, Values
from workers.tvm_backend.dot.unit import ACCUMULATORS

BYTES, SIDE = 64, 16
"""Bytes of a row of a tile, and rows."""
ROUNDS = 1 << 16


@dataclass(frozen=True)
class TilePeak:
    """Independent products of tiles, as many as the unit has accumulators, on each of ``threads`` cores.

    For CPUs with AMX alone: others end the process.

    Attributes:
        precision: ``bf16`` or ``int8``.
    """

    threads: int
    precision: str

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """A tile of rows, one of columns, and the sums."""
        sums = (self.threads * ACCUMULATORS * SIDE * SIDE,)
        if self.precision != BF16:
            size = (BYTES * SIDE,)
            return TensorSpec("uint8", size), TensorSpec("int8", size), TensorSpec("int32", sums)
        pairs = NARROW[BF16]
        tile = TensorSpec(
            pairs.storage, (BYTES * SIDE // pairs.bytes,), values=Values(-1.0, 1.0, bits_of=pairs.numbers)
        )
        return tile, tile, TensorSpec("float32", sums)

    @property
    def work(self) -> float:
        """Operations; a multiply-add counts as two."""
        values = BYTES // NARROW[self.precision].bytes
        return 2.0 * values * SIDE * SIDE * self.threads * ACCUMULATORS * ROUNDS

    def module(self) -> Any:
        """Each round adds the same product to all tiles; one of the operands is loaded anew for each."""
        from tvm import IRModule
        from tvm.script import tirx as T

        from workers.tvm_backend.dot.matrix import MATRIX

        left, right, out_spec = self.args
        dot = next(each for each in MATRIX if each.weights == right.dtype and each.rows == each.steps == SIDE)
        threads, helper, name = self.threads, dot.helper, dot.function
        size, dtype, kinds, sums = left.shape[0], out_spec.dtype, (left.dtype, right.dtype), out_spec.shape[0]
        tiles, tile = ACCUMULATORS, SIDE * SIDE

        @T.prim_func  # type: ignore[untyped-decorator]
        def main(  # type: ignore[no-untyped-def]
            x: T.Buffer((size,), kinds[0]),  # type: ignore[valid-type]
            y: T.Buffer((size,), kinds[1]),  # type: ignore[valid-type]
            out: T.Buffer((sums,), dtype),  # type: ignore[valid-type]
        ):
            T.func_attr({"tirx.noalias": True})
            for t in T.parallel(threads, annotations={"pragma_import_llvm": helper}):
                for c in T.unroll(tiles):
                    T.evaluate(T.call_extern("void", "ts_amx_zero", T.cast(c, "int8"), 16, 16))
                for _ in range(ROUNDS):
                    for c in T.unroll(tiles):
                        T.evaluate(
                            T.call_extern(
                                "void",
                                name,
                                T.cast(c, "int8"),
                                T.Select(c == 0, 1, 0),
                                T.address_of(x[0]),
                                T.int64(64),
                                T.address_of(y[0]),
                                T.int64(64),
                            )
                        )
                for c in T.unroll(tiles):
                    T.evaluate(
                        T.call_extern(
                            "void",
                            "ts_amx_store",
                            T.cast(c, "int8"),
                            T.address_of(out[(t * tiles + c) * tile]),
                            T.int64(64),
                        )
                    )

        return IRModule({"main": main.with_attr("global_symbol", "main")})
