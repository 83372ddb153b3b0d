"""Arguments of kernels on the device: made there where it can, and looked at there for what a run has changed.

Weights may have hundreds of megabytes. A device server of Tunesmith fills tensors itself and describes their contents
by a digest; any other server gets them over the wire, and gives them back the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tunesmith.types import TensorSpec
from workers.tvm_backend.run.device_functions import offered
from workers.tvm_backend.run.references import Changed, given, initial


class DeviceArrays:
    """Places arguments in one session.

    Args:
        session, device: TVM's.
    """

    def __init__(self, session: Any, device: Any) -> None:
        self._fill, self._digest = (offered(session, f"tunesmith.rpc.{name}") for name in ("fill", "digest"))
        self._device = device

    def place(self, args: tuple[TensorSpec, ...], seed: int) -> list[Any]:
        """New tensors with what ``given(args, seed)`` holds."""
        import tvm

        if self._fill is None:
            return [tvm.runtime.tensor(array, device=self._device) for array in given(args, seed)]
        tensors = [tvm.runtime.empty(spec.shape, spec.dtype, self._device) for spec in args]
        for index, (tensor, spec) in enumerate(zip(tensors, args, strict=True)):
            self._fill(tensor, spec.dtype, index, len(args), seed)
        return tensors

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

    Raises:
        ValueError: runs of different numbers of arguments.
    """
    found: list[list[Any]] = [[] for _ in runs]
    for index, arrays in enumerate(zip(*runs, strict=True)):
        if all(array is None for array in arrays):
            continue
        unchanged = initial(args, index, seed) if any(array is None for array in arrays) else None
        for one, array in zip(found, arrays, strict=True):
            one.append(unchanged if array is None else array)
    return found
