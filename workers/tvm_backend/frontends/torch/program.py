"""The description of an exported PyTorch program, checked before PyTorch makes a program of it.

PyTorch makes Python code of names in it, evaluates expressions, looks functions up by their dotted path, and imports
modules that tree specifications name. So each text is compared with what is allowed in its place.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tunesmith.errors import ModelRejected, UnsupportedOperator
from tunesmith.model_limits import MAX_EDGES, MAX_NODES, MAX_OPERANDS
from workers.tvm_backend.frontends.torch import expressions

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,499}|")
PATH = re.compile(r"[A-Za-z0-9_.\-/ ]{0,1000}")
TEXT = re.compile(r"[^\x00-\x1f\x7f\\'\"{}\ud800-\udfff]{0,1000}")
VERSION = re.compile(r"[A-Za-z0-9_.+<>=\-]{0,100}")
TREES = frozenset(
    {
        "builtins.tuple",
        "builtins.list",
        "builtins.dict",
        "collections.OrderedDict",
        "collections.deque",
        "torch.Size",
        "torch.fx.immutable_collections.immutable_list",
        "torch.fx.immutable_collections.immutable_dict",
    }
)
"""Containers of inputs and outputs. Others name classes or modules, which PyTorch would import."""
SYMBOLIC = frozenset(
    {
        *(
            f"_operator.{name}"
            for name in (
                "eq",
                "ne",
                "le",
                "ge",
                "lt",
                "gt",
                "neg",
                "pos",
                "mul",
                "add",
                "sub",
                "mod",
                "floordiv",
                "truediv",
                "pow",
                "and_",
                "or_",
                "lshift",
                "rshift",
                "getitem",
            )
        ),
        *(f"torch.sym_{name}" for name in ("not", "int", "float", "ite", "max", "min", "sum")),
        "torch._sym_sqrt",
        "torch.sym_sqrt",
        "math.trunc",
        "math.floor",
        "math.ceil",
    }
)
"""Functions of extents."""
HIGHER = frozenset(
    {
        "wrap_with_set_grad_enabled",
        "wrap_with_autocast",
        "cond",
        "while_loop",
        "map_impl",
        "scan",
        "associative_scan",
        "flex_attention",
        "tag_activation_checkpoint",
        "strict_mode",
        "out_dtype",
    }
)
"""Operators that take programs."""
NAMESPACES = frozenset({"aten", "prims", "quantized_decomposed"})
FORBIDDEN = frozenset({"from_file", "save", "warn", "_print", "_test_string_default", "_test_ambiguous_defaults"})
"""Operators that read or write something besides tensors."""
ASSERTIONS = frozenset({"torch.ops.aten._assert_scalar.default", "torch.ops.aten._assert_async.msg"})
CALL = re.compile(r"torch\.ops\.([a-z_][a-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_]*))?")


def checked(data: Any) -> Any:
    """What PyTorch reads of a program's description, as its own classes.

    Args:
        data: the parsed ``models/model.json``.

    Returns:
        PyTorch's ``schema.ExportedProgram``, without what only says where the program came from.

    Raises:
        ModelRejected: a text that PyTorch would run, or a program that is too large.
        UnsupportedOperator: operators that are none of PyTorch's own.
    """
    serialize = importlib.import_module("torch._export.serde.serialize")
    schema = importlib.import_module("torch._export.serde.schema")
    program = serialize._dict_to_dataclass(schema.ExportedProgram, data)
    program.guards_code = []  # Python code
    walk = _Walk()
    walk.visit(program, "program")
    if walk.unknown:
        listed = ", ".join(f"{name} ({count}×)" for name, count in sorted(walk.unknown.items()))
        raise UnsupportedOperator(
            f"the program calls what is no operator of PyTorch's: {listed}; export it without",
            field="file",
            operators=dict(sorted(walk.unknown.items())),
        )
    return program


class _Walk:
    """Visits a description and judges each text by where it is."""

    def __init__(self) -> None:
        self.unknown: collections.Counter[str] = collections.Counter()
        self.nodes = self.edges = 0

    def visit(self, value: Any, place: str) -> None:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._visit_fields(value)
        elif isinstance(value, str):
            self._check(value, place)
        elif isinstance(value, list | tuple):
            for each in value:
                self.visit(each, place)
        elif isinstance(value, dict):
            for key, each in value.items():
                self._check(key, f"{place}.key")
                self.visit(each, place)

    def _visit_fields(self, value: Any) -> None:
        kind = type(value).__name__
        if kind in ("Node", "GraphModule"):
            value.metadata = {}  # where a node came from: names of modules and functions
        if kind == "Node":
            self._count(value)
            if value.target in ASSERTIONS:
                _without_message(value)
        if kind == "GraphModule":
            value.treespec_namedtuple_fields = {}
        if kind == "CustomObjArgument":
            raise ModelRejected(
                f"the program has an object of the class {str(value.class_fqn)[:200]!r} that is no "
                "tensor; export it without",
                field="file",
            )
        for name in _field_names(value):
            self.visit(getattr(value, name), f"{kind}.{name}")

    def _count(self, node: Any) -> None:
        operands = max(len(node.inputs), len(node.outputs))
        self.nodes, self.edges = self.nodes + 1, self.edges + len(node.inputs) + len(node.outputs)
        for count, what, limit in (
            (self.nodes, "operators", MAX_NODES),
            (self.edges, "operands", MAX_EDGES),
            (operands, "operands of one operator", MAX_OPERANDS),
        ):
            if count > limit:
                raise ModelRejected(
                    f"the program has {count} {what}; up to {limit} are accepted", field="file", limit=limit
                )

    def _check(self, text: str, place: str) -> None:
        if place in ("Node.target", "Argument.as_operator"):
            self.unknown.update([text[:200]] if not is_operator(text) else [])
        elif not isinstance(text, str) or not ALLOWED.get(place, NAME.fullmatch)(text):
            raise ModelRejected(
                f"the program has {str(text)[:200]!r} as {place}, which is not what PyTorch writes "
                "there; export it again with torch.export.save",
                field="file",
                value=str(text)[:200],
            )


def _without_message(node: Any) -> None:
    """What an assertion says is of no use to anyone here, and is text with quotes."""
    for each in node.inputs:
        if getattr(each.arg, "type", "") == "as_string":
            each.arg.as_string = "assertion"


def _field_names(value: Any) -> list[str]:
    """Fields of a dataclass that are set; of a union, the one that is."""
    kind = getattr(value, "type", None)
    fields = [field.name for field in dataclasses.fields(value)]
    if kind in fields and type(value).__mro__[1].__name__ == "_Union":
        return [kind]
    return fields


def _is_path(text: str) -> bool:
    """A place in a module, which PyTorch follows by ``getattr``."""
    return bool(PATH.fullmatch(text)) and not any(part.startswith("__") for part in text.split("."))


def _is_expression(text: str) -> bool:
    problem = expressions.problem_of(text)
    if problem is not None:
        raise ModelRejected(
            f"the program has the expression {text[:200]!r}, which is no arithmetic on extents: {problem}",
            field="file",
            value=text[:200],
        )
    return True


def _is_tree(text: str) -> bool:
    """Whether a tree specification has only plain containers with plain keys."""
    try:
        version, root = json.loads(text)
        waiting = [root]
        while waiting:
            spec = waiting.pop()
            waiting += spec["children_spec"]
            if spec["type"] is None and spec["context"] is None:
                continue
            context = json.loads(spec["context"])
            keys = context if isinstance(context, list) else [context]
            if spec["type"] not in TREES or not all(map(_is_key, keys)):
                return False
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    return bool(version == 1)


def _is_key(key: Any) -> bool:
    return _is_path(key) if isinstance(key, str) else key is None or isinstance(key, int | float)


ALLOWED: Mapping[str, Callable[[str], Any]] = {
    "SymExpr.expr_str": _is_expression,
    "ModuleCallSignature.in_spec": _is_tree,
    "ModuleCallSignature.out_spec": _is_tree,
    **dict.fromkeys(("Argument.as_string", "Argument.as_strings", "ConstantValue.as_string"), TEXT.fullmatch),
    "ExportedProgram.torch_version": VERSION.fullmatch,
    **dict.fromkeys(
        (
            "ModuleCallEntry.fqn",
            "InputToParameterSpec.parameter_name",
            "InputToBufferSpec.buffer_name",
            "InputToTensorConstantSpec.tensor_constant_name",
            "BufferMutationSpec.buffer_name",
            "ParameterMutationSpec.parameter_name",
            "GradientToParameterSpec.parameter_name",
        ),
        _is_path,
    ),
}
"""Texts that are no plain names, by their place."""


def is_operator(target: str) -> bool:
    """Whether a dotted path is an operator of PyTorch's that computes with tensors or extents."""
    if target in SYMBOLIC:
        return True
    found = CALL.fullmatch(target)
    if found is None:
        return False
    namespace, name, overload = found.groups()
    if namespace == "higher_order":
        return overload is None and name in HIGHER
    if namespace not in NAMESPACES or name in FORBIDDEN or overload is None:
        return False
    torch = importlib.import_module("torch")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return isinstance(packet, torch._ops.OpOverloadPacket) and overload in packet.overloads()
