"""What ``tunesmith.tune`` takes and refuses before a server is asked, and how a tuned model is called."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto
from torch import nn

import tunesmith
from tools import eager
from tunesmith.answers.models import TensorBody
from tunesmith.errors import InvalidInput, MissingDependency, ModelRejected, NotAModel, TunesmithError, UnknownPrecision
from tunesmith.sdk import library, tuning
from tunesmith.sdk.calling import ByName
from tunesmith.sdk.sources import shapes, source

NOWHERE = "http://127.0.0.1:9"
X = torch.zeros(2, 4)


class Nested(nn.Module):
    """Arguments and results in containers, one that is no tensor, and a state that may change."""

    def __init__(self, counts: bool = False) -> None:
        super().__init__()
        self.counts = counts
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, pair: tuple[Any, Any], scale: float = 1.0, *, more: Any) -> dict[str, Any]:
        if self.counts:
            self.calls += 1
        return {"sum": pair[0] + pair[1] + self.calls, "parts": [more["a"] * scale]}


INPUTS = {"pair": (X, X + 1), "scale": 3.0, "more": {"a": X + 2}}


def test_a_module_keeps_the_structure_of_its_arguments_and_results(tmp_path: Path) -> None:
    found = source(Nested().eval(), INPUTS, tmp_path)
    assert Path(found.model).name == "Nested.pt2"
    assert zipfile.is_zipfile(found.model)
    calling = found.calling
    assert calling is not None
    tensors = calling.tensors(((X, X + 1), 3.0), {"more": {"a": X + 2}})
    assert [float(each.max()) for each in tensors] == [0, 1, 2]
    assert calling.result(["first", "second"]) == {"sum": "first", "parts": ["second"]}
    for args, kwargs, words in (
        (((X, X), 2.0), {"more": {"a": X}}, "with the value 3.0"),
        (((X, X), 3.0), {"more": {"b": X}}, "structure"),
        (((X, X), 3.0), {}, "missing a required argument: 'more'"),
    ):
        with pytest.raises(InvalidInput, match=words):
            calling.tensors(args, kwargs)


class Undecided(nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("model", "inputs", "error", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout()), X, InvalidInput, "Sequential is in training mode.*call .eval"),
        (nn.Sequential(nn.Linear(4, 4)).eval(), None, InvalidInput, "give it example inputs"),
        (nn.Linear(4, 4).eval(), (X, X), InvalidInput, "cannot be called with these example inputs"),
        (nn.Linear(4, 4).eval(), 3, InvalidInput, "not int"),
        (nn.Linear(4, 4, device="meta").eval(), X, InvalidInput, "'weight' of Linear is on meta: call .cpu"),
        (nn.Linear(4, 4).eval(), np.zeros((2, 5), "float32"), ModelRejected, "torch.export cannot trace Linear"),
        (Undecided().eval(), X, ModelRejected, "without decisions on the values"),
        (Nested(counts=True).eval(), INPUTS, ModelRejected, "changes 'calls'"),
        (lambda x: x, X, InvalidInput, "cannot tune an object of type function; give a torch.nn.Module"),
        (ModelProto(), [1, 2], InvalidInput, "shapes by name"),
        (ModelProto(), {"x": (1, 0)}, InvalidInput, "'x' is a sequence of whole numbers above 0"),
        (ModelProto(), None, TunesmithError, "is empty|not an ONNX model"),
        ("gemm:8x8x8:float32", {"x": (1, 2)}, InvalidInput, "already has its shapes"),
        ("no such file.onnx", None, NotAModel, "there is no file"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_a_server_is_asked(
    model: Any, inputs: Any, error: type[TunesmithError], words: str
) -> None:
    with pytest.raises(error, match=words):
        tunesmith.tune(model, inputs, server=NOWHERE, quiet=True)


def test_options_are_checked_and_the_embedded_stack_needs_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownPrecision, match="float8"):
        tunesmith.tune("gemm:8x8x8:float32", precision="float8", server=NOWHERE)
    monkeypatch.setattr(tuning, "reachable", lambda key: None)
    monkeypatch.delenv("TUNESMITH_SERVER", raising=False)

    def refuse(*_: Any) -> None:
        raise MissingDependency("no extra")

    monkeypatch.setattr(tuning, "check_extras", refuse)
    with pytest.raises(MissingDependency, match="no extra"):
        tunesmith.tune("gemm:8x8x8:float32", quiet=True)


def test_inputs_go_by_position_or_by_name() -> None:
    calling = ByName(("a", "b"))
    assert calling.tensors((1,), {"b": 2}) == [1, 2]
    assert (calling.result([1]), calling.result([1, 2])) == (1, (1, 2))
    for args, kwargs, words in (
        ((1, 2, 3), {}, "3 inputs are given; the model takes a, b"),
        ((1, 2), {"b": 3}, "'b' is given twice"),
        ((1,), {"c": 3}, "no input 'c'"),
        ((1,), {}, "'b' is missing"),
    ):
        with pytest.raises(InvalidInput, match=words):
            calling.tensors(args, kwargs)
    assert shapes({"x": X, "y": [1, 2]}) == {"x": (2, 4), "y": (1, 2)}


def test_a_tensor_of_another_shape_or_type_is_refused() -> None:
    spec = TensorBody(name="x", dtype="float32", shape=[2, 4])
    library._check(spec, "float32", (2, 4))
    for kind, shape in (("float64", (2, 4)), ("float32", (4, 2))):
        with pytest.raises(InvalidInput, match=r"input 'x' is .* and the model was tuned for float32 \[2, 4\]"):
            library._check(spec, kind, shape)


def test_the_package_has_its_names_and_no_others() -> None:
    assert {"tune", "TunedModel"} <= set(dir(tunesmith))
    with pytest.raises(AttributeError, match="no attribute 'tuned'"):
        tunesmith.tuned  # type: ignore[attr-defined]  # noqa: B018


def test_the_comparison_with_eager_mode_says_what_is_too_slow_or_wrong() -> None:
    assert eager.problems(1e-3, 2e-3, 1e-6, 80) == []
    assert eager.problems(2e-3, 1e-3, float("nan"), 91) == [
        "is 2.00 times as slow as PyTorch",
        "differs by nan of the largest output, and 0.001 is allowed",
        "took 91 s, and 90 are allowed",
    ]
