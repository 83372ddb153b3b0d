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
from tunesmith.quantize.static_onnx import quantise


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
    check_model(str(model))
    check_content(str(model))
    check_output_file(output)
    if source_of(model.name) != "onnx":
        raise InvalidInput(
            f"{model} is no ONNX model: quantise PyTorch models with torchao (PT2E) before torch.export.save",
            field="model",
            value=str(model),
        )
    made = quantise(model, calibration, output)
    lines = [
        ("model", str(output)),
        ("quantiser", made.quantiser),
        ("samples", str(made.samples)),
        ("error", f"{made.rms:.2%} rms, {made.largest:.2%} of the largest output, against float32 on these samples"),
    ]
    emit({"model": str(output), **asdict(made)}, rows(lines), as_json)
