"""Candidates that go wrong on purpose: hazardous libraries, hazardous builds, and a builder that plants them."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from tunesmith.types import Decision, FailureKind, TensorSpec
from workers.protocol import BuildRequest, Built
from workers.tvm_backend.build import linking
from workers.tvm_backend.build.builder import Builder

CHUNK = 16 << 20
ON_THE_DEVICE = {
    "endless": (FailureKind.RUN_TIMEOUT, "its time was over"),
    "null": (FailureKind.CRASH, "ended by SIGSEGV"),
    "abort": (FailureKind.CRASH, "ended by SIGABRT"),
    "glutton": (FailureKind.CRASH, "out of memory"),
    "oversized": (FailureKind.CRASH, "out of memory"),
}
"""Kernels: a loop without end, a write to address 0, a call of ``abort``, memory taken and touched without end, a
workspace larger than any host; what each shall be classified as, and words of the message."""
IN_THE_BUILD = {
    "build_endless": (FailureKind.BUILD_TIMEOUT, "too long"),
    "build_null": (FailureKind.CRASH, "while building, the process was ended by SIGSEGV"),
    "build_glutton": (FailureKind.CRASH, "out of memory"),
    "build_memory": (FailureKind.BUILD_ERROR, "out of memory"),
}
"""The same for compilers: one that never ends, a crash, one that takes memory without end, one that notices."""
WRONG = {"wrong": (FailureKind.WRONG_RESULT, "")}
"""The candidate's own code, but for its constants: what sums up from 0 sums up from 8."""
ALL = {**ON_THE_DEVICE, **IN_THE_BUILD, **WRONG}
MURDER = "murder"
"""A kernel that leaves ``DEATHBED`` and waits: the test kills the device's server then, which the box forbids it."""
DEATHBED = "deathbed"


class PlantedBuilder(Builder):
    """Builds what it is asked for, and hazards in the place of some of it.

    Args:
        plan: hazards by the candidate's decisions; the default schedule is always sound.
        one_in: beside the plan, about one in so many candidates gets a hazard, chosen by its decisions; 0: none.
    """

    def __init__(self, lease: str, kind: str, plan: Mapping[tuple[Decision, ...], str], one_in: int = 0) -> None:
        super().__init__(lease, kind)
        self._plan, self._one_in = plan, one_in

    def build(self, request: BuildRequest) -> Built:
        """See ``Builder``."""
        hazard = None if request.body is None else self._hazard(request.decisions)
        if hazard in IN_THE_BUILD or hazard in WRONG:
            with compiling(COMPILERS[str(hazard)]):
                return super().build(request)
        built = super().build(request)
        if hazard is None or built.path is None:
            return built
        library(hazard, built.args, built.path)
        return replace(built, code_hash=hashlib.sha256(f"{hazard} {built.code_hash}".encode()).hexdigest())

    def _hazard(self, decisions: tuple[Decision, ...]) -> str | None:
        return self._plan.get(decisions) or drawn(decisions, self._one_in)


def drawn(decisions: tuple[Decision, ...], one_in: int) -> str | None:
    """The hazard of about one candidate in ``one_in``."""
    if not one_in:
        return None
    number, kinds = int(hashlib.sha256(repr(decisions).encode()).hexdigest(), 16), list(ALL)
    return kinds[number // one_in % len(kinds)] if number % one_in == 0 else None


@contextlib.contextmanager
def compiling(hazard: Callable[[Any], Any]) -> Iterator[None]:
    """Have TVM compile what ``hazard`` makes of a module."""
    import tvm

    genuine = tvm.compile

    def compile_(mod: Any, *arguments: Any, **options: Any) -> Any:
        return genuine(hazard(mod), *arguments, **options)

    with mock.patch.object(tvm, "compile", compile_):
        yield


def _loop(mod: Any) -> Any:
    libc = ctypes.CDLL(None)
    while True:  # leaves the processor to the tests beside it
        libc.pause()


def _null(mod: Any) -> Any:
    return ctypes.string_at(0)


def _take(mod: Any) -> Any:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    while True:
        ctypes.memset(libc.malloc(CHUNK), 1, CHUNK)


def _notice(mod: Any) -> Any:
    return bytearray(1 << 50)


def _change_constants(mod: Any) -> Any:
    import tvm

    content = json.loads(tvm.ir.save_json(mod))
    for node in content["nodes"]:
        if node["type"] == "ir.FloatImm":
            node["data"]["value"] += 8.0
    return tvm.ir.load_json(json.dumps(content))


COMPILERS: Mapping[str, Callable[[Any], Any]] = {
    "build_endless": _loop,
    "build_null": _null,
    "build_glutton": _take,
    "build_memory": _notice,
    "wrong": _change_constants,
}


def library(kind: str, args: Sequence[TensorSpec], out: Path) -> None:
    """Link a hazardous kernel ``main`` that takes ``args``, the output last."""
    import tvm
    from tvm import te

    inputs = [te.placeholder(spec.shape, dtype=spec.dtype, name=f"in{i}") for i, spec in enumerate(args[:-1])]
    result = (
        _oversized(args[-1])
        if kind == "oversized"
        else te.extern(args[-1].shape, inputs, lambda ins, outs: _body(kind), name="out", dtype=args[-1].dtype)
    )
    object_file = out.with_suffix(".hazard.o")
    mod = tvm.IRModule({"main": te.create_prim_func([*inputs, result]).with_attr("global_symbol", "main")})
    tvm.compile(mod, target={"kind": "llvm"}).mod.write_to_file(str(object_file))
    linking.link([object_file], out)
    object_file.unlink()


def _body(kind: str) -> Any:
    from tvm import tirx

    def call(name: str, *arguments: Any, returns: str = "int32") -> Any:
        return tirx.call_extern(returns, name, *arguments)

    def number(value: int) -> Any:
        return tirx.const(value, "int64")

    forever = tirx.const(True, "bool")
    if kind == "endless":
        return tirx.While(forever, tirx.Evaluate(call("pause")))  # leaves the processor to the tests beside it
    if kind == "null":
        return tirx.Evaluate(call("memset", number(0), 1, number(8)))
    if kind == "glutton":
        chunk = call("malloc", number(CHUNK), returns="int64")
        return tirx.While(forever, tirx.Evaluate(call("memset", chunk, 1, number(CHUNK))))
    if kind == MURDER:
        return tirx.SeqStmt([tirx.Evaluate(call("creat", DEATHBED, 0o600)), tirx.Evaluate(call("pause"))])
    return tirx.Evaluate(call(kind))


def _oversized(spec: TensorSpec) -> Any:
    from tvm import te, tirx

    side = tirx.const(1 << 22, "int64")
    between = te.compute((side, side), lambda i, j: (i + j).astype(spec.dtype), name="between")
    return te.compute(spec.shape, lambda *at: between[at[0], at[0]] + between[at[0], at[0] + 1], name="out")
