"""Arguments of kernels on the device: made there where it can, and looked at there for what a run has changed.

Weights may have hundreds of megabytes. A device server of Tunesmith fills tensors itself and describes their contents
by a digest; any other server gets them over the wire, and gives them back the same way.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from tunesmith.types import TensorSpec
from workers.tvm_backend.arguments import as_meant
from workers.tvm_backend.run.device_functions import offered
from workers.tvm_backend.run.references import Changed, initial
from workers.tvm_backend.run.restoring import RESTORED, Restoring, run_restored


class DeviceArrays:
    """Places arguments in one session.

    Args:
        session, device: TVM's.
    """

    def __init__(self, session: Any, device: Any) -> None:
        self._draw, self._digest = (offered(session, f"tunesmith.rpc.{name}") for name in ("draw", "digest"))
        self._device, self._restored = device, offered(session, RESTORED)

    def place(self, args: tuple[TensorSpec, ...], seed: int) -> list[Any]:
        """New tensors with what the arguments hold before a run; see ``references.initial``."""
        return [self._place(args, index, seed) for index in range(len(args))]

    def restoring(self, args: tuple[TensorSpec, ...], seed: int, updated: tuple[int, ...]) -> Restoring | None:
        """How to time a kernel that updates some of the arguments; None where it updates none."""
        if not updated:
            return None
        originals = [self._place(args, index, seed) for index in updated]
        return Restoring(self._restored or run_restored, updated, originals)

    def _place(self, args: tuple[TensorSpec, ...], index: int, seed: int) -> Any:
        import tvm

        spec = args[index]
        if self._draw is None:
            return tvm.runtime.tensor(initial(args, index, seed), device=self._device)
        tensor = tvm.runtime.empty(spec.shape, spec.dtype, self._device)
        values = json.dumps(dataclasses.astuple(spec.values)) if spec.values is not None else ""
        self._draw(tensor, spec.dtype, values, index, len(args), seed)
        return tensor

    def digests(self, tensors: Sequence[Any]) -> list[str]:
        """Digests of the inputs, to compare with after a run; empty if the device gives none."""
        return [] if self._digest is None else [str(self._digest(tensor)) for tensor in tensors[:-1]]

    def changed(self, tensors: Sequence[Any], before: Sequence[str]) -> Changed:
        """The arguments, as far as they are not what they were.

        Args:
            tensors: from :meth:`place`, after a run.
            before: their :meth:`digests`.
        """
        after = self.digests(tensors) if before else []
        kept = [old == new for old, new in zip(before, after, strict=True)]
        kept += [False] * (len(tensors) - len(kept))
        return [None if same else tensor.numpy() for same, tensor in zip(kept, tensors, strict=True)]


def completed(runs: Sequence[Changed], args: tuple[TensorSpec, ...], seed: int) -> list[list[Any]]:
    """Arrays to compare, a list for each run: what none of them has changed is left out, what some have is made again.
    Bits of another type are its values.

    Raises:
        ValueError: runs of different numbers of arguments.
    """
    found: list[list[Any]] = [[] for _ in runs]
    for index, arrays in enumerate(zip(*runs, strict=True)):
        if all(array is None for array in arrays):
            continue
        unchanged = initial(args, index, seed) if any(array is None for array in arrays) else None
        for one, array in zip(found, arrays, strict=True):
            kept: Any = unchanged if array is None else array
            one.append(as_meant(kept, args[index]))
    return found
