"""What a host's CPU can do, as the kernel tells it."""

from __future__ import annotations

import pytest

from tunesmith import host

FLAGS = frozenset({"avx2", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8"})


@pytest.mark.parametrize("given", [True, False], ids=["given", "withheld"])
def test_a_unit_that_the_system_withholds_is_no_feature(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: FLAGS)
    monkeypatch.setattr(host, "_gives_unit", lambda: given)
    unit = ("amx-bf16", "amx-int8", "amx-tile") if given else ()
    assert host.cpu_features() == (*unit, "avx512bf16", "avx512vnni")


def test_only_what_kernels_ask_for_is_a_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset({"fma", "avx2", "asimd"}))
    assert host.cpu_features() == ()
