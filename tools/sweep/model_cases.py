"""Whole networks with random weights, as ``torch.onnx.export`` and ``torch.export`` write them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.sweep.architectures import ARCHITECTURES, EXTRAS, VOCABULARY, Architecture
from tools.sweep.base import Case
from tunesmith.errors import MissingDependency

TOLERANCE = 1e-4
"""Largest error of what agrees, as a part of an output's largest number."""
SECONDS = 900.0
"""Time limit of one case."""
LEAST_CHANGE = 0.05
"""How far another input moves an output at least, as a part of its largest number, or the case would prove little."""
Arrays = tuple[NDArray[Any], ...]


def cases(parts: Sequence[str] = ()) -> Iterator[Case]:
    """Two cases of each network: ``NAME.onnx``, right by onnxruntime, and ``NAME.pt2``, right by PyTorch.

    Args:
        parts: parts of names; all networks without.

    Raises:
        MissingDependency: a library is not installed.
    """
    import torch

    torch.set_num_threads(1)  # the process of a case is a fork of this one, and threads do not survive a fork
    for each in ARCHITECTURES:
        writers = {"onnx": _as_onnx, "pt2": _as_pt2}
        wanted = [kind for kind in writers if not parts or any(part in f"{each.name}.{kind}" for part in parts)]
        if not wanted:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network, inputs = _network(each), [_input(each, seed) for seed in (0, 1)]
            for kind in wanted:
                model, expected = writers[kind](network, inputs)
                yield Case(
                    f"{each.name}.{kind}",
                    f"{each.library} {each.name}",
                    kind,
                    model,
                    (inputs[0],),
                    expected,
                    relative=0.0,
                    absolute=0.0,
                    of_largest=TOLERANCE,
                    seconds=SECONDS,
                )


def _network(architecture: Architecture) -> Any:
    """The network with weights that keep its numbers alive, and statistics of what it sees."""
    import torch

    torch.manual_seed(0)
    network = architecture.network()
    with torch.no_grad():
        for parameter in network.parameters():
            _redraw(parameter)
        network.train()
        for module in network.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.momentum = None  # the statistics become the mean of those of all batches
            elif isinstance(module, torch.nn.modules.dropout._DropoutNd):
                module.p = 0.0
        batch = [torch.from_numpy(_input(architecture, seed)) for seed in range(2, 6)]
        network(torch.cat(batch))
    return _of_one_tensor(network)


def _redraw(parameter: Any) -> None:
    """Give a weight that begins as a constant, one or zero or next to zero, numbers that differ."""
    import torch

    first = parameter.flatten()[0].item()
    if torch.all(parameter == first):
        if first == 0.0:
            parameter.normal_(0.0, 0.1)
        else:
            parameter.uniform_(0.5, 1.5)


def _of_one_tensor(network: Any) -> Any:
    """The network, returning its first output in place of a library's class: scores, or the last hidden state."""
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Any) -> Any:
            found = self.network(x)
            return found if isinstance(found, torch.Tensor) else found[0]

    return First().eval()


def _input(architecture: Architecture, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    if architecture.whole_numbers:
        return rng.integers(0, VOCABULARY, architecture.shape)
    return rng.standard_normal(architecture.shape).astype(np.float32)


def _as_onnx(network: Any, inputs: Sequence[NDArray[Any]]) -> tuple[bytes, Arrays]:
    import onnxruntime
    import torch

    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependency(f"torch.onnx.export needs onnxscript: pip install -r {EXTRAS}") from error
    program = torch.onnx.export(network, (torch.from_numpy(inputs[0]),), dynamo=True, verbose=False)
    model = program.model_proto.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return model, _checked([tuple(session.run(None, {name: each})) for each in inputs])


def _as_pt2(network: Any, inputs: Sequence[NDArray[Any]]) -> tuple[bytes, Arrays]:
    import torch

    file = io.BytesIO()
    torch.export.save(torch.export.export(network, (torch.from_numpy(inputs[0]),)), file)
    with torch.no_grad():
        return file.getvalue(), _checked([(network(torch.from_numpy(each)).numpy(),) for each in inputs])


def _checked(outputs: Sequence[Arrays]) -> Arrays:
    """Outputs for the first input, once it is seen that they are finite and others for another input."""
    for first, second in zip(*outputs, strict=True):
        change, largest = np.abs(first - second).max(), np.abs(first).max()
        assert change > LEAST_CHANGE * largest, f"the outputs change by {change} of {largest} with the input"
    return outputs[0]
