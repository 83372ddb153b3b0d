"""Small ONNX models that are meant to harm who imports them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

SHAPE = [1, 4]
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def value(name: str, shape: list[int] | None = None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, SHAPE if shape is None else shape)


def model(
    nodes: list[NodeProto],
    weights: list[TensorProto] = (),
    functions: list[onnx.FunctionProto] = (),  # type: ignore[assignment]
    shape: list[int] | None = None,
) -> ModelProto:
    """From ``x`` to ``y``."""
    graph = helper.make_graph(
        nodes, "g", [value("x", shape)], [helper.make_empty_tensor_value_info("y")], list(weights)
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8, functions=list(functions))


def outside(location: str = "secret") -> TensorProto:
    """A tensor whose content is another file."""
    tensor = TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def sparse() -> onnx.SparseTensorProto:
    found = onnx.SparseTensorProto(dims=[4])
    found.values.CopyFrom(outside())
    found.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [4], range(4)))
    return found


def _add(constant: NodeProto) -> ModelProto:
    return model([constant, helper.make_node("Add", ["x", "k"], ["y"])])


def _branch() -> GraphProto:
    nodes = [helper.make_node("Constant", [], ["k"], value=outside()), helper.make_node("Add", ["x", "k"], ["z"])]
    return helper.make_graph(nodes, "branch", [], [value("z")])


def _initializer() -> ModelProto:
    return model([helper.make_node("Add", ["x", "k"], ["y"])], [outside()])


def _entry_alone() -> ModelProto:
    """Not marked as external; the entry alone."""
    found = _initializer()
    found.graph.initializer[0].ClearField("data_location")
    return found


def _sparse_initializer() -> ModelProto:
    found = model([helper.make_node("Relu", ["x"], ["y"])])
    found.graph.sparse_initializer.append(sparse())
    return found


def _sparse_indices() -> ModelProto:
    found = model([helper.make_node("Relu", ["x"], ["y"])])
    each = sparse()
    each.values.CopyFrom(helper.make_tensor("v", TensorProto.FLOAT, [4], np.zeros(4)))
    each.indices.CopyFrom(outside())
    found.graph.sparse_initializer.append(each)
    return found


def _constant() -> ModelProto:
    return _add(helper.make_node("Constant", [], ["k"], value=outside()))


def _sparse_constant() -> ModelProto:
    return _add(helper.make_node("Constant", [], ["k"], sparse_value=sparse()))


def _fill() -> ModelProto:
    shape = helper.make_tensor("s", TensorProto.INT64, [1], [4])
    return model(
        [
            helper.make_node("ConstantOfShape", ["s"], ["k"], value=outside()),
            helper.make_node("Add", ["x", "k"], ["y"]),
        ],
        [shape],
    )


def _lists() -> ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.add(name="all", type=onnx.AttributeProto.TENSORS).tensors.append(outside())
    return model([node])


def _sparse_lists() -> ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.add(name="all", type=onnx.AttributeProto.SPARSE_TENSORS).sparse_tensors.append(sparse())
    return model([node])


def _function() -> ModelProto:
    nodes = [helper.make_node("Constant", [], ["k"], value=outside()), helper.make_node("Add", ["a", "k"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], nodes, OPSETS)
    return model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[function])


def _function_default() -> ModelProto:
    function = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], OPSETS)
    function.attribute_proto.append(helper.make_attribute("v", outside()))
    return model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[function])


def _if_branch() -> ModelProto:
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    return model([helper.make_node("If", ["c"], ["y"], then_branch=_branch(), else_branch=_branch())], [condition])


def _nested_branch() -> ModelProto:
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    inner = helper.make_node("If", ["c"], ["z"], then_branch=_branch(), else_branch=_branch())
    graph = helper.make_graph([inner], "outer", [], [value("z")])
    return model([helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)], [condition])


def _training(graph: str) -> Callable[[], ModelProto]:
    def made() -> ModelProto:
        found = model([helper.make_node("Relu", ["x"], ["y"])])
        getattr(found.training_info.add(), graph).CopyFrom(_branch())
        return found

    return made


EXTERNAL: dict[str, Callable[[], ModelProto]] = {
    "initializer": _initializer,
    "an entry alone": _entry_alone,
    "sparse initializer": _sparse_initializer,
    "sparse indices": _sparse_indices,
    "Constant": _constant,
    "sparse Constant": _sparse_constant,
    "ConstantOfShape": _fill,
    "list of tensors": _lists,
    "list of sparse tensors": _sparse_lists,
    "function": _function,
    "default of a function": _function_default,
    "If branch": _if_branch,
    "nested branch": _nested_branch,
    "initialization": _training("initialization"),
    "training algorithm": _training("algorithm"),
}
"""External data in each place where a tensor can be."""


def doubling(count: int) -> ModelProto:
    """Functions that call the next one twice: 2^count operators once they are written out."""
    functions = []
    for at in range(count):
        inner = ("Relu", "") if at == count - 1 else (f"F{at + 1}", "own")
        nodes = [
            helper.make_node(inner[0], ["a"], ["m"], domain=inner[1]),
            helper.make_node(inner[0], ["m"], ["b"], domain=inner[1]),
        ]
        functions.append(helper.make_function("own", f"F{at}", ["a"], ["b"], nodes, OPSETS))
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=functions)


def recursive(count: int) -> ModelProto:
    """Functions that call each other in a ring."""
    functions = [
        helper.make_function(
            "own",
            f"F{at}",
            ["a"],
            ["b"],
            [helper.make_node(f"F{(at + 1) % count}", ["a"], ["b"], domain="own")],
            OPSETS,
        )
        for at in range(count)
    ]
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=functions)


def deep(count: int) -> ModelProto:
    """A chain of functions."""
    functions = [
        helper.make_function(
            "own",
            f"F{at}",
            ["a"],
            ["b"],
            [
                helper.make_node(f"F{at + 1}", ["a"], ["b"], domain="own")
                if at < count - 1
                else helper.make_node("Relu", ["a"], ["b"])
            ],
            OPSETS,
        )
        for at in range(count)
    ]
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=functions)


def many_functions(count: int) -> ModelProto:
    functions = [
        helper.make_function("own", f"F{at}", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], OPSETS)
        for at in range(count)
    ]
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=functions)


def chain(count: int) -> ModelProto:
    names = ["x", *(f"v{at}" for at in range(count - 1)), "y"]
    return model([helper.make_node("Relu", [a], [b]) for a, b in itertools.pairwise(names)])


def wide(count: int) -> ModelProto:
    return model([helper.make_node("Concat", ["x"] * count, ["y"], axis=0)])


def copied_graph() -> ModelProto:
    """A branch of 1000 operators that a function's 100 operators take by reference."""
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    names = ["x", *(f"v{at}" for at in range(999)), "z"]
    branch = helper.make_graph(
        [helper.make_node("Relu", [a], [b]) for a, b in itertools.pairwise(names)], "branch", [], [value("z")]
    )
    nodes = []
    for at in range(100):
        node = helper.make_node("If", ["a"], [f"b{at}"])
        for name in ("then_branch", "else_branch"):
            node.attribute.add(name=name, ref_attr_name="body", type=onnx.AttributeProto.GRAPH)
        nodes.append(node)
    function = helper.make_function("own", "F", ["a"], ["b99"], nodes, OPSETS, ["body"])
    return model([helper.make_node("F", ["c"], ["y"], domain="own", body=branch)], [condition], [function])


def cycle() -> ModelProto:
    return model(
        [
            helper.make_node("Add", ["x", "b"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ]
    )


def made_twice() -> ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])])


def too_deep(levels: int) -> bytes:
    """Branches inside branches, beyond what protobuf reads: written without it."""
    found = model([helper.make_node("Relu", ["x"], ["y"])])
    graph = found.graph.SerializeToString()
    for _ in range(levels):
        for field in (6, 5, 1):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            graph = _field(field, graph)
    found.ClearField("graph")
    return found.SerializeToString() + _field(7, graph)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes as protobuf writes it."""
    size, length = len(content), b""
    while size >= 128:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def short_tensor() -> ModelProto:
    """2^28 numbers by its shape, and four in the file."""
    weight = TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[1 << 26, 4], raw_data=bytes(16))
    return model([helper.make_node("Add", ["x", "k"], ["y"])], [weight])


def tensor_twice() -> ModelProto:
    """Two contents for one tensor."""
    weight = TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[4], raw_data=bytes(16), float_data=[1.0] * 4)
    return model([helper.make_node("Add", ["x", "k"], ["y"])], [weight])


def negative_tensor() -> ModelProto:
    weight = TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[-4, -1], raw_data=bytes(16))
    return model([helper.make_node("Add", ["x", "k"], ["y"])], [weight])


def _numbers(name: str, *values: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def _zeros(name: str, *shape: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, shape, np.zeros(shape, np.float32).tobytes(), raw=True)


def _unfolding(nodes: list[NodeProto], *weights: TensorProto) -> Callable[[], ModelProto]:
    """A constant ``k`` that is added up and used."""
    last = [helper.make_node("ReduceSum", ["k"], ["r"], keepdims=0), helper.make_node("Add", ["x", "r"], ["y"])]
    return lambda: model([*nodes, *last], list(weights))


def _scalar(name: str, value: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [], [value])


HUGE = 1 << 30
UNFOLDING: dict[str, Callable[[], ModelProto]] = {
    "Expand": _unfolding([helper.make_node("Expand", ["w", "s"], ["k"])], _zeros("w", 1), _numbers("s", HUGE)),
    "Expand of two axes": _unfolding(
        [helper.make_node("Expand", ["w", "s"], ["k"])], _zeros("w", 1, 1), _numbers("s", 1 << 15, 1 << 15)
    ),
    "ConstantOfShape": _unfolding([helper.make_node("ConstantOfShape", ["s"], ["k"])], _numbers("s", HUGE)),
    "Range": _unfolding(
        [
            helper.make_node("Range", ["a", "b", "c"], ["n"]),
            helper.make_node("Cast", ["n"], ["k"], to=TensorProto.FLOAT),
        ],
        _scalar("a", 0),
        _scalar("b", HUGE),
        _scalar("c", 1),
    ),
    "Tile": _unfolding([helper.make_node("Tile", ["w", "s"], ["k"])], _zeros("w", 1), _numbers("s", HUGE)),
    "Pad": _unfolding([helper.make_node("Pad", ["w", "s"], ["k"])], _zeros("w", 1), _numbers("s", 0, HUGE)),
    "Resize": _unfolding(
        [helper.make_node("Resize", ["w", "", "", "s"], ["k"])],
        _zeros("w", 1, 1, 2, 2),
        _numbers("s", 1, 1, 1 << 15, 1 << 15),
    ),
    "Gather": _unfolding(
        [helper.make_node("Gather", ["w", "i"], ["k"])], _zeros("w", 4, 40_000), _numbers("i", *[0] * 40_000)
    ),
    "OneHot": _unfolding(
        [helper.make_node("OneHot", ["i", "d", "v"], ["k"])],
        _numbers("i", *range(4096)),
        _scalar("d", 1 << 19),
        helper.make_tensor("v", TensorProto.FLOAT, [2], [0, 1]),
    ),
    "outer product": _unfolding(
        [helper.make_node("Mul", ["w", "v"], ["k"])], _zeros("w", 40_000, 1), _zeros("v", 1, 40_000)
    ),
    "MatMul": _unfolding(
        [helper.make_node("MatMul", ["w", "v"], ["k"])], _zeros("w", 40_000, 1), _zeros("v", 1, 40_000)
    ),
    "in steps": _unfolding(
        [helper.make_node("Expand", ["w", "s"], ["a"]), helper.make_node("Expand", ["a", "t"], ["k"])],
        _zeros("w", 1),
        _numbers("s", 1 << 26),
        _numbers("t", 16, 1 << 26),
    ),
    "a branch": lambda: _hidden_branch(),
    "an activation": lambda: model(
        [helper.make_node("Expand", ["x", "s"], ["e"]), helper.make_node("ReduceSum", ["e"], ["y"])],
        [_numbers("s", 1 << 20, 1 << 10, 4)],
    ),
    "an overflow": _unfolding(
        [helper.make_node("Expand", ["w", "s"], ["k"])], _zeros("w", 1), _numbers("s", 1 << 32, 1 << 32)
    ),
    "a negative extent": _unfolding([helper.make_node("ConstantOfShape", ["s"], ["k"])], _numbers("s", -4)),
    "an input": lambda: model([helper.make_node("Relu", ["x"], ["y"])], shape=[1 << 16, 1 << 16]),
    "Slice of nothing": _unfolding(
        [helper.make_node("Expand", ["w", "s"], ["e"]), helper.make_node("Slice", ["e", "a", "b"], ["k"])],
        _zeros("w", 1),
        _numbers("s", HUGE),
        _numbers("a", 0),
        _numbers("b", 1),
    ),
}
"""Small files whose constants or results are large, by what makes them so."""


def _hidden_branch() -> ModelProto:
    nodes = [
        helper.make_node("Expand", ["w", "s"], ["k"]),
        helper.make_node("ReduceSum", ["k"], ["r"], keepdims=0),
        helper.make_node("Add", ["x", "r"], ["z"]),
    ]
    branch = helper.make_graph(nodes, "branch", [], [value("z")])
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    return model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        [condition, _zeros("w", 1), _numbers("s", HUGE)],
    )
