"""Everything that the static model, the design-space rules and the passes assume of a CPU.

What a rule or a pass decides by is here and not in it, so that one description of another processor changes all of
them. ``docs/reference/cpu-model.md`` is made from the fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tunesmith.messages import Calibration
from tunesmith.names import BF16, INT8

KIB, MIB = 1 << 10, 1 << 20
TYPICAL_CACHES = (32 * KIB, 1 * MIB, 16 * MIB)
"""Bytes for one core, level 1 first."""
CACHE_RATES = (128.0, 64.0, 16.0)
"""Bytes a cycle at which a core reads what the next level inwards lacks, level 1 first."""
TYPICAL_CLOCK = 3e9
"""Cycles a second."""
FIRST_CORE_BANDWIDTH, NEXT_CORE_BANDWIDTH = 20e9, 5e9
"""Bytes/s of memory that the first core reaches, and that each other one adds."""

TARGET, CALIBRATED = "the target's features", "calibration"
CORES = "typical of current cores"
RECORDINGS = "rule of thumb, kept after the recorded spaces (Zen 5)"
DATASET = "best of some, by the pairs of the dataset that it ranks right (Zen 5)"
LLVM = "LLVM 22, measured on Zen 5"
ZEN5 = "chosen on two cores of Zen 5"


@dataclass(frozen=True)
class Cache:
    """A level of data cache.

    Attributes:
        size: bytes that one core can use.
        bandwidth: bytes/s at which one core reads what the next level inwards lacks and this one holds.
    """

    size: int
    bandwidth: float


def default_caches(clock: float, sizes: tuple[int, ...] = TYPICAL_CACHES) -> tuple[Cache, ...]:
    """Caches of ``sizes`` bytes from level 1 outwards, at the usual bytes a cycle."""
    return tuple(Cache(size, clock * CACHE_RATES[min(level, 2)]) for level, size in enumerate(sizes))


def _figure(default: Any, unit: str, source: str, meaning: str) -> Any:
    """A field with what its page says of it."""
    return field(default=default, metadata={"unit": unit, "source": source, "meaning": meaning})


@dataclass(frozen=True)
class CpuModel:
    """A CPU, in figures. Without arguments it is the one that models are prepared for: two cores of a Zen 5."""

    # What calibration and the target say.
    cores: int = _figure(2, "cores", TARGET, "Cores that run a kernel's tasks.")
    vector_bytes: int = _figure(64, "bytes", TARGET, "Width of one vector register.")
    registers: int = _figure(32, "registers", TARGET, "Number of vector registers.")
    peak_flops: float = _figure(
        532e9, "FLOP/s", f"{CALIBRATED}; before it, 3 GHz", "Peak of all cores; a float32 multiply-add counts as two."
    )
    bandwidth: float = _figure(
        38e9,
        "bytes/s",
        f"{CALIBRATED}; before it, 20e9 and 5e9 for each further core",
        "Memory bandwidth of all cores.",
    )
    caches: tuple[Cache, ...] = _figure(
        default_caches(532e9 / 128),
        "bytes, bytes/s",
        f"sizes: {CALIBRATED}; rates: {CORES}, of level 2 {DATASET}",
        "Caches, innermost first.",
    )
    bf16_dot: bool = _figure(
        False,
        "yes or no",
        TARGET,
        "One instruction multiplies and adds pairs of bfloat16 (AVX512_BF16), at twice the peak.",
    )
    i8_dot: bool = _figure(
        False,
        "yes or no",
        TARGET,
        "One instruction multiplies and adds four bytes (AVX512_VNNI, AVX-VNNI): four times the peak.",
    )
    bf16_tiles: bool = _figure(
        False, "yes or no", TARGET, "A matrix unit multiplies tiles of pairs of bfloat16 (AMX): 16 times the peak."
    )
    i8_tiles: bool = _figure(
        False, "yes or no", TARGET, "A matrix unit multiplies tiles of bytes (AMX): 32 times the peak."
    )
    i16_dot: bool = _figure(
        False,
        "yes or no",
        TARGET,
        "One instruction multiplies pairs of 16-bit numbers and adds both (AVX2, AVX-512BW).",
    )

    # A core.
    pipes: int = _figure(2, "per cycle", CORES, "Vector multiply-adds that a core starts.")
    latency: int = _figure(4, "cycles", CORES, "Time until the result of a multiply-add can be used.")
    loads: int = _figure(2, "per cycle", CORES, "Vector loads that a core starts.")
    stores: int = _figure(1, "per cycle", CORES, "Vector stores that a core starts.")
    width: int = _figure(5, "per cycle", CORES, "Instructions that a core starts.")
    window: float = _figure(256.0, "instructions", CORES, "Instructions that a core looks ahead.")
    call_cycles: float = _figure(20.0, "cycles", CORES, "Time of a scalar library function.")
    line_bytes: int = _figure(64, "bytes", CORES, "Cache line: what a cache moves at a time.")
    code_bytes: int = _figure(32 * KIB, "bytes", CORES, "Instruction cache of a core.")
    fork_seconds: float = _figure(3e-6, "seconds", RECORDINGS, "Time to start a parallel loop and wait for its end.")
    task_cycles: float = _figure(60.0, "cycles", DATASET, "Time in which a task of a parallel loop finds its place.")
    allocation_cycles: float = _figure(
        70.0,
        "cycles",
        ZEN5,
        "Time that each buffer of one thread adds to a task, whose memory is taken and given back.",
    )
    seam_seconds: float = _figure(
        1e-7,
        "seconds",
        "0.04 µs between cores that are near, 0.15 between far ones, Zen 5",
        "Time that a piece of a result costs a core when another one writes what follows it.",
    )
    seam_bytes: int = _figure(
        1536, "bytes", ZEN5, "How far beyond the end of a piece a core fetches lines, which another one writes."
    )
    core_bandwidth: float = _figure(
        5e9,
        "bytes/s",
        "28e9 between cores that are near, about 3e9 between far ones, Zen 5; the mean of the times",
        "Rate at which a core reads what another one has just written.",
    )
    cache_share: float = _figure(0.75, "of a cache", RECORDINGS, "Part that one working set can have.")
    exposed_share: float = _figure(
        0.35, "of a time", RECORDINGS, "Part of the shorter times that the longest does not hide."
    )

    # What LLVM makes of a kernel.
    instruction_bytes: int = _figure(8, "bytes", "AVX-512, about", "Size of a vector instruction with an address.")
    loop_cycles: float = _figure(1.0, "cycles", RECORDINGS, "Time of the counter and the jump of a loop.")
    code_penalty: float = _figure(1.2, "times", RECORDINGS, "Slowdown of code that overflows the instruction cache.")
    near_stride: int = _figure(4, "elements", RECORDINGS, "Strides up to which vectors are whole loads and shuffles.")
    gather_loads: float = _figure(2.0, "loads", RECORDINGS, "Price of an element that no vector load brings.")
    odd_vector_penalty: float = _figure(
        4.0, "times", LLVM, "Slowdown of accumulators in several registers, no power of two long."
    )
    spill_penalty: float = _figure(
        1.6, "times", LLVM, "Slowdown of a kernel without enough registers, next to the loads and stores of them."
    )
    parked_values: float = _figure(
        8.0, "registers", "LLVM 22, Xeon", "Values on the stack from which a kernel has this whole slowdown."
    )
    compiled_steps: float = _figure(20.0, "steps", LLVM, "Loop body up to which LLVM vectorises a loop well.")
    condition_instructions: float = _figure(
        3.0, "instructions", DATASET, "Price of an element that is read only under a condition of its own."
    )
    test_instructions: float = _figure(
        3.0, "instructions", DATASET, "Price of a condition under which a whole vector is read."
    )
    unrolled_instructions: float = _figure(
        300.0, "instructions", "LLVM's threshold at -O3", "Largest loop that is unrolled without being told."
    )
    max_instructions: float = _figure(
        4000.0, "instructions", LLVM, "Straight code above which LLVM takes seconds, at 1 ms for each or more."
    )
    max_spill: float = _figure(1.5, "of the registers", RECORDINGS, "Registers above which a kernel is refused.")
    generated_penalty: float = _figure(
        1.6, "times", "151 candidates of two models, Xeon", "Handicap of the estimates of TVM's own sketches."
    )

    # Tiles in registers.
    tile_slack: float = _figure(1.2, "of the registers", ZEN5, "Accumulators that a convolution's tile may have.")
    paired_vectors: int = _figure(2, "vectors", "a loaded value is used twice", "Vectors that are offered in any case.")
    max_vectors: int = _figure(8, "vectors", ZEN5, "Longest side of a tile in vectors.")
    max_tile_rows: int = _figure(14, "rows", "32 registers with two panels", "Most rows of a product's tile.")
    load_value: float = _figure(0.25, "multiply-adds", ZEN5, "Price of loading a value that is used again soon.")
    load_vector: float = _figure(0.6, "multiply-adds", ZEN5, "Price of loading a vector from a farther cache.")
    row_padding: float = _figure(1.05, "times", ZEN5, "Price of padding a product's rows.")
    offer_margin: float = _figure(1.25, "times", ZEN5, "Tiles are offered up to this multiple of the best price.")
    unrolled_steps: int = _figure(8, "steps", ZEN5, "Most steps of a product's reduction that are unrolled.")
    packed_panels: int = _figure(4, "panels", ZEN5, "Panels that are packed at a time: a row of them is a few lines.")
    deep_steps: int = _figure(
        1024, "steps", ZEN5, "Reductions from which a tile's columns, read as they lie, leave a core's own caches."
    )
    packed_steps: int = _figure(
        48, "steps", "two cores of Zen 3", "Reductions from which sixteen registers ask for columns that are packed."
    )
    inner_product_rows: int = _figure(
        64, "rows", ZEN5, "Most rows of a product for which an operand that lies along the reduction is read so."
    )
    inner_product_steps: int = _figure(
        4, "steps", ZEN5, "Fewest steps of its reduction for each row: sums across lanes cost as much as packing then."
    )
    max_pixels: int = _figure(20, "pixels", ZEN5, "Most columns of a convolution's tile.")
    window_rows: int = _figure(4, "rows", ZEN5, "Most rows of a tile of a window's reduction.")
    window_columns: int = _figure(16, "columns", ZEN5, "Most columns of a tile of a window's reduction.")
    unrolled_window: int = _figure(49, "steps", ZEN5, "Most steps of a window that are unrolled.")
    whole_row_window: int = _figure(9, "steps", ZEN5, "Most steps of a window for which a short row may be one vector.")
    row_registers: tuple[int, ...] = _figure((1, 2, 4), "registers", ZEN5, "Vectors at a time along a row.")
    scalar_partials: int = _figure(4, "values", ZEN5, "Partial results that are combined one by one.")
    min_lanes: int = _figure(
        4, "elements", "width of the narrowest register", "Shortest vector that is worth its instructions."
    )
    stack_bytes: int = _figure(32 * KIB, "bytes", "size of a level 1 cache", "Most that a stage keeps on the stack.")
    cheap_nodes: int = _figure(12, "nodes", ZEN5, "Largest expression that is computed twice rather than kept.")
    max_pieces: int = _figure(
        64, "pieces", "Xeon: twice as fast with 32", "Most pieces of a concatenation that are each code of their own."
    )
    copied_nodes: int = _figure(60, "nodes", ZEN5, "Largest expression that is written out for each of its uses.")

    # An instruction for narrow products. Both operands of a step are loaded, so that square tiles win.
    dot_latency: int = _figure(
        7, "cycles", ZEN5, "Time until the sum of such an instruction can be used: 14 accumulators fill two pipes."
    )
    tile_latency: int = _figure(
        52, "cycles", "Sapphire Rapids", "Time until the sum of an instruction of a matrix unit can be used."
    )
    dot_load_value: float = _figure(0.6, "instructions", ZEN5, "Price of loading the value that it broadcasts.")
    dot_rows: int = _figure(2, "rows", ZEN5, "Rows of a convolution's tile that are offered with it in any case.")
    dot_vectors: int = _figure(4, "vectors", ZEN5, "Vectors that are offered with it in any case.")

    # Layouts and algorithms of a model.
    conversion_bytes: float = _figure(
        32 / 7,
        "bytes",
        "8 bytes at 20 to 40 GB/s against 45 % of a core's peak, Zen 5",
        "Memory traffic, hidden parts left out, of converting an element to blocks or back.",
    )
    min_outputs: int = _figure(8, "channels", "half of a block", "Fewest output channels of a blocked convolution.")
    max_joined: int = _figure(4, "groups", ZEN5, "Most groups that a kernel computes together, largely with zeros.")
    transform_macs: float = _figure(
        6.0, "multiply-adds", ZEN5, "Price of a value that Winograd's algorithm transforms, writes and reads again."
    )
    gather_macs: float = _figure(12.0, "multiply-adds", ZEN5, "Price of a value of a plain map that goes into a block.")
    winograd_gain: float = _figure(0.9, "of the time", ZEN5, "Estimate next to a direct convolution that earns a try.")
    min_winograd_tiles: int = _figure(4, "tiles", ZEN5, "Fewest tiles of a row that fill registers.")
    max_winograd_tiles: int = _figure(14, "tiles", "32 registers with two panels", "Most tiles of a row in registers.")
    small_bytes: int = _figure(16 * KIB, "bytes", "half of a level 1 cache", "Parameters that take no time to read.")

    @classmethod
    def of(cls, cores: int, vector_bytes: int, registers: int, found: Calibration | None = None) -> CpuModel:
        """A CPU from its target and its calibration; the rest is as documented.

        Args:
            cores, vector_bytes, registers: fields that the target decides.
            found: what was measured of a device; None, or what it lacks, is typical.
        """
        a_cycle = 2 * cores * cls.pipes * max(1, vector_bytes // 4)
        peak = (found.peak_flops if found else 0.0) or TYPICAL_CLOCK * a_cycle
        bandwidth = (found.bandwidth if found else 0.0) or FIRST_CORE_BANDWIDTH + NEXT_CORE_BANDWIDTH * (cores - 1)
        caches = default_caches(peak / a_cycle, (tuple(found.cache_sizes) if found else ()) or TYPICAL_CACHES)
        return cls(cores, vector_bytes, registers, peak, bandwidth, caches)

    def of_dots(self) -> CpuModel:
        """The CPU as tiles of an instruction for narrow products see it."""
        return replace(self, latency=self.dot_latency, load_value=self.dot_load_value, paired_vectors=self.dot_vectors)

    def multiplies(self, precision: str) -> bool:
        """Whether it has instructions for products of a narrow type."""
        has = {BF16: self.bf16_dot or self.bf16_tiles, INT8: self.i8_dot or self.i8_tiles}
        return has.get(precision, False)

    @property
    def clock(self) -> float:
        """Cycles a second that explain the peak."""
        return self.peak_flops / (2 * self.cores * self.pipes * self.lanes())

    @property
    def few_registers(self) -> bool:
        """Whether tiles are so narrow that what they read of a row is a cache line or less."""
        return self.registers <= 16

    @property
    def spreads_values(self) -> bool:
        """Whether its multiply-adds spread a value of memory over a register themselves, as those of AVX-512 do."""
        return self.vector_bytes >= 64

    @property
    def byte_macs(self) -> float:
        """Multiply-adds in the time in which memory brings a byte."""
        return self.peak_flops / 2 / self.bandwidth

    @property
    def conversion_macs(self) -> float:
        """Multiply-adds in the time in which an element is converted to blocks or back."""
        return self.conversion_bytes * self.byte_macs

    def lanes(self, element_bytes: int = 4) -> int:
        """Elements of one register."""
        return max(1, self.vector_bytes // element_bytes)

    def on_stack(self, floats: int) -> bool:
        """Whether what one stage makes for the next may lie on the stack."""
        return 4 * floats <= self.stack_bytes
