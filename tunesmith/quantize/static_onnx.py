"""Static quantisation of ONNX models by onnxruntime's quantiser, as QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tunesmith.errors import InvalidInput, MissingDependency
from tunesmith.quantize.calibration import Calibration, ModelInput, read

EXTRA = "quantize"
PER_CHANNEL_OPSET = 13
"""The first with scales by channel."""
NEW_OPSET = 17
"""What older models are converted to."""
COMPARED = 8
"""Samples on which both models are run."""
QUANTISED = frozenset(
    {"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
)


@dataclass(frozen=True)
class Quantised:
    """What became of a model.

    Attributes:
        samples: calibration samples.
        rms: root mean square of the differences of outputs over that of the float32 outputs, on the first samples.
        largest: the largest difference over the largest output.
        quantiser: name and version of the library.
    """

    samples: int
    rms: float
    largest: float
    quantiser: str


def quantise(model: Path, calibration: Path, out: Path) -> Quantised:
    """Write ``out``: the model with uint8 values and int8 weights, scaled by channel.

    Raises:
        InvalidInput: the model is quantised already or has no quantiser; or the calibration does not fit it.
        MissingDependency: the extra ``quantize`` is not installed.
    """
    onnx, quantiser = _library("onnx"), _library("onnxruntime.quantization")
    try:
        loaded = onnx.load(str(model))
        onnx.checker.check_model(loaded)
    except Exception as error:  # protobuf's, the checker's and the file system's have no common class
        raise InvalidInput(f"cannot read {model}: {_line(error)}", field="model", value=str(model)) from error
    if found := sorted({node.op_type for node in loaded.graph.node} & QUANTISED):
        raise InvalidInput(
            f"{model} is quantised already: it has {found[0]}; tune it as it is with --precision int8",
            field="model",
            value=str(model),
        )
    samples = read(calibration, inputs_of(onnx, loaded))
    with tempfile.TemporaryDirectory(prefix="tunesmith-quantize-") as scratch:
        folder = Path(scratch)
        try:
            with _quietly():
                source = _simplified(onnx, loaded, folder)
                quantiser.quantize_static(
                    str(source),
                    str(folder / "out.onnx"),
                    _reader(quantiser, samples),
                    quant_format=quantiser.QuantFormat.QDQ,
                    activation_type=quantiser.QuantType.QUInt8,
                    weight_type=quantiser.QuantType.QInt8,
                    per_channel=True,
                )
                rms, largest = _difference(model, folder / "out.onnx", samples)
        except Exception as error:  # whatever the quantiser makes of an operator that it does not know
            raise InvalidInput(
                f"onnxruntime cannot quantise {model}: {_line(error)}", field="model", value=str(model)
            ) from error
        out.write_bytes((folder / "out.onnx").read_bytes())
    return Quantised(len(samples), rms, largest, f"onnxruntime {_library('onnxruntime').__version__}")


def inputs_of(onnx: Any, model: Any) -> list[ModelInput]:
    """What is no weight."""
    weights = {each.name for each in model.graph.initializer}
    return [
        ModelInput(
            each.name,
            onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type).name,
            tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in each.type.tensor_type.shape.dim),
        )
        for each in model.graph.input
        if each.name not in weights
    ]


def _simplified(onnx: Any, model: Any, folder: Path) -> Path:
    """The model in an operator set with scales by channel, batch normalisation folded into convolutions."""
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if versions and versions[0] < PER_CHANNEL_OPSET:
        model = onnx.version_converter.convert_version(model, NEW_OPSET)
    onnx.save(model, str(folder / "in.onnx"))
    preparing = _library("onnxruntime.quantization.shape_inference")
    preparing.quant_pre_process(str(folder / "in.onnx"), str(folder / "simple.onnx"), skip_symbolic_shape=True)
    return folder / "simple.onnx"


def _reader(quantiser: Any, samples: Calibration) -> Any:
    """Samples as the quantiser reads them."""

    class Reader(quantiser.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> Any:
            return next(self._left, None)

    return Reader()


def _difference(before: Path, after: Path, samples: Calibration) -> tuple[float, float]:
    """How far the outputs of both models are apart: as ``Quantised`` says.

    Operators run as they are written. Joined, products of bytes would be sums of 16 bits on CPUs without VNNI, which
    saturate.
    """
    runtime = _library("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [
        runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]) for path in (before, after)
    ]
    ours: list[Any] = []
    theirs: list[Any] = []
    for sample, _ in zip(samples, range(COMPARED), strict=False):
        for found, session in zip((theirs, ours), sessions, strict=True):
            found += [np.asarray(each, np.float64).ravel() for each in session.run(None, sample)]
    exact, rounded = np.concatenate(theirs), np.concatenate(ours)
    apart, size = rounded - exact, np.abs(exact).max()
    scale = float(np.sqrt((exact**2).mean()))
    return (
        float(np.sqrt((apart**2).mean())) / scale if scale else 0.0,
        float(np.abs(apart).max() / size) if size else 0.0,
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """The quantiser tells its steps to the root logger and to standard output, where ours has its answer."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"quantising needs {error.name}, which is not installed here: install the extra '{EXTRA}', for example "
            f"with pip install -e '.[{EXTRA}]'",
            field="calibration",
            extra=EXTRA,
        ) from error


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
