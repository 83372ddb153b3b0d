"""Who may take part in a comparison of runtimes: by name, and what runs them."""

from __future__ import annotations

from pathlib import Path

from tunesmith.errors import InvalidInput, MeasurementFailed
from workers.peers.comparison import FOREIGN, Peer
from workers.tvm_backend.build.local_model import source_of

UNTUNED, TUNESMITH = "untuned", "tunesmith"
METASCHEDULE = ("metaschedule-64", "metaschedule-16")
"""With its default of 64 candidates a round, and with 16, which reach every task of a model sooner."""
TUNERS = (TUNESMITH, *METASCHEDULE)
CONTENDERS = (UNTUNED, *TUNERS, *FOREIGN)
READERS = {
    "onnx": {**FOREIGN, "torch": "benchmarks.models.torch_onnx"},
    "pt2": {"torch": FOREIGN["torch"]},
}
"""By kind of file: the runtimes that read it, and the modules that run them."""


def chosen_names(given: str | None) -> tuple[str, ...]:
    """The contenders of a text such as ``untuned,torch``, in its order; all without one.

    Raises:
        InvalidInput: it names none, or one that is not known.
    """
    known = CONTENDERS
    names = known if given is None else tuple(dict.fromkeys(n.strip() for n in given.split(",") if n.strip()))
    wrong = next((name for name in names if name not in known), None if names else "")
    if wrong is not None:
        raise InvalidInput(f"there is no runtime {wrong!r}; there are {', '.join(known)}", field="with", value=wrong)
    return names


def foreign(name: str, file: Path) -> Peer:
    """A runtime that is not TVM, and reads the file.

    Raises:
        MeasurementFailed: it does not.
    """
    module = READERS[source_of(file)].get(name)
    if module is None:
        raise MeasurementFailed(f"{name} does not read .{source_of(file)} files")
    return Peer(name, module, file)
