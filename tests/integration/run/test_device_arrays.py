from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tunesmith.types import TensorSpec, Values
from workers.tvm_backend.arguments import BLOCK
from workers.tvm_backend.run.device_arrays import DeviceArrays, completed
from workers.tvm_backend.run.device_functions import digest, draw
from workers.tvm_backend.run.references import SECOND_SEED, difference, initial
from workers.tvm_backend.warm import warm

pytestmark = pytest.mark.parallel

ARGS = (
    TensorSpec("float32", (3, BLOCK // 2), values=Values(0.5, 2.0, special=True)),
    TensorSpec("bfloat16", (4, 5)),
    TensorSpec("int64", (7,), values=Values(-100, 99)),
    TensorSpec("bool", (3, 3)),
    TensorSpec("float32", (2, 6)),
)
OURS = {"tunesmith.rpc.draw": draw, "tunesmith.rpc.digest": digest}


class Session:
    """Knows the functions of some device."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = functions

    def get_function(self, name: str) -> Callable[..., Any]:
        return self._functions[name]


@pytest.fixture(params=["ours", "another"])
def arrays(request: pytest.FixtureRequest) -> DeviceArrays:
    warm("c")
    import tvm

    return DeviceArrays(Session(OURS if request.param == "ours" else {}), tvm.cpu(0))


def test_devices_of_ours_and_others_hold_the_same(arrays: DeviceArrays) -> None:
    for index, tensor in enumerate(arrays.place(ARGS, 3)):
        array = initial(ARGS, index, 3)
        assert tensor.numpy().dtype == array.dtype
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_values_are_where_their_arguments_may_have_them(arrays: DeviceArrays) -> None:
    reals, _, whole, *_ = (tensor.numpy() for tensor in arrays.place(ARGS, 0))
    assert reals.min() >= 0.5
    assert 1.9 < reals.max() <= 2.0
    assert -100 <= whole.min() < 0 < whole.max() <= 99
    second, plain, *_ = (tensor.numpy() for tensor in arrays.place(ARGS, SECOND_SEED))
    assert (np.isnan(second).sum(), np.isinf(second).sum()) == (1, 1)
    assert np.isfinite(plain.astype("float32")).all()


def test_what_a_run_changed_is_seen(arrays: DeviceArrays) -> None:
    tensors = arrays.place(ARGS, 0)
    before = arrays.digests(tensors)
    untouched = arrays.changed(tensors, before)
    assert untouched[-1] is not None  # an output is looked at, whatever it holds
    spoilt = tensors[2].numpy()
    spoilt[4] += 1
    tensors[2].copyfrom(spoilt)
    changed = arrays.changed(tensors, before)
    assert changed[2] is not None
    assert difference(*completed([untouched, untouched], ARGS, 0)) == 0.0
    assert difference(*completed([changed, untouched], ARGS, 0)) > 0.0
    assert difference(*completed([untouched, changed], ARGS, 0)) > 0.0


def test_inputs_stay_where_they_are_when_they_are_what_they_were() -> None:
    warm("c")
    import tvm

    arrays = DeviceArrays(Session(OURS), tvm.cpu(0))
    tensors = arrays.place(ARGS, 0)
    assert [array is None for array in arrays.changed(tensors, arrays.digests(tensors))] == [True] * 4 + [False]
