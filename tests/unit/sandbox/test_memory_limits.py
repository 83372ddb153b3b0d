from __future__ import annotations

from collections.abc import Iterator

import pytest
from process_probe import CHILD_ENV

from workers.sandbox import limits
from workers.sandbox.pool import Actor, ChildCrashed, ChildRaised, Pool

LONG = 60.0
SIZE = 512 * limits.MIB


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(Actor("sandbox_actors:Hungry", env=CHILD_ENV, memory=SIZE), 1) as made:
        yield made


def test_python_gets_a_memory_error(pool: Pool) -> None:
    with pytest.raises(ChildRaised, match="MemoryError") as caught:
        pool.call("python", timeout=LONG)
    assert "out of memory" in limits.about_memory(str(caught.value))


def test_native_code_that_does_not_ask_dies_and_the_reason_is_told(pool: Pool) -> None:
    with pytest.raises(ChildCrashed, match=r"SIGSEGV, out of memory: it used \d+ MiB and may have 512 MiB"):
        pool.call("native", timeout=LONG)
    assert pool.call("core_size", timeout=LONG) == 0


def test_a_process_has_room_beyond_what_it_uses_already() -> None:
    with Pool(Actor("sandbox_actors:Worker", env=CHILD_ENV, memory=1), 1) as tiny:
        assert tiny.call("double", 2, timeout=LONG) == 4


def test_without_a_limit_there_is_none() -> None:
    with Pool(Actor("sandbox_actors:Hungry", env=CHILD_ENV), 1) as free:
        assert free.call("python", timeout=LONG) == 1 << 30


def test_allowance_is_a_share_of_what_the_host_has() -> None:
    total = limits.host_memory()
    assert 64 * limits.MIB < total < 1 << 50
    assert limits.allowance(0.5) == total // 2
    assert limits.allowance(0.0) == 0


@pytest.mark.parametrize(
    ("code", "peak", "text"),
    [
        (-11, 100, "was ended by SIGSEGV"),
        (-6, 900, "was ended by SIGABRT, out of memory: it used 900 MiB and may have 1000 MiB"),
        (-60, 0, "was ended by signal 60"),
        (-8, 0, "was ended by SIGFPE: it divided a whole number by zero"),
        (3, 0, "ended with exit code 3"),
    ],
)
def test_exit_reason(code: int, peak: int, text: str) -> None:
    assert limits.exit_reason(code, peak * limits.MIB, 1000 * limits.MIB) == text


@pytest.mark.parametrize(
    ("code", "said", "text"),
    [
        (
            -6,
            "terminate called\n  what():  bad_alloc\n",
            "was ended by SIGABRT, out of memory: terminate called: what():  bad_alloc",
        ),
        (-6, "line 3: Assertion failed\n\n", "was ended by SIGABRT, line 3: Assertion failed"),
        (0, "a warning", "ended with exit code 0"),
        (-11, '!!!!!!! Segfault encountered !!!!!!!\n  File "x.cc", line 0, in main\n', "was ended by SIGSEGV"),
    ],
)
def test_exit_reason_has_the_last_words(code: int, said: str, text: str) -> None:
    assert limits.exit_reason(code, 0, 0, said) == text


def test_exit_reason_without_a_limit_knows_of_no_want() -> None:
    assert limits.exit_reason(-11, 1 << 40, 0) == "was ended by SIGSEGV"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("RuntimeError: std::bad_alloc", "out of memory: RuntimeError: std::bad_alloc"),
        ("CUDA: out of memory", "CUDA: out of memory"),
        ("TypeError: no", "TypeError: no"),
    ],
)
def test_messages_about_memory_say_so(message: str, expected: str) -> None:
    assert limits.about_memory(message) == expected
