"""Who may take part in a comparison of runtimes: by name, and what runs them."""

from __future__ import annotations

from pathlib import Path

from tunesmith.errors import InvalidInput, MeasurementFailed
from tunesmith.model_files import source_by_content
from tunesmith.names import BF16, FLOAT32, INT8
from workers.peers.comparison import FOREIGN, Peer

UNTUNED, TUNESMITH = "untuned", "tunesmith"
METASCHEDULE = ("metaschedule-64", "metaschedule-16")
"""With its default of 64 candidates a round, and with 16, which reach every task of a model sooner."""
UNMEASURED = {
    f"{TUNESMITH}-unmeasured": TUNESMITH,
    f"{TUNESMITH}-{BF16}-unmeasured": f"{TUNESMITH}-{BF16}",
    f"{TUNESMITH}-{INT8}-unmeasured": f"{TUNESMITH}-{INT8}",
}
"""Compiled without a log, with nothing known: by name, the tuner that has the same precision."""
DEFAULT = "default"
"""The precision that a runtime chooses by itself."""
PRECISIONS = {
    f"{TUNESMITH}-{BF16}": BF16,
    f"{TUNESMITH}-{INT8}": INT8,
    f"{TUNESMITH}-{BF16}-unmeasured": BF16,
    f"{TUNESMITH}-{INT8}-unmeasured": INT8,
    f"onnxruntime-{INT8}": INT8,
    f"openvino-{DEFAULT}": DEFAULT,
    f"openvino-{INT8}": INT8,
    f"torch-{BF16}": BF16,
}
"""Of contenders whose name says it; all others compute in float32. Those in int8 run one quantised file."""
JOBS = (TUNESMITH, f"{TUNESMITH}-{BF16}", f"{TUNESMITH}-{INT8}")
OURS = (*JOBS, *UNMEASURED)
TUNERS = (*JOBS, *METASCHEDULE)
CONTENDERS = (UNTUNED, TUNESMITH, *METASCHEDULE, *FOREIGN, f"openvino-{DEFAULT}")
"""Who takes part where nobody is named."""
KNOWN = tuple(dict.fromkeys((*CONTENDERS, *PRECISIONS, *UNMEASURED)))
READERS = {
    "onnx": {
        **FOREIGN,
        "torch": "benchmarks.models.torch_onnx",
        f"onnxruntime-{INT8}": FOREIGN["onnxruntime"],
        f"openvino-{DEFAULT}": "workers.peers.openvino_default",
        f"openvino-{INT8}": "workers.peers.openvino_default",
        f"torch-{BF16}": "benchmarks.models.torch_bf16",
    },
    "pt2": {"torch": FOREIGN["torch"]},
}
"""By kind of file: the runtimes that read it, and the modules that run them."""


def precision_of(name: str) -> str:
    """The precision that a contender computes in."""
    return PRECISIONS.get(name, FLOAT32)


def chosen_names(given: str | None) -> tuple[str, ...]:
    """The contenders of a text such as ``untuned,torch``, in its order; ``CONTENDERS`` without one.

    Raises:
        InvalidInput: it names none, or one that is not known.
    """
    names = CONTENDERS if given is None else tuple(dict.fromkeys(n.strip() for n in given.split(",") if n.strip()))
    wrong = next((name for name in names if name not in KNOWN), None if names else "")
    if wrong is not None:
        raise InvalidInput(f"there is no runtime {wrong!r}; there are {', '.join(KNOWN)}", field="with", value=wrong)
    return names


def foreign(name: str, file: Path) -> Peer:
    """A runtime that is not TVM, and reads the file.

    Raises:
        MeasurementFailed: it does not.
    """
    module = READERS.get(source_by_content(file), {}).get(name)
    if module is None:
        raise MeasurementFailed(f"{name} does not read .{source_by_content(file)} files")
    return Peer(name, module, file)
