"""Kernels that show what a CPU can do: its peak, its read bandwidth, and one that never changes, to see drift.

Plain TIR for any CPU that LLVM knows; the target decides the instructions, ``threads`` the cores. Descriptions hold
no TVM object and cross processes; :func:`build` makes a library of one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from tunesmith.arithmetic import NARROW
from tunesmith.host import cache_sizes
from tunesmith.names import BF16, INT8
from tunesmith.targets import Target
from tunesmith.types import TensorSpec, Values
from workers.protocol import Built
from workers.tvm_backend.build import linking
from workers.tvm_backend.build.tile_peak import TilePeak

VERSION = 2
"""Raised when a kernel changes or is added: earlier latencies are no longer a reference."""
FUNCTION = "main"
CHAINS = 12
"""Independent chains of multiply-adds: latency times throughput is 8 on x86 and 8 to 16 on Arm."""
PAIR_CHAINS = 16
"""The same of products of pairs, whose latency is longer."""
LANES = (16, 8)
"""Floats of a chain: 16 fill AVX-512, 8 fill AVX2 and two registers of NEON, and neither spills there."""
ROUNDS = 1 << 18
STREAMS = 8
ROW = STREAMS * LANES[0]
"""Floats that :class:`Read` takes at a time."""
SIDE = 256
MIB = 1 << 20
UNCACHED_BYTES = (64 * MIB, 256 * MIB)


@dataclass(frozen=True)
class Peak:
    """Independent float32 multiply-adds in registers, ``CHAINS`` vectors of ``lanes`` on each of ``threads`` cores."""

    threads: int
    lanes: int = LANES[0]

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """Factor, summand, and the chains' ends."""
        vector = TensorSpec("float32", (self.lanes,))
        return vector, vector, TensorSpec("float32", (self.threads * CHAINS * self.lanes,))

    @property
    def work(self) -> float:
        """FLOP; a multiply-add counts as two."""
        return 2.0 * self.threads * CHAINS * self.lanes * ROUNDS

    def module(self) -> Any:
        """``acc = acc * x + y``; with |x| < 1 it converges, so no value overflows or becomes denormal."""
        from tvm.script import tirx as T

        threads, lanes, width = self.threads, self.lanes, CHAINS * self.lanes

        @T.prim_func  # type: ignore[untyped-decorator]
        def main(  # type: ignore[no-untyped-def]
            x: T.Buffer((lanes,), "float32"),  # type: ignore[valid-type]
            y: T.Buffer((lanes,), "float32"),  # type: ignore[valid-type]
            out: T.Buffer((threads * width,), "float32"),  # type: ignore[valid-type]
        ):
            T.func_attr({"tirx.noalias": True})
            for t in T.parallel(threads):
                acc = T.alloc_buffer((width,), "float32", scope="local")
                for c in T.unroll(CHAINS):
                    for v in T.vectorized(lanes):
                        acc[c * lanes + v] = y[v] * T.float32(c + 1)
                for _ in range(ROUNDS):
                    for c in T.unroll(CHAINS):
                        for v in T.vectorized(lanes):
                            acc[c * lanes + v] = acc[c * lanes + v] * x[v] + y[v]
                for c in T.unroll(CHAINS):
                    for v in T.vectorized(lanes):
                        out[t * width + c * lanes + v] = acc[c * lanes + v]

        return _module(main)


@dataclass(frozen=True)
class PairPeak:
    """Independent products of bfloat16 pairs in registers, ``PAIR_CHAINS`` vectors on each of ``threads`` cores.

    For CPUs with AVX512_BF16 alone: for others LLVM ends the process.
    """

    threads: int

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """Both factors, and the chains' ends."""
        pairs = NARROW[BF16]
        factor = TensorSpec(pairs.storage, (2 * LANES[0],), values=Values(-1.0, 1.0, bits_of=pairs.numbers))
        return factor, factor, TensorSpec("float32", (self.threads * PAIR_CHAINS * LANES[0],))

    @property
    def work(self) -> float:
        """FLOP; a multiply-add counts as two."""
        return 2.0 * 2 * self.threads * PAIR_CHAINS * LANES[0] * ROUNDS

    def module(self) -> Any:
        """``acc = acc + x[0] * y[0] + x[1] * y[1]`` in each lane; no chain grows beyond ``2 * ROUNDS``."""
        from tvm.script import tirx as T

        from workers.tvm_backend.dot.intrinsics import DPBF16PS

        threads, lanes, width, helper = self.threads, LANES[0], PAIR_CHAINS * LANES[0], DPBF16PS

        @T.prim_func  # type: ignore[untyped-decorator]
        def main(  # type: ignore[no-untyped-def]
            x: T.Buffer((2 * lanes,), "uint16"),  # type: ignore[valid-type]
            y: T.Buffer((2 * lanes,), "uint16"),  # type: ignore[valid-type]
            out: T.Buffer((threads * width,), "float32"),  # type: ignore[valid-type]
        ):
            T.func_attr({"tirx.noalias": True})
            for t in T.parallel(threads, annotations={"pragma_import_llvm": helper}):
                acc = T.alloc_buffer((width,), "float32", scope="local")
                for c in T.unroll(PAIR_CHAINS):
                    for v in T.vectorized(lanes):
                        acc[c * lanes + v] = T.float32(c + 1)
                for _ in range(ROUNDS):
                    for c in T.unroll(PAIR_CHAINS):
                        acc[T.ramp(c * lanes, 1, lanes)] = T.call_pure_extern(
                            "float32x16",
                            "ts_dpbf16ps",
                            acc[T.ramp(c * lanes, 1, lanes)],
                            T.reinterpret("int32x16", x[T.ramp(0, 1, 2 * lanes)]),
                            T.reinterpret("int32x16", y[T.ramp(0, 1, 2 * lanes)]),
                        )
                for c in T.unroll(PAIR_CHAINS):
                    for v in T.vectorized(lanes):
                        out[t * width + c * lanes + v] = acc[c * lanes + v]

        return _module(main)


@dataclass(frozen=True)
class QuadPeak:
    """Independent products of four bytes in registers, ``chains`` vectors of ``lanes`` on each of ``threads`` cores.

    For CPUs with VNNI of that width alone: for others LLVM ends the process.
    """

    threads: int
    lanes: int = LANES[0]

    @property
    def chains(self) -> int:
        """Two registers hold the factors."""
        return PAIR_CHAINS if self.lanes == LANES[0] else CHAINS

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """Both factors, one of them without a sign, and the chains' ends."""
        factors = (TensorSpec(kind, (4 * self.lanes,)) for kind in ("uint8", NARROW[INT8].storage))
        return (*factors, TensorSpec("int32", (self.threads * self.chains * self.lanes,)))

    @property
    def work(self) -> float:
        """Operations; a multiply-add counts as two."""
        return 2.0 * 4 * self.threads * self.chains * self.lanes * ROUNDS

    def module(self) -> Any:
        """Each lane adds four products; what exceeds 32 bits is left out."""
        from tvm.script import tirx as T

        threads, lanes, chains, width = self.threads, self.lanes, self.chains, self.chains * self.lanes
        name, kind = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", f"int32x{lanes}"

        @T.prim_func  # type: ignore[untyped-decorator]
        def main(  # type: ignore[no-untyped-def]
            x: T.Buffer((4 * lanes,), "uint8"),  # type: ignore[valid-type]
            y: T.Buffer((4 * lanes,), "int8"),  # type: ignore[valid-type]
            out: T.Buffer((threads * width,), "int32"),  # type: ignore[valid-type]
        ):
            T.func_attr({"tirx.noalias": True})
            for t in T.parallel(threads):
                acc = T.alloc_buffer((width,), "int32", scope="local")
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        acc[c * lanes + v] = c + 1
                for _ in range(ROUNDS):
                    for c in T.unroll(chains):
                        acc[T.ramp(c * lanes, 1, lanes)] = T.call_pure_extern(
                            kind,
                            name,
                            acc[T.ramp(c * lanes, 1, lanes)],
                            x[T.ramp(0, 1, 4 * lanes)],
                            y[T.ramp(0, 1, 4 * lanes)],
                        )
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        out[t * width + c * lanes + v] = acc[c * lanes + v]

        return _module(main)


@dataclass(frozen=True)
class Read:
    """Sums ``size`` bytes of float32, an equal part on each of ``threads`` cores, ``passes`` times over."""

    threads: int
    size: int
    passes: int = 1

    @property
    def rows(self) -> int:
        """Blocks of ``ROW`` floats that a core sums in one pass."""
        return max(1, self.size // (4 * ROW * self.threads))

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """The buffer and the partial sums."""
        return (
            TensorSpec("float32", (self.threads * self.rows * ROW,)),
            TensorSpec("float32", (self.threads * ROW,)),
        )

    @property
    def work(self) -> float:
        """Bytes read, ``size`` rounded to whole rows times ``passes``."""
        return 4.0 * ROW * self.rows * self.threads * self.passes

    def module(self) -> Any:
        """Floating-point sums keep their order, so no compiler makes one pass of many."""
        from tvm.script import tirx as T

        threads, rows, passes, lanes = self.threads, self.rows, self.passes, LANES[0]

        @T.prim_func  # type: ignore[untyped-decorator]
        def main(  # type: ignore[no-untyped-def]
            data: T.Buffer((threads * rows * ROW,), "float32"),  # type: ignore[valid-type]
            out: T.Buffer((threads * ROW,), "float32"),  # type: ignore[valid-type]
        ):
            T.func_attr({"tirx.noalias": True})
            for t in T.parallel(threads):
                acc = T.alloc_buffer((ROW,), "float32", scope="local")
                for s in T.unroll(STREAMS):
                    for v in T.vectorized(lanes):
                        acc[s * lanes + v] = T.float32(0)
                for _ in range(passes):
                    for r in range(rows):
                        for s in T.unroll(STREAMS):
                            for v in T.vectorized(lanes):
                                acc[s * lanes + v] = acc[s * lanes + v] + data[(t * rows + r) * ROW + s * lanes + v]
                for s in T.unroll(STREAMS):
                    for v in T.vectorized(lanes):
                        out[t * ROW + s * lanes + v] = acc[s * lanes + v]

        return _module(main)


@dataclass(frozen=True)
class Reference:
    """A plain float32 gemm of side ``side`` on all cores: arithmetic, caches and thread start, as in what is tuned."""

    side: int = SIDE

    @property
    def args(self) -> tuple[TensorSpec, ...]:
        """Two factors and the product."""
        return (TensorSpec("float32", (self.side, self.side)),) * 3

    @property
    def work(self) -> float:
        """FLOP."""
        return 2.0 * self.side**3

    def module(self) -> Any:
        """Rows in parallel, columns in vectors."""
        from tvm import s_tir, te

        shape = (self.side, self.side)
        a, b = (te.placeholder(shape, name=name, dtype="float32") for name in "ab")
        k = te.reduce_axis((0, self.side), name="k")
        c = te.compute(shape, lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
        schedule = s_tir.Schedule(te.create_prim_func([a, b, c]))
        rows, columns, depth = schedule.get_loops(schedule.get_sblock("c"))
        schedule.reorder(rows, depth, columns)
        schedule.parallel(rows)
        schedule.vectorize(schedule.split(columns, [None, LANES[0]])[1])
        return schedule.mod


NarrowPeak = Union[PairPeak, QuadPeak, TilePeak]
Kernel = Union[Peak, NarrowPeak, Read, Reference]
"""What can be built and timed; the last argument is the output."""


def peaks(threads: int) -> tuple[Peak, ...]:
    """One kernel per vector width; the fastest of them shows the peak."""
    return tuple(Peak(threads, lanes) for lanes in LANES)


def narrow_peaks(target: Mapping[str, Any]) -> dict[str, NarrowPeak]:
    """Kernels that show the peaks of narrow types, by precision: of those that a target has an instruction for."""
    from workers.tvm_backend.design_space.rules.machine import cpu_model_of

    made = Target(dict(target))
    cpu, cores = cpu_model_of(made), made.num_cores
    found: dict[str, NarrowPeak] = {}
    if cpu.bf16_tiles or cpu.bf16_dot:
        found[BF16] = TilePeak(cores, BF16) if cpu.bf16_tiles else PairPeak(cores)
    if cpu.i8_tiles or cpu.i8_dot:
        found[INT8] = TilePeak(cores, INT8) if cpu.i8_tiles else QuadPeak(cores, cpu.lanes())
    return found


def cached_read(threads: int, size: int) -> Read:
    """Reads ``size`` bytes so often that one run moves at least 64 MiB and its start does not matter."""
    once = Read(threads, size)
    return Read(threads, size, max(1, math.ceil(64 * MIB / once.work)))


def uncached_read(threads: int) -> Read:
    """Reads four times what this host's caches hold, within ``UNCACHED_BYTES``."""
    low, high = UNCACHED_BYTES
    largest = max(cache_sizes().values(), default=0)
    return Read(threads, min(high, max(low, 4 * largest)))


def build(kernel: Kernel, target: Mapping[str, Any], out: Path) -> Built:
    """Compile a kernel for a CPU target and link it to ``out``.

    Raises:
        MissingDependency, MeasurementFailed: nothing to link with, or the linker refuses; and what TVM raises.
    """
    import tvm

    started = time.perf_counter()
    objects = out.with_suffix(".o")
    tvm.compile(kernel.module(), target=tvm.target.Target(dict(target))).mod.write_to_file(str(objects))
    try:
        linking.link([objects], out)
    finally:
        objects.unlink(missing_ok=True)
    return Built(
        path=out, function=FUNCTION, args=kernel.args, flops=kernel.work, seconds=time.perf_counter() - started
    )


def time_here(kernel: Kernel, built: Built, repeats: int = 30, seconds: float = 0.001) -> list[float]:
    """Seconds of a run, ``repeats`` times the mean over about ``seconds``, in this process: the least shows the limit.

    The process must have been warmed (``workers.tvm_backend.warm``) with ``TVM_NUM_THREADS`` set to the kernel's
    threads, and whoever shares a host with others holds its lease.
    """
    import tvm

    from workers.tvm_backend.arguments import random_array

    arrays = [tvm.runtime.tensor(random_array(spec, seed)) for seed, spec in enumerate(kernel.args)]
    main = tvm.runtime.load_module(str(built.path))
    once = float(main.time_evaluator(FUNCTION, tvm.cpu(), number=1, repeat=1)(*arrays).results[0])
    number = max(1, math.ceil(seconds / max(once, 1e-9)))
    evaluator = main.time_evaluator(FUNCTION, tvm.cpu(), number=number, repeat=repeats)
    return [float(value) for value in evaluator(*arrays).results]


def _module(function: Any) -> Any:
    import tvm

    return tvm.IRModule({FUNCTION: function.with_attr("global_symbol", FUNCTION)})
