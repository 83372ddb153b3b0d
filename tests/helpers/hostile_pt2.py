"""Archives of ``torch.export`` that are meant to harm who imports them: a valid one with parts replaced."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

Program = dict[str, Any]
PROGRAM, SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"


def entries(path: Path) -> dict[str, bytes]:
    """What an archive holds, by name without the folder that all are in."""
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    """An archive with this content."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, each in content.items():
            archive.writestr(f"net/{name}", each)
    return path


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def pickled(marker: Path) -> bytes:
    """A file of PyTorch's with a pickle that runs code."""
    buffer = io.BytesIO()
    torch.save((Touch(marker),), buffer)
    return buffer.getvalue()


def command(marker: Path) -> str:
    """Python that makes a file."""
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def rewritten(content: dict[str, bytes], change: Callable[[Program], None], name: str = PROGRAM) -> dict[str, bytes]:
    """With one description changed."""
    data = json.loads(content[name])
    change(data)
    return {**content, name: json.dumps(data).encode()}


def _payload(config: Program, name: str) -> Program:
    found: Program = config["config"][name]
    return found


Attack = Callable[[dict[str, bytes], Path], dict[str, bytes]]


def _weight_pickle(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    made = rewritten(content, lambda d: _payload(d, "fc.weight").update(use_pickle=True), WEIGHTS)
    return {**made, "data/weights/weight_0": pickled(marker)}


def _constant_pickle(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    made = rewritten(content, lambda d: _payload(d, "shift").update(use_pickle=True), CONSTANTS)
    return {**made, "data/constants/tensor_0": pickled(marker)}


def _opaque(kind: str) -> Attack:
    def made(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
        changed = rewritten(
            content, lambda d: _payload(d, "shift").update(use_pickle=True, path_name=f"{kind}_0"), CONSTANTS
        )
        return {**changed, f"data/constants/{kind}_0": pickle.dumps(Touch(marker))}

    return made


def _old_weights(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    return {**content, "data/weights/model.pt": pickled(marker)}


def _expression(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    def change(data: Program) -> None:
        sizes = data["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = command(marker)

    return rewritten(content, change)


def _output_expression(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    def change(data: Program) -> None:
        values = data["graph_module"]["graph"]["sym_int_values"]
        values[next(iter(values))]["as_expr"]["expr_str"] = f"Max(1, {command(marker)})"

    return rewritten(content, change)


def _target(target: str, argument: str | None = None) -> Attack:
    """A node that calls something else than an operator."""

    def made(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
        def change(data: Program) -> None:
            node = data["graph_module"]["graph"]["nodes"][-1]
            node["target"] = target
            if argument is not None:
                text = argument.format(marker=marker)
                node["inputs"] = [{"name": "command", "arg": {"as_string": text}, "kind": 1}]

        return rewritten(content, change)

    return made


def _name(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    """A name that becomes code of the function that PyTorch writes."""
    name = f"x=[{command(marker)}]"
    text = json.dumps(json.loads(content[PROGRAM])).replace('"x"', json.dumps(name))
    return {**content, PROGRAM: text.encode()}


def _argument_name(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    def change(data: Program) -> None:
        data["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x=[{command(marker)}]"]

    return rewritten(content, change)


def _weight_name(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    name = f'fc."+{command(marker)}+"weight'
    made = rewritten(
        content, lambda d: d["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name=name)
    )
    return rewritten(made, lambda d: d["config"].update({name: _payload(d, "fc.weight")}), WEIGHTS)


def _class_name(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
    """A weight that would replace something of PyTorch's own class."""
    name = "__class__.forward"
    made = rewritten(
        content, lambda d: d["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name=name)
    )
    return rewritten(made, lambda d: d["config"].update({name: _payload(d, "fc.weight")}), WEIGHTS)


def _tree(spec: Mapping[str, Any]) -> Attack:
    def made(content: dict[str, bytes], marker: Path) -> dict[str, bytes]:
        def change(data: Program) -> None:
            signature = data["graph_module"]["module_call_graph"][0]["signature"]
            signature["out_spec"] = json.dumps([1, spec])

        return rewritten(content, change)

    return made


LEAF = {"type": None, "context": None, "children_spec": []}
HOSTILE: dict[str, Attack] = {
    "pickle as a weight": _weight_pickle,
    "pickle as a constant": _constant_pickle,
    "opaque object": _opaque("opaque_obj"),
    "TorchBind object": _opaque("custom_obj"),
    "pickle of all weights": _old_weights,
    "expression of a shape": _expression,
    "expression of an extent": _output_expression,
    "os.system": _target("torch.os.system", "touch {marker}"),
    "torch.load": _target("torch.load", "{marker}"),
    "torch.hub": _target("torch.hub.load", "{marker}"),
    "an operator that reads files": _target("torch.ops.aten.from_file.default", "{marker}"),
    "a library's operator": _target("torch.ops.load_library", "{marker}"),
    "attributes of an operator": _target("torch.ops.aten.relu.__class__"),
    "compiled program": _target("torch.ops.higher_order.aoti_call_delegate"),
    "operator module": _target("_operator.attrgetter", "x"),
    "extension": _target("#own:op"),
    "name as code": _name,
    "argument name as code": _argument_name,
    "weight name as code": _weight_name,
    "weight in a class": _class_name,
    "module of a default": _tree(
        {
            "type": "collections.defaultdict",
            "children_spec": [LEAF],
            "context": {
                "default_factory_module": "antigravity",
                "default_factory_name": "geohash",
                "dict_context": ["a"],
            },
        }
    ),
    "module of an enumeration": _tree(
        {
            "type": "builtins.dict",
            "children_spec": [LEAF],
            "context": json.dumps([{"__enum__": True, "fqn": "antigravity:geohash", "name": "a"}]),
        }
    ),
    "key as code": _tree({"type": "builtins.dict", "children_spec": [LEAF], "context": json.dumps(["a'+b+'"])}),
}
"""What is put into a valid archive, by what it tries."""
