"""TVM's JSON as text: which nodes it has, before TVM makes objects of them.

The text is a list of nodes that refer to each other by their places. Every node has a type by name, and TVM would make
an object of any type that it knows: libraries and functions of the process among them. Programs need a few of them.
"""

from __future__ import annotations

import collections
import functools
import json
from typing import Any

import tvm

from tunesmith.errors import ModelRejected, NotAModel, TruncatedModel, UnsupportedOperator
from tunesmith.model_limits import MAX_JSON_NODES
from workers.tvm_backend.passes import legalize

ROOTS = ("ir.IRModule", "tirx.PrimFunc")


def _named(prefix: str, words: str) -> frozenset[str]:
    return frozenset(f"{prefix}{word}" for word in words.split())


VALUES = _named("", "None bool int float DataType ffi.String ffi.Array ffi.Map ffi.Shape ffi.Tensor")
IR = _named(
    "ir.",
    "Call DictAttrs FloatImm FuncType GenericConst GlobalVar IRModule IntImm Op PointerType PrimType Range "
    "SequentialSpan SourceMap SourceName Span StringImm StringType TensorLoad TensorRegion Tuple TupleGetItem "
    "TupleType Type Var",
)
RELAX = _named(
    "relax.",
    "AnyType FuncType ShapeType TensorType expr.BindingBlock expr.DataflowBlock expr.DataflowVar expr.Function "
    "expr.SeqExpr expr.ShapeExpr expr.VarBinding",
)
LOOPS = _named("tirx.", "Bind BufferRegionType BufferStore BufferType For IfThenElse IterVar PrimFunc SeqStmt")
BLOCKS = _named("s_tir.", "SBlock SBlockRealize")
ALLOWED = VALUES | IR | RELAX | LOOPS | BLOCKS
FAMILIES = ("prim.", "relax.attrs.")
"""Arithmetic, and the attributes of Relax operators."""
CALLS = _named("relax.", "call_tir argsort cumprod cumsum sort topk")
"""Operators that ``LegalizeOps`` leaves: calls of the module's own PrimFuncs, and what TVM lowers when it builds."""
MATHEMATICS = _named("prim.", "ceil clz if_then_else likely log2") | _named(
    "tirx.",
    "acos acosh asin asinh atan atan2 atanh copysign cos cosh erf exp exp10 exp2 fabs floor fma fmod hypot isfinite "
    "isinf isnan ldexp log log10 log1p nearbyint nextafter popcount pow q_multiply_shift reinterpret round rsqrt "
    "sigmoid sin sinh sqrt tan tanh trunc",
)
"""What a PrimFunc may call: functions of numbers. Others reach memory, the process or the device by themselves."""
REMEDIES = {
    "relax.expr.ExternFunc": "a call of a function that is not in the module",
    "relax.expr.If": "a branch",
    "relax.expr.MatchCast": "a shape that is found while it runs",
    "tirx.AttrStmt": "a pragma or a thread binding",
    "tirx.Evaluate": "a call for its side effects",
    "tirx.While": "a loop without a count",
}


def checked(data: bytes) -> str:
    """The text, written anew: what was checked is what TVM reads, whatever doubled keys mean to it.

    Raises:
        NotAModel, TruncatedModel: it is no JSON of a module or a function.
        UnsupportedOperator: it calls what a program may not call; names and counts it.
        ModelRejected: another version of TVM wrote it, or it has nodes that no program needs.
    """
    try:
        graph = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TruncatedModel(f"the file is no whole JSON: {error}", field="file") from error
    nodes, root = _outline(graph)
    _check_version(graph.get("metadata"))
    types = collections.Counter(_type(node) for node in nodes)
    others = [name for name in types if name not in ALLOWED and not name.startswith(FAMILIES)]
    if others:
        strange = min(others, key=lambda name: name not in REMEDIES)
        what = f", {REMEDIES[strange]}," if strange in REMEDIES else ""
        raise ModelRejected(
            f"the program has a node of type {strange[:100]}{what} which is not accepted: lower or rewrite it without",
            field="file",
            value=strange[:100],
        )
    if types["ffi.Tensor"] and not all(
        isinstance(node.get("data"), str) for node in nodes if _type(node) == "ffi.Tensor"
    ):
        raise ModelRejected("a constant of the program has no bytes: write the file again", field="file")
    if _type(nodes[root]) not in ROOTS:
        raise NotAModel(
            f"the file holds a {_type(nodes[root])[:100]}; expected an IRModule or a PrimFunc", field="file"
        )
    _check_operators(nodes)
    return json.dumps(graph, separators=(",", ":"))


def _outline(graph: Any) -> tuple[list[dict[str, Any]], int]:
    nodes, root = (graph.get("nodes"), graph.get("root_index")) if isinstance(graph, dict) else (None, None)
    if not isinstance(nodes, list) or type(root) is not int or not 0 <= root < len(nodes):
        raise NotAModel("the file is no module or function of TVM: write it with tvm.ir.save_json", field="file")
    if len(nodes) > MAX_JSON_NODES:
        raise ModelRejected(
            f"the program has {len(nodes)} nodes; {MAX_JSON_NODES} are accepted", field="file", value=len(nodes)
        )
    return nodes, root


def _check_version(metadata: Any) -> None:
    written = str(metadata.get("tvm_version", "")) if isinstance(metadata, dict) else ""
    ours = tvm.__version__.split(".")[:2]
    if written.split(".")[:2] != ours:
        raise ModelRejected(
            f"the file was written by TVM {written[:40] or 'of no version'}, and models are read by {'.'.join(ours)}: "
            "write it with that",
            field="file",
            value=written[:40],
        )


def _type(node: Any) -> str:
    kind = node.get("type") if isinstance(node, dict) else None
    return kind if isinstance(kind, str) else "unknown"


def _check_operators(nodes: list[dict[str, Any]]) -> None:
    """Refuse operators that no pass lowers, and functions that are no arithmetic."""
    named = [str(node.get("data")) for node in nodes if _type(node) == "ir.Op"]
    missing = sorted({name for name in named if not _is_known(name)})
    if missing:
        raise UnsupportedOperator(
            f"the program calls {', '.join(name[:100] for name in missing[:10])}, which is not accepted: PrimFuncs may "
            "call functions of numbers, and main may use operators that TVM lowers, and call_tir",
            field="file",
            operators={name[:100]: named.count(name) for name in missing[:100]},
        )


@functools.lru_cache(maxsize=4096)
def _is_known(name: str) -> bool:
    if name in CALLS or name in MATHEMATICS or name in legalize.OURS:
        return True
    if not name.startswith("relax.") or name not in _operators():
        return False
    return tvm.ir.Op.get(name).get_attr("FLegalize") is not None


@functools.lru_cache(maxsize=1)
def _operators() -> frozenset[str]:
    return frozenset(map(str, tvm.ir.Op.list_op_names()))
