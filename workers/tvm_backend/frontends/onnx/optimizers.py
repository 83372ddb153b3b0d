"""Steps of training that ONNX has as operators: ``Adagrad``, ``Adam`` and ``Momentum``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax

from workers.tvm_backend.frontends.onnx.attention import Attributes

PREFIX = "ai.onnx.preview.training."


class _Arithmetic:
    """Arithmetic on tensors and numbers of float32."""

    def __init__(self, importer: Any, rate: relax.Expr, steps: relax.Expr) -> None:
        self.emit = importer.bb.emit
        self.rate = rate
        self.steps = self.emit(relax.op.astype(steps, "float32"))
        self.begun = self.emit(relax.op.greater(self.steps, relax.const(0.0)))

    def of(self, operator: Callable[..., relax.Expr], *values: Any) -> relax.Expr:
        return self.emit(operator(*(relax.const(float(x)) if isinstance(x, int | float) else x for x in values)))

    def mix(self, a: Any, x: Any, b: Any, y: Any) -> relax.Expr:
        """``a x + b y``."""
        return self.of(relax.op.add, self.of(relax.op.multiply, a, x), self.of(relax.op.multiply, b, y))

    def step(self, x: Any, rate: Any, way: Any, square: Any, epsilon: float) -> relax.Expr:
        """``x`` less a step of ``rate`` along ``way``, over the root of ``square``."""
        root = self.of(relax.op.add, self.of(relax.op.sqrt, square), epsilon)
        along = self.of(relax.op.divide, self.of(relax.op.multiply, rate, way), root)
        return self.of(relax.op.subtract, x, along)


def _adagrad(do: _Arithmetic, x: Any, slope: Any, states: Sequence[Any], attrs: Attributes) -> list[relax.Expr]:
    slope = do.mix(attrs.get("norm_coefficient", 0.0), x, 1, slope)
    decay = do.mix(attrs.get("decay_factor", 0.0), do.steps, 1, 1)
    square = do.mix(slope, slope, 1, states[0])
    rate = do.of(relax.op.divide, do.rate, decay)
    return [do.step(x, rate, slope, square, attrs.get("epsilon", 1e-6)), square]


def _adam(do: _Arithmetic, x: Any, slope: Any, states: Sequence[Any], attrs: Attributes) -> list[relax.Expr]:
    alpha, beta = attrs.get("alpha", 0.9), attrs.get("beta", 0.999)
    slope = do.mix(attrs.get("norm_coefficient", 0.0), x, 1, slope)
    way = do.mix(alpha, states[0], 1 - alpha, slope)
    square = do.mix(beta, states[1], 1 - beta, do.of(relax.op.multiply, slope, slope))
    up = do.of(relax.op.sqrt, do.of(relax.op.subtract, 1, do.of(relax.op.power, beta, do.steps)))
    down = do.of(relax.op.subtract, 1, do.of(relax.op.power, alpha, do.steps))
    rate = do.of(relax.op.divide, do.of(relax.op.multiply, do.rate, up), down)
    rate = do.of(relax.op.where, do.begun, rate, do.rate)
    found = do.step(x, rate, way, square, attrs.get("epsilon", 1e-6))
    return [do.of(relax.op.multiply, 1 - attrs.get("norm_coefficient_post", 0.0), found), way, square]


def _momentum(do: _Arithmetic, x: Any, slope: Any, states: Sequence[Any], attrs: Attributes) -> list[relax.Expr]:
    slope = do.mix(attrs["norm_coefficient"], x, 1, slope)
    share = do.of(relax.op.where, do.begun, attrs["beta"], 1)
    way = do.mix(attrs["alpha"], states[0], share, slope)
    along = do.mix(attrs["alpha"], way, 1, slope) if attrs["mode"] == b"nesterov" else way
    return [do.of(relax.op.subtract, x, do.of(relax.op.multiply, do.rate, along)), way]


def _of(step: Callable[..., list[relax.Expr]], states: int) -> Callable[[Any, Any, Attributes, int], relax.Expr]:
    """An optimiser of several tensors: all of them, their slopes, and ``states`` further values of each."""

    def convert(importer: Any, inputs: Any, attrs: Attributes, opset: int) -> relax.Expr:
        rate, steps, *rest = inputs
        do, count = _Arithmetic(importer, rate, steps), len(rest) // (2 + states)
        groups = [rest[at * count : (at + 1) * count] for at in range(2 + states)]
        found = [step(do, x, slope, own, attrs) for x, slope, *own in zip(*groups, strict=True)]
        return relax.Tuple([each for kind in zip(*found, strict=True) for each in kind])

    return convert


CONVERTED: Mapping[str, Callable[[Any, Any, Attributes, int], relax.Expr]] = {
    f"{PREFIX}Adagrad": _of(_adagrad, 1),
    f"{PREFIX}Adam": _of(_adam, 2),
    f"{PREFIX}Momentum": _of(_momentum, 1),
}
"""How each is converted, by its name with its domain."""
