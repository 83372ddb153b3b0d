"""Which programs a model learns from and which judge it. A random split flatters: these keep workloads apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodels.base import Ints
from costmodels.labelled import Labelled

SHOTS = (0, 4, 8, 16, 32)
"""Programs of a workload that few-shot splits label."""


@dataclass(frozen=True)
class Split:
    """One of a study's cuts: places of programs to learn from, and of those that judge."""

    study: str
    train: Ints
    test: Ints


def by_workload(labelled: Labelled, folds: int, seed: int) -> list[Split]:
    """Whole workloads are held out, in ``folds`` parts; others of their kind may be learned from."""
    return [_cut("workload", labelled, held, _same(labelled, held)) for held in _parts(labelled, folds, seed)]


def by_kin(labelled: Labelled) -> list[Split]:
    """All workloads of a kind are held out, so that no mutation of one is learned from; without the only kind none."""
    kinds = [[at for at, kin in enumerate(labelled.kin) if kin == each] for each in dict.fromkeys(labelled.kin)]
    cuts = [_cut("kind", labelled, held, held) for held in kinds]
    return [cut for cut in cuts if len(cut.train) and len(cut.test)]


def by_model(labelled: Labelled) -> list[Split]:
    """The workloads of a model are held out; those that it shares, and mutations of its own, are not learned from."""
    out = []
    for model in sorted(set[str]().union(*labelled.models)):
        held = [at for at, models in enumerate(labelled.models) if model in models]
        kin = {labelled.kin[at] for at in held}
        cut = _cut("model", labelled, held, [at for at, each in enumerate(labelled.kin) if each in kin])
        if len(cut.train) and len(cut.test):
            out.append(cut)
    return out


def few_shot(labelled: Labelled, shots: Sequence[int], folds: int, seed: int) -> list[Split]:
    """As :func:`by_workload`, with ``shots`` random programs of each held-out workload learned from.

    The same programs judge, however many are learned from: those that no number of shots takes.
    """
    out = []
    for part, held in enumerate(_parts(labelled, folds, seed)):
        plain, rng = _cut("", labelled, held, _same(labelled, held)), np.random.default_rng([seed, part])
        orders = [rng.permutation(np.flatnonzero(labelled.data.group == at)) for at in held]
        test = np.sort(np.concatenate([order[max(shots) :] for order in orders]))
        for count in shots:
            shown = [order[:count] for order in orders]
            out.append(Split(f"{count} shots", np.sort(np.concatenate([plain.train, *shown])), test))
    return [cut for cut in out if len(cut.test) and len(cut.train)]


def by_target(labelled: Labelled, folds: int, seed: int) -> list[Split]:
    """As :func:`by_workload`, but only what was built for another target is learned from."""
    out = []
    for target in dict.fromkeys(labelled.targets):
        mine = [at for at, each in enumerate(labelled.targets) if each == target]
        for held in _parts(labelled, folds, seed, mine):
            out.append(_cut("target", labelled, held, [*mine, *_same(labelled, held)]))
    return [cut for cut in out if len(cut.train)]


STUDIES: Mapping[str, Callable[[Labelled, int, int], list[Split]]] = {
    "workload": by_workload,
    "kind": lambda labelled, folds, seed: by_kin(labelled),
    "model": lambda labelled, folds, seed: by_model(labelled),
    "target": by_target,
    "shots": lambda labelled, folds, seed: few_shot(labelled, SHOTS, folds, seed),
}
"""What is held out, by name; made of labels, a number of parts and a seed."""


def _parts(labelled: Labelled, folds: int, seed: int, among: Collection[int] | None = None) -> list[Ints]:
    """Numbers of the groups that judge in random parts, none of them empty or all; ``among``: only of these."""
    judges = np.flatnonzero(labelled.judges)
    judges = judges if among is None else judges[np.isin(judges, list(among))]
    order = judges[np.random.default_rng(seed).permutation(len(judges))]
    return [np.sort(order[part::folds]) for part in range(min(folds, len(order))) if len(order) > 1]


def _same(labelled: Labelled, held: Collection[int] | Ints) -> list[int]:
    """All groups of the workloads of some."""
    workloads = {labelled.workloads[at] for at in held}
    return [at for at, workload in enumerate(labelled.workloads) if workload in workloads]


def _cut(study: str, labelled: Labelled, held: Collection[int] | Ints, barred: Collection[int] = ()) -> Split:
    """Those of ``held`` that judge are judged by; they and ``barred`` are not learned from."""
    group = labelled.data.group
    test = np.isin(group, [at for at in held if labelled.judges[at]])
    return Split(study, np.flatnonzero(~test & ~np.isin(group, list(barred))), np.flatnonzero(test))
