"""Random changes to a model's file: to its bytes, to an ONNX model's messages, to a PyTorch program's description."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import onnx

from workers.tvm_backend.frontends.onnx.tensors import messages

NUMBERS = (-1, 0, 1, 2, 3, 7, 17, 127, 1 << 20, 1 << 30, (1 << 31) - 1, -(1 << 31))
TEXTS = ("", "x", "y", "w", "ai.onnx", "own", "Relu", "Add", "Reshape", "If", "Loop", "a b", "é", "None", "__class__")
OPERATORS = ("torch.ops.aten.add.Tensor", "torch.ops.aten.mm.default")


def bytes_changed(data: bytes, chance: random.Random) -> bytes:
    """A few bytes flipped, cut out or repeated."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(made))
        kind = chance.random()
        if kind < 0.7:
            made[at] ^= 1 << chance.randrange(8)
        elif kind < 0.85:
            del made[at : at + chance.randrange(1, 9)]
        else:
            made[at:at] = made[at : at + chance.randrange(1, 33)]
    return bytes(made)


def messages_changed(data: bytes, chance: random.Random) -> bytes:
    """Fields of an ONNX model's messages dropped, repeated, or given other values."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        found = [each for _, each in messages(model)]
        nodes = [each for each in found if isinstance(each, onnx.NodeProto)]
        if nodes and chance.random() < 0.3:
            _rewire(chance.choice(nodes), nodes, chance)
        elif found:
            _change_field(chance.choice(found), chance)
    return bytes(model.SerializeToString())


def _rewire(node: Any, nodes: list[Any], chance: random.Random) -> None:
    """Another operator, or operands of another node: cycles and values that are made twice among them."""
    other = chance.choice(nodes)
    names = [*other.input, *other.output]
    if chance.random() < 0.4:
        node.op_type = other.op_type
    elif names:
        operands = chance.choice((node.input, node.input, node.output))
        if len(operands) and chance.random() < 0.8:
            operands[chance.randrange(len(operands))] = chance.choice(names)
        else:
            operands.append(chance.choice(names))


def _change_field(message: Any, chance: random.Random) -> None:
    field = chance.choice(list(message.DESCRIPTOR.fields))
    if not field.is_repeated:
        if field.message_type is None and chance.random() < 0.8:
            setattr(message, field.name, _value(field, getattr(message, field.name), chance))
        else:
            message.ClearField(field.name)
        return
    values = getattr(message, field.name)
    kind = chance.random()
    if len(values) and kind < 0.4:
        del values[chance.randrange(len(values))]
    elif len(values) and kind < 0.6:
        values.append(values[chance.randrange(len(values))])
    elif field.message_type is not None:
        values.add()
    elif len(values) and kind < 0.9:
        at = chance.randrange(len(values))
        values[at] = _value(field, values[at], chance)
    else:
        values.append(_value(field, None, chance))


def _value(field: Any, old: Any, chance: random.Random) -> Any:
    """Another value of a field's type."""
    if field.enum_type is not None:
        return chance.choice([each.number for each in field.enum_type.values])
    if field.cpp_type == field.CPPTYPE_STRING:
        text = chance.choice(TEXTS)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return chance.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    number = chance.choice((*NUMBERS, (old or 0) + 1, (old or 0) - 1))
    return abs(number) if field.cpp_type in (field.CPPTYPE_UINT64, field.CPPTYPE_UINT32) else number


def description_changed(data: bytes, chance: random.Random) -> bytes:
    """Values of a PyTorch program's descriptions dropped, repeated or exchanged."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    texts = [name for name in content if name.endswith(".json")]
    name = chance.choice([*texts, *(each for each in texts if "/models/" in each for _ in range(6))])
    document = json.loads(content[name])
    for _ in range(chance.choice((1, 1, 2))):
        _change_value(document, chance)
    content[name] = json.dumps(document).encode()
    if chance.random() < 0.05:
        del content[chance.choice(list(content))]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for each, value in content.items():
            archive.writestr(each, value)
    return made.getvalue()


def _change_value(document: Any, chance: random.Random) -> None:
    places = list(_places(document))
    if not places:
        return
    container, key = chance.choice(places)
    other, other_key = chance.choice(places)
    kind = chance.random()
    if kind < 0.2:
        del container[key]
    elif kind < 0.4:
        container[key] = json.loads(json.dumps(other[other_key]))
    elif kind < 0.5 and isinstance(container, list):
        container.insert(chance.randrange(len(container) + 1), json.loads(json.dumps(container[key])))
    else:
        container[key] = _other(container[key], chance)


def _other(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return chance.choice((None, True, False, 0, "x"))
    if isinstance(value, int):
        return chance.choice((*NUMBERS, value + 1, value - 1, 1 << 62, -(1 << 62)))
    if isinstance(value, str):
        return chance.choice((*TEXTS, *OPERATORS, value + "0", value[:-1]))
    return chance.choice((None, [], {}, 0, "x"))


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each value's container and its key or index there."""
    waiting = [document]
    while waiting:
        each = waiting.pop()
        for key in list(each) if isinstance(each, dict) else range(len(each)):
            yield each, key
            if isinstance(each[key], dict | list):
                waiting.append(each[key])


Change = Callable[[bytes, random.Random], bytes]


def change(name: str, data: bytes, chance: random.Random) -> bytes:
    """One random change to the model of this name."""
    deep: Change = description_changed if name.endswith(".pt2") else messages_changed
    return (bytes_changed if chance.random() < 0.25 else deep)(data, chance)
