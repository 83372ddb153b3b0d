"""bfloat16 and codes between kernels: a value is rounded once, by the kernel that produces it.

Once operators are fused, what one kernel hands to the next is known. Products read bits (``to_bf16``): a value that a
product reads as bits, and every map in blocks, is stored as bits. Its producer rounds it last; other readers widen it
first. Of a quantised model, a value that is decoded (``from_codes``) last is stored as codes; its readers decode it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import CODES
from workers.tvm_backend.passes import moves
from workers.tvm_backend.passes.layout.byte_compute import from_codes
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.expressions import Binding, operands, operator, shape
from workers.tvm_backend.passes.layout.narrow_compute import from_bf16, group_matmul_pairs, to_bf16

BLOCKED_AXES = 5
"""Number of axes of a map in blocks of channels."""


@dataclass(frozen=True)
class Storage:
    """How a value is stored.

    Attributes:
        dtype: type of its elements.
        widen: tensor expression from what is stored to float32.
        args: what it takes besides.
    """

    dtype: str
    widen: Callable[..., Any]
    args: tuple[relax.Expr, ...] = ()


AS_BITS = Storage(BITS, from_bf16)


def store_bits(mod: tvm.IRModule, widest: int = LANES) -> tvm.IRModule:
    """Let kernels store bits where others read bits.

    Args:
        mod: after ``FuseOps`` and before ``FuseTIR``; ``main`` is straight-line.
        widest: most channels of a block.
    """
    bindings = _bindings(mod)
    readers: Counter[relax.Var] = Counter()
    as_bits: Counter[relax.Var] = Counter()
    for _, value in bindings:
        for var in set(operands(value)):
            readers[var] += 1
            as_bits[var] += _rounds(value)
    between = _between_kernels(mod, bindings)
    maps = _maps_of_groups(mod, bindings)
    narrow = {
        var: AS_BITS
        for var, _ in bindings
        if var in between and (_is_map(shape(var) or (), widest) or 0 < readers[var] == as_bits[var] or var in maps)
    }
    return _Narrowing(mod, narrow).run(bindings) if narrow else mod


def store_codes(mod: tvm.IRModule) -> tvm.IRModule:
    """Let kernels store codes that they would decode for others, which then decode them.

    Args:
        mod: as for :func:`store_bits`.
    """
    bindings = _bindings(mod)
    between = _between_kernels(mod, bindings)
    decoded = {var: args for var, value in bindings if var in between and (args := _decoding(mod, value)) is not None}
    narrow = {var: Storage(CODES, from_codes, args) for var, args in decoded.items()}
    return _Narrowing(mod, narrow).run(bindings) if narrow else mod


def _bindings(mod: tvm.IRModule) -> list[Binding]:
    return [(each.var, each.value) for block in mod["main"].body.blocks for each in block.bindings]


def _between_kernels(mod: tvm.IRModule, bindings: Sequence[Binding]) -> set[relax.Var]:
    """Values in float32 that kernels make and kernels alone read."""
    made = {var for var, value in bindings if _is_kernel(mod, value) and shape(var) is not None}
    for _, value in bindings:
        if not _is_kernel(mod, value):
            made -= set(operands(value))
    return made - set(operands(mod["main"].body.body))


def _is_map(extents: tuple[int, ...], widest: int) -> bool:
    return len(extents) == BLOCKED_AXES and extents[-1] >= LANES and widest % extents[-1] == 0


def _maps_of_groups(mod: tvm.IRModule, bindings: Sequence[Binding]) -> set[relax.Var]:
    """Plain maps that products of groups read as bits or make, and what kernels that only move values make of those."""
    found: set[relax.Var] = set()
    values = dict(bindings)
    for var, value in bindings:
        used = operands(value)
        if group_matmul_pairs.__name__ in _name(value):
            found |= {var, *(source for each in used if (source := _rounded_map(values, each)) is not None)}
    for var, value in bindings:
        if _moves(mod, value) and found.intersection(operands(value)):
            found.add(var)
    return found


def _rounded_map(values: Mapping[relax.Var, relax.Expr], var: relax.Var) -> relax.Var | None:
    """What ``var`` is the bits of, whatever its shape; None where it is none."""
    value = values.get(var)
    while value is not None and not _rounds(value):
        if not _name(value).startswith("reshape"):
            return None
        value = values.get(operands(value)[0])
    return None if value is None else operands(value)[0]


def _moves(mod: tvm.IRModule, value: relax.Expr) -> bool:
    """Whether a kernel does nothing but move values."""
    if not _is_kernel(mod, value):
        return False
    if operator(value) == "relax.call_tir":
        return _name(value).startswith(moves.NAMES)
    blocks = mod[value.op].body.blocks
    return all(_name(each.value).startswith(moves.NAMES) for block in blocks for each in block.bindings)


def _name(value: relax.Expr) -> str:
    """The name of the function that ``value`` calls; empty where it is no such call."""
    called = value.args[0] if operator(value) == "relax.call_tir" else getattr(value, "op", None)
    return str(getattr(called, "name_hint", ""))


def _is_decoding(value: relax.Expr) -> bool:
    return operator(value) == "relax.call_tir" and str(value.args[0].name_hint).startswith(from_codes.__name__)


def _decoding(mod: tvm.IRModule, value: relax.Call) -> tuple[relax.Expr, ...] | None:
    """Scale and zero by which a kernel decodes its result, the last that it does; None where it does something else."""
    if operator(value) == "relax.call_tir":
        return tuple(value.args[1].fields[1:]) if _is_decoding(value) else None
    function = mod[value.op]
    last = _last(function)
    if not _is_decoding(last):
        return None
    given = dict(zip(function.params, value.args, strict=True))
    args = tuple(given.get(each, each) for each in last.args[1].fields[1:])
    return None if any(isinstance(each, relax.Var) for each in args) else args


def _last(function: relax.Function) -> relax.Expr:
    """What a fused function returns."""
    found = {each.var: each.value for block in function.body.blocks for each in block.bindings}
    result = function.body.body
    while isinstance(result, relax.Var) and result in found:
        result = found[result]
    return result


def _is_kernel(mod: tvm.IRModule, value: relax.Expr) -> bool:
    if operator(value) == "relax.call_tir":
        return True
    return isinstance(value, relax.Call) and isinstance(value.op, relax.GlobalVar)


def _rounds(value: relax.Expr) -> bool:
    return operator(value) == "relax.call_tir" and str(value.args[0].name_hint).startswith(to_bf16.__name__)


class _Narrowing:
    """Rebuilds ``main``, and the functions that read or make what is stored narrow."""

    def __init__(self, mod: tvm.IRModule, narrow: Mapping[relax.Var, Storage]) -> None:
        self._mod, self._narrow = mod, narrow
        self._builder = relax.BlockBuilder(mod)
        self._new: dict[relax.Var, relax.Expr] = {}
        self._functions: dict[tuple[Any, ...], relax.GlobalVar] = {}

    def run(self, bindings: Sequence[Binding]) -> tvm.IRModule:
        """The module."""
        main = self._mod["main"]
        calls = [(var, self._kernel(var, value)) for var, value in bindings]
        params = list(main.params)
        with self._builder.function("narrow_main", params):
            with self._builder.dataflow():
                for var, value in calls:
                    self._new[var] = self._builder.emit(_substituted(value, self._new), name_hint=str(var.name))
                result = self._builder.emit_output(_substituted(main.body.body, self._new))
            self._builder.emit_func_output(result)
        made = self._builder.get()
        new = made["narrow_main"]
        functions = {var: each for var, each in made.functions.items() if str(var.name_hint) != "narrow_main"}
        functions[made.get_global_var("main")] = relax.Function(
            new.params, new.body, main.ret_ty, main.is_pure, main.attrs
        )
        return tvm.IRModule(functions, attrs=made.attrs)

    def _kernel(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """The call of a kernel that reads and makes what is stored narrow; anything else as it is."""
        if not _is_kernel(self._mod, value):
            return value
        tir = operator(value) == "relax.call_tir"
        args = list(value.args[1].fields if tir else value.args)
        reads = [self._narrow.get(each) if isinstance(each, relax.Var) else None for each in args]
        stored = self._narrow.get(var)
        if (_rounds(value) and reads == [AS_BITS]) or (stored is not None and _is_decoding(value)):
            return args[0]
        if not any(reads) and stored is None:
            return value
        moved = stored is AS_BITS and reads == [AS_BITS] * len(reads) and _moves(self._mod, value)
        if moved and tir:
            return self._kept(value, var)
        key = value.args[0] if tir else value.op, *(each is not None for each in reads), stored is not None
        if key not in self._functions:
            self._functions[key] = self._moved(value, args) if moved else self._made(var, value, args, reads)
        return relax.Call(self._functions[key], [*args, *(arg for each in reads if each for arg in each.args)])

    def _kept(self, value: relax.Call, var: relax.Var) -> relax.Expr:
        """A kernel that only moves values, on bits: to widen and to round them would be work for nothing."""
        inputs = [relax.Var("x", relax.TensorType(each.ty.shape, BITS)) for each in value.args[1].fields]
        call = self._move(value, inputs, var)
        return relax.Call(call.op, [call.args[0], value.args[1], *call.args[2:]], call.attrs, call.ty_args)

    def _moved(self, value: relax.Call, args: Sequence[relax.Expr]) -> relax.GlobalVar:
        """A fused function that only moves values, on bits."""
        old, builder = self._mod[value.op], self._builder
        params = [relax.Var(f"x{at}", relax.TensorType(each.ty.shape, BITS)) for at, each in enumerate(args)]
        new: dict[relax.Var, relax.Expr] = dict(zip(old.params, params, strict=True))
        with builder.function(str(value.op.name_hint), params, attrs={"Primitive": 1}, private=True):
            with builder.dataflow():
                for block in old.body.blocks:
                    for each in block.bindings:
                        inputs = [new[field] for field in each.value.args[1].fields]
                        new[each.var] = builder.emit(self._move(each.value, inputs, each.var))
                done = builder.emit_output(new[old.body.body])
            made = builder.emit_func_output(done)
        return made

    def _move(self, value: relax.Call, inputs: Sequence[relax.Expr], var: relax.Var) -> relax.Call:
        """What makes ``var`` of bits in place of the call of a function that only moves values."""
        dims = [int(extent) for extent in var.ty.shape.values]
        return moves.again(self._builder, _name(value), self._mod[value.args[0]], inputs, dims)

    def _made(
        self, var: relax.Var, value: relax.Call, args: list[Any], reads: Sequence[Storage | None]
    ) -> relax.GlobalVar:
        """A function like that of a call, which widens what it ``reads`` narrow, and makes what is stored."""
        old = None if operator(value) == "relax.call_tir" else self._mod[value.op]
        name = str(value.args[0].name_hint if old is None else value.op.name_hint)
        name = name if name.startswith("fused_") else f"fused_{name}"
        name = re.sub(rf"_{from_codes.__name__}\d*$", "", name) if var in self._narrow else name
        given = [each.ty for each in args]
        params = [
            relax.Var(f"x{at}", kind if stored is None else relax.TensorType(kind.shape, stored.dtype))
            for at, (kind, stored) in enumerate(zip(given, reads, strict=True))
        ]
        besides = {
            at: [relax.Var(f"x{at}_{number}", arg.ty) for number, arg in enumerate(stored.args)]
            for at, stored in enumerate(reads)
            if stored is not None
        }
        builder = self._builder
        every = [*params, *(var for vars in besides.values() for var in vars)]
        with builder.function(name, every, attrs={"Primitive": 1}, private=True):
            with builder.dataflow():
                taken = [
                    param
                    if stored is None
                    else builder.emit(
                        builder.call_te(stored.widen, param, *besides[at], primfunc_name_hint=stored.widen.__name__)
                    )
                    for at, (param, stored) in enumerate(zip(params, reads, strict=True))
                ]
                result = self._body(value, old, taken)
                if self._narrow.get(var) is AS_BITS:
                    result = builder.call_te(to_bf16, result, primfunc_name_hint=to_bf16.__name__)
                elif var in self._narrow:
                    result = builder.lookup_binding(result).args[1].fields[0]
                done = builder.emit_output(result)
            made = builder.emit_func_output(done)
        return made

    def _body(self, value: relax.Call, old: relax.Function | None, taken: list[relax.Expr]) -> relax.Expr:
        builder = self._builder
        if old is None:
            return builder.emit(
                relax.Call(value.op, [value.args[0], relax.Tuple(taken), *value.args[2:]], value.attrs, value.ty_args)
            )
        new: dict[relax.Var, relax.Expr] = dict(zip(old.params, taken, strict=True))
        for block in old.body.blocks:
            for binding in block.bindings:
                new[binding.var] = builder.emit(_substituted(binding.value, new), name_hint=str(binding.var.name))
        return _substituted(old.body.body, new)


def _substituted(expr: relax.Expr, new: Mapping[relax.Var, relax.Expr]) -> relax.Expr:
    """An expression with other variables."""
    if isinstance(expr, relax.Var):
        return new.get(expr, expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([_substituted(each, new) for each in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(_substituted(expr.tuple_value, new), expr.index)
    if isinstance(expr, relax.Call):
        args = [_substituted(each, new) for each in expr.args]
        return relax.Call(expr.op, args, expr.attrs, expr.ty_args)
    return expr
