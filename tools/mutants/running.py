"""Each mutant through the import in a child process of its own, with limits of time and memory."""

from __future__ import annotations

import collections
import dataclasses
import gc
import importlib
import multiprocessing
import random
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools import children
from tools.mutants.changes import change
from tools.mutants.models import INPUTS, MODELS
from tunesmith.errors import TunesmithError
from tunesmith.preparation import PLAIN
from workers.tvm_backend.warm import warm

SECONDS = 60.0
"""How long one import may take."""
MEMORY_BYTES = 6 << 30
"""Memory that one import may take."""
IMPORTED, UNTYPED, CRASH, TIMEOUT = "imported", "untyped", "crash", "timeout"


@dataclasses.dataclass(frozen=True)
class ImportOutcome:
    """What became of a mutant.

    Attributes:
        model: what it was made of.
        number: which one; with the seed it makes the same mutant again.
        kind: ``imported``, a refusal's code, ``untyped``, ``crash`` or ``timeout``.
        detail: text of the error or the signal.
    """

    model: str
    number: int
    kind: str
    detail: str = ""


def mutants(folder: Path, count: int, seed: int) -> Iterator[tuple[str, int, bytes]]:
    """The model's name, the number and the bytes of each mutant. Makes the models in a child process."""
    maker = multiprocessing.get_context("fork").Process(target=_make, args=(folder,))
    maker.start()
    maker.join()
    if maker.exitcode != 0:
        raise RuntimeError(f"the models could not be made: exit code {maker.exitcode}")
    data = {name: (folder / name).read_bytes() for name in MODELS}
    for number in range(count):
        name = _name(number)
        yield name, number, change(name, data[name], random.Random(f"{seed}/{number}"))


def _name(number: int) -> str:
    """Each fourth one is a PyTorch program: these take longest."""
    programs, others = ([name for name in MODELS if name.endswith(".pt2") is each] for each in (True, False))
    names, at = (programs, number // 4) if number % 4 == 3 else (others, number - number // 4)
    return names[at % len(names)]


def _make(folder: Path) -> None:
    warnings.simplefilter("ignore")
    for name, make in MODELS.items():
        make(folder / name)


def run_mutants(folder: Path, count: int, seed: int, lowered: bool = True) -> Iterator[ImportOutcome]:
    """Import mutants one after another.

    Args:
        folder: where models and mutants are written.
        count: how many.
        seed: seed of the changes; the same seed makes the same mutants.
        lowered: lower what is imported and look for its tasks, too, as a worker does.
    """
    warm("llvm")
    # Loaded once: each child is a fork, and this process computes nothing that starts threads. PyTorch imports the rest
    # of what reads programs with the first of them: two seconds and more.
    for name in ("torch.export._trace", "torch._export.serde.serialize"):
        importlib.import_module(name)

    from workers.tvm_backend.frontends import import_model  # noqa: F401
    from workers.tvm_backend.passes import extract_tasks, pipeline  # noqa: F401

    gc.collect()
    gc.freeze()  # a collection in a child would copy every object that it shares with this process
    for name, number, content in mutants(folder, count, seed):
        path = folder / f"mutant{Path(name).suffix}"
        path.write_bytes(content)
        kind, detail = outcome_of(path, name, lowered)
        yield ImportOutcome(name, number, kind, detail)


def outcome_of(path: Path, name: str, lowered: bool) -> tuple[str, str]:
    """What becomes of one file in a child process: the kind of outcome and its detail."""
    try:
        kind, _, detail = children.answer_of(lambda: _answer(path, name, lowered), SECONDS, MEMORY_BYTES).partition(
            "\n"
        )
    except children.TimedOut as error:
        return TIMEOUT, str(error)
    except children.Crashed as error:
        return CRASH, str(error)
    return kind, detail


def _answer(path: Path, name: str, lowered: bool) -> str:
    """The import of a worker, without its database: its kind and detail, each a line."""
    try:
        _import(path, name, lowered)
    except TunesmithError as error:
        return f"{error.code}\n{error.detail}"
    except BaseException as error:  # an untyped error of any class is what is looked for
        return f"{UNTYPED}\n{type(error).__name__}: {error}"
    return IMPORTED


def _import(path: Path, name: str, lowered: bool) -> None:
    from workers.tvm_backend.frontends import import_model
    from workers.tvm_backend.passes import extract_tasks, pipeline

    mod = import_model.import_model(path, path.suffix[1:], INPUTS.get(name))
    if lowered:
        extract_tasks.extract_tasks(pipeline.prepare(mod, PLAIN).module)


def table(outcomes: list[ImportOutcome]) -> str:
    """Outcomes by model, as Markdown."""
    counts: Mapping[str, collections.Counter[str]] = {
        name: collections.Counter(each.kind for each in outcomes if each.model == name) for name in MODELS
    }
    total = collections.Counter(each.kind for each in outcomes)
    kinds = [IMPORTED, *sorted(set(total) - {IMPORTED, UNTYPED, CRASH, TIMEOUT}), UNTYPED, CRASH, TIMEOUT]
    lines = [
        "| model | " + " | ".join(f"`{kind}`" if "_" in kind else kind for kind in kinds) + " |",
        "|---|" + "---:|" * len(kinds),
    ]
    rows = {**{f"`{name}`": found for name, found in counts.items()}, "all": total}
    return "\n".join(
        lines + [f"| {name} | " + " | ".join(str(found[kind]) for kind in kinds) + " |" for name, found in rows.items()]
    )
