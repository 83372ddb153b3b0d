"""Programs that are the same once they are lowered: a search proposes many, and their code is generated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from cachetools import LRUCache
from tvm.ir.instrument import pass_instrument

LOWERING = "_pipeline"
"""The pass that all of a target's lowering passes are parts of; what follows it depends on its result alone."""
KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class Code:
    """The library that a lowered program became, and the hash of its object code."""

    program: Any
    library: bytes
    code_hash: str


class CodeCache:
    """The latest libraries by the structural hash of their lowered programs; at most ``limit`` bytes."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._known: LRUCache[int, Code] = LRUCache(limit, getsizeof=lambda code: len(code.library))

    def get(self, program: Any) -> Code | None:
        """The code of an equal program."""
        code = self._known.get(_hash(program))
        same = code is not None and tvm_ffi.structural_equal(code.program, program, map_free_vars=True)
        return code if same else None

    def put(self, code: Code) -> None:
        """Remember a build, unless it alone exceeds the limit."""
        if len(code.library) <= self._known.maxsize:
            self._known[_hash(code.program)] = code


def _hash(program: Any) -> int:
    """Buffers' variables are free in a lowered function: which ones they are makes no difference."""
    return int(tvm_ffi.structural_hash(program, map_free_vars=True))


class AlreadyBuiltError(Exception):
    """An equal program was built before."""


@pass_instrument
class ReuseCheck:
    """Ends a compilation once the program is lowered, when its code is there already.

    Args:
        code_cache: what was built.

    Attributes:
        lowered: the lowered program; None before, and where TVM names its passes otherwise.
        found: the code of an equal program. The exception reaches the caller as one of TVM's: this tells why.
    """

    def __init__(self, code_cache: CodeCache) -> None:
        self._cache = code_cache
        self.lowered: Any = None
        self.found: Code | None = None

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """TVM's hook. Raises AlreadyBuiltError."""
        if str(info.name) == LOWERING and self.lowered is None:
            self.lowered = mod
            self.found = self._cache.get(mod)
            if self.found is not None:
                raise AlreadyBuiltError
