"""The pass: convolutions and products with constant weights on blocked and packed tensors."""

from __future__ import annotations

import tvm
from tvm import relax

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.passes.layout import blocks, coded, convolution, grids, norms, operators, reshapes, slices
from workers.tvm_backend.passes.layout.blocks import Blocks
from workers.tvm_backend.passes.layout.expressions import Binding, operator
from workers.tvm_backend.passes.layout.outlook import Outlook, Role
from workers.tvm_backend.passes.layout.packing import Packed
from workers.tvm_backend.passes.layout.simplify import simplified
from workers.tvm_backend.passes.layout.values import Algorithms, Values

PLAIN_FORMS = (
    coded.result,
    convolution.pack_matmul,
    convolution.group_product,
    convolution.depthwise_rows,
    operators.whole_resize,
    norms.group_rows,
)
"""Better forms of operators whose results stay plain."""


def block(
    mod: tvm.IRModule,
    algorithms: Algorithms = Algorithms(),
    packed: Packed | None = None,
    cpu: CpuModel = CpuModel(),
) -> tvm.IRModule:
    """Rewrite ``main`` so that feature maps stay in blocks of channels from one convolution to the next.

    ``main`` takes and returns what it did. A value is converted where an operator needs the other layout, once in each
    direction. A ``main`` with control flow, and a module with several Relax functions, are returned as they are;
    operators of dynamic shape are left alone.

    Args:
        mod: imported and folded, its operators not yet legalised.
        algorithms: how convolutions and products are computed; nothing else changes by that.
        packed: constants that another layout of the model has packed already.
        cpu: CPU that the layouts are for.
    """
    bindings = _straight(mod)
    if bindings is None:
        return mod
    main = mod["main"]
    rest = {var: function for var, function in mod.functions.items() if not isinstance(function, relax.Function)}
    builder = relax.BlockBuilder(tvm.IRModule(rest, attrs=mod.attrs))
    with builder.function("main", list(main.params)):
        with builder.dataflow():
            kept = blocks.joinable(bindings, algorithms.widest)
            outlook = Outlook(bindings, main.body.body, lambda value: _role(value, cpu, kept))
            found = grids.find(bindings) if algorithms.int8 else grids.NO_GRIDS
            values = Values(builder, main.params, outlook, algorithms, packed or Packed(), cpu, found, kept)
            _rebuild(values, bindings)
            result = builder.emit_output(values.plain(main.body.body))
        builder.emit_func_output(result)
    made = builder.get()
    new = made["main"]
    made["main"] = relax.Function(new.params, new.body, main.ret_ty, main.is_pure, main.attrs)
    return made


def _rebuild(values: Values, bindings: list[Binding]) -> None:
    for var, value in bindings:
        if isinstance(value, relax.Var):
            values.bind_same(var, value)
        elif isinstance(value, relax.Tuple):
            values.bind_tuple(var, value)
        elif (codes := coded.carried(values, var, value)) is not None:
            values.bind_codes(var, codes)
        else:
            other = _laid_out(values, var, value)
            values.bind(var, _plain(values, value) if other is None else other)


def _laid_out(values: Values, var: relax.Var, value: relax.Expr) -> relax.Expr | None:
    """``value`` in another layout than ``var`` has; None when it stays plain."""
    rule = operators.RULES.get(operator(value))
    if slices.gathers(value):
        return slices.gather(values, value)
    blocked = convolution.block(values, var, value) if rule is None else rule(values, var, value)
    return reshapes.keep(values, var, value) if blocked is None else blocked


def _plain(values: Values, value: relax.Expr) -> relax.Expr:
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(values.plain(value.tuple_value), value.index)
    if not isinstance(value, relax.Call):
        return value
    for form in PLAIN_FORMS:
        made = form(values, value)
        if made is not None:
            return made
    return relax.Call(value.op, [values.plain(arg) for arg in value.args], value.attrs, value.ty_args)


def _role(value: relax.Expr, cpu: CpuModel, kept: Blocks) -> Role:
    found = convolution.match(value, cpu, kept)
    if found is not None and not found.takes_blocks:
        return Role.EITHER
    same = found is not None or not operator(value) or operator(value) in operators.RULES or slices.gathers(value)
    return Role.SAME if same else Role.PLAIN


def _straight(mod: tvm.IRModule) -> list[Binding] | None:
    """The bindings of ``main`` that it needs, in order; None where it is no straight-line dataflow."""
    main = mod["main"]
    if sum(isinstance(function, relax.Function) for function in mod.functions.values()) != 1:
        return None
    if not all(isinstance(each, relax.DataflowBlock) for each in main.body.blocks):
        return None
    bindings = [binding for each in main.body.blocks for binding in each.bindings]
    if not all(isinstance(each, relax.VarBinding) for each in bindings):
        return None
    return simplified([(each.var, each.value) for each in bindings], main.body.body)
