"""ONNX's ``TfIdfVectorizer`` of whole numbers: how often each sequence of a pool is in a row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax, te, tirx

from workers.tvm_backend.frontends import sizes
from workers.tvm_backend.frontends.onnx.attention import Attributes
from workers.tvm_backend.frontends.refusals import fixed_extents, unsupported

NAME = "TfIdfVectorizer"
Pool = Mapping[tuple[int, ...], int]
"""Columns of the result, by sequence."""


def _vectorised(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
    emit, x = importer.bb.emit, inputs[0]
    if "pool_strings" in attrs:
        raise unsupported(NAME, "pool_strings", "export the model with pool_int64s")
    extents, columns = fixed_extents(NAME, x), list(map(int, attrs["ngram_indexes"]))
    if len(set(columns)) < len(columns):
        raise unsupported(NAME, "ngram_indexes of which two are the same", "export the model with a column for each")
    width, batch = max(columns) + 1, extents[0] if len(extents) == 2 else 1
    row = emit(relax.op.reshape(emit(relax.op.astype(x, "int64")), [batch, -1]))
    counts, sources = [emit(relax.op.zeros([batch, 1], "int32"))], np.zeros(width, np.int64)
    first = 1
    for pool in _pools(attrs, columns):
        sources[list(pool.values())] = np.arange(first, first + len(pool))
        first += len(pool)
        counts.append(emit(_counted(importer.bb, row, pool, int(attrs.get("max_skip_count", 0)))))
    found = emit(relax.op.take(emit(relax.op.concat(counts, 1)), relax.const(sources), 1))
    return relax.op.reshape(_weighted(emit, found, attrs, columns), [*extents[:-1], width])


def _pools(attrs: Attributes, columns: list[int]) -> list[Pool]:
    """Sequences that are looked for, those of each length together; of two that are the same the last one counts."""
    numbers, starts = list(map(int, attrs["pool_int64s"])), [*map(int, attrs["ngram_counts"])]
    found: list[Pool] = []
    first = 0
    for length, (begin, end) in enumerate(itertools.pairwise([*starts, len(numbers)]), start=1):
        cut = [tuple(numbers[at : at + length]) for at in range(begin, end - length + 1, length)]
        if cut and int(attrs["min_gram_length"]) <= length <= int(attrs["max_gram_length"]):
            found.append(dict(zip(cut, columns[first : first + len(cut)], strict=True)))
        first += len(cut)
    return found


def _counted(bb: relax.BlockBuilder, row: relax.Expr, pool: Pool, skips: int) -> relax.Expr:
    """How often each sequence is in each row, with up to so many elements left out between two of its own."""
    batch, extent = fixed_extents(NAME, row)
    grams = np.array(list(pool), np.int64)
    length = grams.shape[1]
    places = [
        range(start, start + length * step, step)
        for step in range(1, 2 + (min(skips, extent) if length > 1 else 0))
        for start in range(extent - (length - 1) * step)
    ]
    sizes.Unfolding().add(f"the places of {NAME}", [len(places), length], 64, 0)
    if not places:
        return relax.op.zeros([batch, len(pool)], "int32")
    taken = bb.emit(relax.op.take(row, relax.const(np.array(places, np.int64)), 1))

    def computed(taken: te.Tensor, grams: te.Tensor) -> te.Tensor:
        place = te.reduce_axis((0, len(places)), "place")

        def hit(at: Any, gram: Any) -> Any:
            same = [taken(at, place, part).equal(grams(gram, part)) for part in range(length)]
            return te.sum(tirx.Cast("int32", tirx.all(*same)), axis=place)

        return te.compute((batch, len(pool)), hit, name="grams")

    return bb.emit_te(computed, taken, relax.const(grams), primfunc_name_hint="grams")


def _weighted(
    emit: Callable[[relax.Expr], relax.Var], counts: relax.Expr, attrs: Attributes, columns: list[int]
) -> relax.Expr:
    """Counts, or whether there are any, times weights: float32."""
    mode, weights = attrs["mode"].decode(), np.array(attrs.get("weights", []), np.float32)
    if mode == "IDF":
        counts = emit(relax.op.minimum(counts, relax.const(1, "int32")))
    found = emit(relax.op.astype(counts, "float32"))
    return found if mode == "TF" or not len(weights) else emit(relax.op.multiply(found, _factors(weights, columns)))


def _factors(weights: NDArray[np.float32], columns: list[int]) -> relax.Expr:
    """Weights by column. ONNX says that they follow the pool, its reference and onnxruntime the columns."""
    by_column = np.zeros(max(columns) + 1, np.float32)
    by_column[columns] = weights
    if len(weights) != len(by_column) or (by_column != weights).any():
        raise unsupported(NAME, "weights and ngram_indexes in another order", "export the model with them in order")
    return relax.const(by_column)


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr]] = {NAME: _vectorised}
"""How it is converted, by its name."""
