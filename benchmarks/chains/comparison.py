"""A chain on every runtime: tuned in each precision, all libraries timed in turn, and our kernels alone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chains import cases
from benchmarks.chains.cases import LENGTH, Chain
from benchmarks.harness import kernels
from benchmarks.harness.comparison import Comparison
from benchmarks.harness.contenders import OURS
from benchmarks.harness.progress import Progress
from benchmarks.models.comparison import ModelOutcome, ModelsPlan, enter
from tunesmith.errors import MeasurementFailed
from tunesmith.metaschedule import DatabaseRecord
from workers.peers.comparison import Peer
from workers.tvm_backend.build.local_model import LocalModel

SMALL = 0.1
"""Of the operations of the largest function: one with fewer is no product of the chain."""
INNER = slice(1, -1)
"""The first product reads and the last one writes another type where it is fused with a conversion."""


@dataclass(frozen=True)
class ChainOutcome(ModelOutcome):
    """What came of a chain.

    Attributes:
        kernels: by our contenders, seconds of each step's kernel alone.
        failure: why they could not be timed.
    """

    chain: Chain = field(kw_only=True)
    kernels: Mapping[str, tuple[float, ...]] = field(kw_only=True, default_factory=dict)
    failure: str = field(kw_only=True, default="")


class ChainComparison(Comparison):
    """Contenders on one chain, which remembers the libraries of ours and which of their functions are products."""

    def __init__(self, file: Path, folder: Path, plan: ModelsPlan, progress: Progress) -> None:
        super().__init__(file, folder, plan.target, progress)
        self.libraries: dict[str, Path] = {}
        self.products: dict[str, frozenset[str]] = {}

    def compile(self, name: str, local: LocalModel, records: list[DatabaseRecord] | None) -> tuple[Peer, list[str]]:
        """As in every comparison."""
        peer, missing = super().compile(name, local, records)
        self.libraries[name], self.products[name] = peer.file, products_of(local.module)
        return peer, missing


def run(chain: Chain, plan: ModelsPlan, folder: Path, progress: Progress) -> ChainOutcome:
    """Tune and time one chain.

    Args:
        chain: the products.
        plan: what takes part, and for how long.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the chain cannot be read. A contender that fails is an entry that says why.
    """
    import onnx

    file = folder / "chain.onnx"
    onnx.save(cases.model(chain, plan.seed), file)
    comparison = ChainComparison(file, folder, plan, progress)
    for name in plan.names:
        enter(comparison, name, plan)
    results = comparison.run(plan.slice, plan.passes * plan.races)
    ran = [result.name for result in results if result.name in OURS and result.latency]
    try:
        inside, failure = _kernels(chain, comparison, ran), ""
    except MeasurementFailed as error:
        inside, failure = {}, error.detail
    return ChainOutcome(
        comparison.flops,
        0.0,
        list(comparison.entries.values()),
        model=chain.name,
        passes=plan.passes,
        chain=chain,
        kernels=inside,
        failure=failure,
    )


def products_of(module: bytes) -> frozenset[str]:
    """Names of a prepared module's functions that are products of the chain."""
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    found = [task.workload for task in extract_tasks(module)]
    largest = max(workload.flops for workload in found)
    return frozenset(workload.name for workload in found if workload.flops > SMALL * largest)


def by_step(chain: Chain, calls: Sequence[tuple[str, Sequence[float]]], products: frozenset[str]) -> tuple[float, ...]:
    """Seconds of each step's kernel: the median of the medians of the calls inside the chain.

    Args:
        chain: its steps take turns.
        calls: names and samples in seconds, in the order of the run.
        products: names of the functions that are products.

    Raises:
        MeasurementFailed: the run has not as many products as the chain.
    """
    found = [statistics.median(samples) for name, samples in calls if name in products]
    if len(found) != LENGTH:
        raise MeasurementFailed(f"a run called {len(found)} products, not {LENGTH}: {', '.join(n for n, _ in calls)}")
    numbered = list(enumerate(found))[INNER]
    count = len(chain.steps)
    return tuple(statistics.median(s for at, s in numbered if at % count == step) for step in range(count))


def _kernels(chain: Chain, comparison: ChainComparison, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    if not names:
        return {}
    comparison.progress("timing the kernels")
    calls = kernels.calls(
        {name: comparison.libraries[name] for name in names},
        comparison.folder / "inputs0.npz",
        comparison.target.num_cores,
        comparison.folder,
        processes=kernels.PROCESSES,
    )
    return {name: by_step(chain, found, comparison.products[name]) for name, found in calls.items()}
