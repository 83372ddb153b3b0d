"""One model on every runtime: tuned first, each tuner alone; then all libraries timed in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.limits import Peak, share_of_peak
from benchmarks.harness.progress import Progress
from benchmarks.models import tuning, zoo
from tunesmith.errors import InvalidInput, MeasurementFailed, TunesmithError
from tunesmith.preparation import PLAIN
from tunesmith.targets import Target
from workers.peers.comparison import FOREIGN, TVM_PEER, Peer, Result, check_outputs, take_turns, write_inputs
from workers.tvm_backend.build.local_model import LocalModel, source_of

TUNERS = ("tunesmith", "metaschedule-64", "metaschedule-16")
"""MetaSchedule with its default of 64 candidates a round, and with 16, which reach every task of a model sooner."""
PEERS = ("untuned", *TUNERS, *FOREIGN)
READERS = {
    "onnx": {**FOREIGN, "torch": "benchmarks.models.torch_onnx"},
    "pt2": {"torch": FOREIGN["torch"]},
}
"""By kind of file: the runtimes that read it, and the modules that run them."""


def chosen_names(given: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """The runtimes of a text such as ``untuned,torch``, in its order; all that are known without one.

    Raises:
        InvalidInput: it names none, or one that is not known.
    """
    names = tuple(known) if given is None else tuple(dict.fromkeys(n.strip() for n in given.split(",") if n.strip()))
    wrong = next((name for name in names if name not in known), None if names else "")
    if wrong is not None:
        raise InvalidInput(f"there is no runtime {wrong!r}; there are {', '.join(known)}", field="with", value=wrong)
    return names


@dataclass(frozen=True)
class Plan:
    """How to go about it.

    Attributes:
        names: of ``PEERS``.
        seconds: wall time of each tuner.
        slice: seconds of timing per peer and pass.
        passes: processes of each peer, 2 at least.
    """

    names: tuple[str, ...]
    target: Target
    seconds: float
    slice: float
    passes: int
    seed: int


@dataclass(frozen=True)
class Entry:
    """One runtime's outcome.

    Attributes:
        candidates: measured while tuning; None when nothing was tuned.
        tuned_seconds: wall time of tuning.
        missing: functions with a choice that got no schedule.
        share: of the machine's limit that the latency reaches.
    """

    result: Result
    candidates: int | None = None
    tuned_seconds: float | None = None
    missing: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class Outcome:
    """A model's entries, in the order of the plan. ``flops``: operations of one run; ``bytes_``: weights and inputs."""

    model: str
    flops: float
    bytes_: float
    entries: list[Entry]

    def entry(self, name: str) -> Entry | None:
        """The entry of that name, when it has a latency."""
        return next((e for e in self.entries if e.result.name == name and e.result.latency), None)

    def with_shares(self, peak: Peak) -> Outcome:
        """With each latency as a share of the limit."""
        return replace(self, entries=[self._with_shares(entry, peak) for entry in self.entries])

    def _with_shares(self, entry: Entry, peak: Peak) -> Entry:
        latency = entry.result.latency
        return replace(entry, share=share_of_peak(self.flops, self.bytes_, latency, peak) if latency else None)


def hold(model: str, plan: Plan, folder: Path, progress: Progress) -> Outcome:
    """Tune and time one model.

    Args:
        model: a file, or a name of the zoo.
        plan: what takes part, and for how long.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the model cannot be read. A peer that fails is an entry that says why.
    """
    file = Path(model).absolute() if Path(model).is_file() else zoo.write_model(model, folder / "model.onnx", plan.seed)
    progress("preparing the model")
    local = LocalModel(str(file), {}, folder, PLAIN)
    entries: dict[str, Entry] = {}
    peers = []
    for name in plan.names:
        try:
            entries[name], peer = _enter(name, file, local, plan, folder, progress)
            peers.append(peer)
        except TunesmithError as error:
            entries[name] = Entry(Result(name, failure=error.detail))
    progress(f"timing {', '.join(peer.name for peer in peers)} in turn")
    write_inputs(local.inputs, folder)
    results = take_turns(peers, folder, plan.slice, plan.target.num_cores, plan.passes)
    check_outputs(results, folder)
    for result in results:
        entries[result.name] = replace(entries[result.name], result=result)
    return Outcome(Path(model).stem, *_work(local), [entries[name] for name in plan.names])


def _enter(
    name: str, file: Path, local: LocalModel, plan: Plan, folder: Path, progress: Progress
) -> tuple[Entry, Peer]:
    """Make what a peer runs, by tuning where it is a tuner."""
    if name in FOREIGN:
        return Entry(Result(name)), foreign(name, file)
    library, tuned = folder / f"{name}.so", None
    if name in TUNERS:
        progress(f"tuning with {name} for {plan.seconds:g} s")
        tuned = _tune(name, file, local, plan, folder / name)
    peer = Peer(name, TVM_PEER, library)
    if tuned is None:
        local.compile(library, plan.target, None)
        return Entry(Result(name)), peer
    if tuned.preparation != PLAIN:
        local = LocalModel(str(file), {}, folder / name, tuned.preparation)
    missing = local.compile(library, plan.target, tuned.records)
    return Entry(Result(name), tuned.candidates, tuned.seconds, len(missing)), peer


def foreign(name: str, file: Path) -> Peer:
    """A runtime that is not TVM, and reads the file.

    Raises:
        MeasurementFailed: it does not.
    """
    module = READERS[source_of(file)].get(name)
    if module is None:
        raise MeasurementFailed(f"{name} does not read .{source_of(file)} files")
    return Peer(name, module, file)


def _tune(name: str, file: Path, local: LocalModel, plan: Plan, folder: Path) -> tuning.Tuned:
    folder.mkdir()
    if name == "tunesmith":
        return tuning.tunesmith(file, plan.target, plan.seconds, plan.seed, folder)
    per_round = int(name.removeprefix("metaschedule-"))
    return tuning.metaschedule(local.module, plan.target, plan.seconds, per_round, plan.seed, folder)


def _work(local: LocalModel) -> tuple[float, float]:
    """Operations of one run, and bytes of weights and inputs: the least that has to be read."""
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    flops = sum(task.workload.flops * task.weight for task in extract_tasks(local.module))
    inputs = sum(math.prod(spec.shape) * 4 for spec in local.inputs)
    return flops, float(local.params.stat().st_size + inputs)


def better(outcome: Outcome, names: Sequence[str]) -> Entry | None:
    """The fastest of the entries of these names."""
    found = [entry for name in names if (entry := outcome.entry(name))]
    return min(found, key=lambda entry: entry.result.latency or math.inf, default=None)
