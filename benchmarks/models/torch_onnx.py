"""An ONNX model on PyTorch, eager, on the CPU.

Each node is one call of PyTorch's own operator; weights are loaded once. Image models, opset 7 and later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from numpy.typing import NDArray

from workers.peers.timing import RunModel

Attributes = Mapping[str, Any]
Operator = Callable[..., Any]


def prepare(model: str, inputs: Mapping[str, NDArray[Any]], threads: int) -> RunModel:
    """The graph's nodes in order, as calls on PyTorch tensors."""
    return prepared(model, inputs, threads, short=False)


def prepared(model: str, inputs: Mapping[str, NDArray[Any]], threads: int, short: bool) -> RunModel:
    """The same; with ``short`` all of float32, weights and inputs too, is bfloat16."""
    import onnx
    import torch
    from onnx import numpy_helper

    def taken(array: NDArray[Any]) -> Any:
        tensor = torch.from_numpy(array)
        return tensor.bfloat16() if short and tensor.dtype == torch.float32 else tensor

    torch.set_num_threads(threads)
    graph = onnx.load(model).graph
    values = {tensor.name: taken(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    values |= {name: taken(array) for name, array in inputs.items()}
    steps = [_step(node) for node in graph.node]
    names = [output.name for output in graph.output]
    last = _last_uses(graph, {*values, *names})

    def run() -> list[Any]:
        live = dict(values)
        with torch.inference_mode():
            for (call, arguments, results), done in zip(steps, last, strict=True):
                found = call(*(live[name] if name else None for name in arguments))
                live |= zip(results, found if isinstance(found, tuple) else (found,), strict=False)
                for name in done:
                    del live[name]
        return [(live[name].float() if short else live[name]).numpy() for name in names]

    return run


def _step(node: Any) -> tuple[Operator, list[str], list[str]]:
    from onnx import helper

    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    found = _operators().get(node.op_type)
    if found is None:
        raise ValueError(f"the PyTorch peer does not know the ONNX operator {node.op_type}")
    return partial(found, attributes), list(node.input), list(node.output)


def _last_uses(graph: Any, keep: set[str]) -> list[list[str]]:
    """For each node the values that nothing reads after it."""
    seen, uses = set(keep), []
    for node in reversed(graph.node):
        names = [name for name in dict.fromkeys((*node.input, *node.output[:1])) if name and name not in seen]
        seen.update(names)
        uses.append(names)
    return uses[::-1]


def _operators() -> dict[str, Operator]:
    import torch
    from torch.nn import functional

    return {
        "Add": lambda a, x, y: x + y,
        "AveragePool": _average_pool,
        "BatchNormalization": lambda a, x, scale, bias, mean, variance: functional.batch_norm(
            x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5)
        ),
        "Clip": lambda a, x, low=None, high=None: x.clamp(low, high),
        "Concat": lambda a, *parts: torch.cat(parts, a["axis"]),
        "Conv": _convolution,
        "ConvTranspose": _transposed,
        "Dropout": lambda a, x, *rest: x,
        "Erf": lambda a, x: torch.erf(x),
        "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
        "Gemm": _gemm,
        "GlobalAveragePool": lambda a, x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
        "LayerNormalization": lambda a, x, scale, shift=None: functional.layer_norm(
            x, x.shape[a.get("axis", -1) :], scale, shift, a.get("epsilon", 1e-5)
        ),
        "LRN": lambda a, x: functional.local_response_norm(
            x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
        ),
        "MatMul": lambda a, x, y: x @ y,
        "MaxPool": _max_pool,
        "Mul": lambda a, x, y: x * y,
        "Relu": lambda a, x: functional.relu(x),
        "Reshape": lambda a, x, shape: x.reshape(
            [x.shape[i] if dim == 0 else dim for i, dim in enumerate(shape.tolist())]
        ),
        "Sigmoid": lambda a, x: torch.sigmoid(x),
        "Softmax": lambda a, x: x.softmax(a.get("axis", 1)),
        "Sum": lambda a, first, *rest: sum(rest, first),
        "Transpose": lambda a, x: x.permute(a["perm"]).contiguous(),
        "Unsqueeze": lambda a, x: _unsqueeze(x, a["axes"]),
    }


def _convolution(a: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    from torch.nn import functional

    x, padding = _pad(a, x, 0.0)
    convolve, ones = {4: functional.conv2d, 5: functional.conv3d}[x.ndim], [1] * (x.ndim - 2)
    return convolve(x, weight, bias, a.get("strides", ones), padding, a.get("dilations", ones), a.get("group", 1))


def _transposed(a: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    from torch.nn import functional

    steps = tuple(a.get("strides", [1] * (x.ndim - 2)))
    if any(a.get("pads", [])) or a.get("output_padding") or any(step > 1 for step in a.get("dilations", [])):
        raise ValueError("the PyTorch peer knows ConvTranspose without padding and dilation alone")
    convolve = {4: functional.conv_transpose2d, 5: functional.conv_transpose3d}[x.ndim]
    return convolve(x, weight, bias, steps, groups=a.get("group", 1))


def _max_pool(a: Attributes, x: Any) -> Any:
    from torch.nn import functional

    x, padding = _pad(a, x, float("-inf"))
    pool = {4: functional.max_pool2d, 5: functional.max_pool3d}[x.ndim]
    return pool(
        x, a["kernel_shape"], a.get("strides", [1] * (x.ndim - 2)), padding, ceil_mode=bool(a.get("ceil_mode", 0))
    )


def _average_pool(a: Attributes, x: Any) -> Any:
    import torch
    from torch.nn import functional

    size, strides, ceil = a["kernel_shape"], a.get("strides", [1, 1]), bool(a.get("ceil_mode", 0))
    padded, padding = _pad(a, x, 0.0)
    counts = bool(a.get("count_include_pad", 0))
    means = functional.avg_pool2d(padded, size, strides, padding, ceil, counts)
    if padded is x or counts:
        return means
    inside = _pad(a, torch.ones_like(x[:1, :1]), 0.0)[0]  # the share of each window that is not padding
    return means / functional.avg_pool2d(inside, size, strides, 0, ceil)


def _pad(a: Attributes, x: Any, value: float) -> tuple[Any, list[int]]:
    """``x`` and the padding left to the operator, which knows symmetric padding alone."""
    from torch.nn import functional

    axes = x.ndim - 2
    pads = list(a.get("pads", [0] * 2 * axes))
    before, after = pads[:axes], pads[axes:]
    if before == after:
        return x, before
    each = [width for pair in zip(reversed(before), reversed(after), strict=True) for width in pair]
    return functional.pad(x, each, value=value), [0] * axes


def _gemm(a: Attributes, x: Any, y: Any, bias: Any = None) -> Any:
    import torch

    x, y = x.T if a.get("transA") else x, y.T if a.get("transB") else y
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    return alpha * (x @ y) if bias is None else torch.addmm(bias, x, y, beta=beta, alpha=alpha)


def _unsqueeze(x: Any, axes: list[int]) -> Any:
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x
