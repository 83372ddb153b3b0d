"""``tunesmith quantize``: an int8 model of a float32 one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tunesmith.cli.checks import check_content, check_model, check_output_file
from tunesmith.cli.options import Json
from tunesmith.cli.output import emit, rows
from tunesmith.errors import InvalidInput
from tunesmith.model_files import source_of
from tunesmith.quantize.static_onnx import Quantised, quantise


def quantize(
    model: Annotated[Path, typer.Argument(metavar="FILE", help="An .onnx file of a float32 model.")],
    calibration: Annotated[
        Path,
        typer.Option(
            help="An .npz file: samples of each input by its name, some dozens of what the model will be given."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .onnx file to write.")],
    as_json: Json = False,
) -> None:
    """Make an int8 model of a float32 one, by onnxruntime's quantiser. It runs here and asks no server."""
    check_output_file(output)
    made = quantised(str(model), calibration, output)
    emit({"model": str(output), **asdict(made)}, rows([("model", str(output)), *lines(made)]), as_json)


def quantised(model: str, calibration: Path, out: Path) -> Quantised:
    """Write ``out``. Raises InvalidInput, MissingDependency and what the checks of a model raise."""
    check_model(model)
    check_content(model)
    if source_of(model) != "onnx":
        raise InvalidInput(
            f"{model} is no ONNX model: quantise PyTorch models with torchao (PT2E) before torch.export.save",
            field="model",
            value=model,
        )
    return quantise(Path(model), calibration, out)


def lines(made: Quantised) -> list[tuple[str, str]]:
    """What became of a model, for people."""
    return [
        ("quantiser", made.quantiser),
        ("samples", str(made.samples)),
        ("error", f"{made.rms:.2%} rms, {made.largest:.2%} of the largest output, against float32 on these samples"),
    ]
