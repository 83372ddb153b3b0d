"""What the measure worker, and every benchmark that builds candidates, says of a build whose process went wrong."""

from __future__ import annotations

import signal
from concurrent.futures import Future

import pytest

from tunesmith.types import FailureKind
from workers.measure.builds import outcome_of
from workers.protocol import Built
from workers.sandbox.pool import ChildCrashed, ChildError, ChildRaised, ChildTimeout, End
from workers.sandbox.process import ChildGarbled

pytestmark = pytest.mark.parallel


def ended(by: signal.Signals) -> ChildCrashed:
    return ChildCrashed(End(-by, peak=0, limit=0))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ChildTimeout("no answer"), FailureKind.BUILD_TIMEOUT),
        (ended(signal.SIGALRM), FailureKind.BUILD_TIMEOUT),
        (ended(signal.SIGSEGV), FailureKind.CRASH),
        (ended(signal.SIGKILL), FailureKind.CRASH),
        (ChildRaised("ValueError", "no such target", ""), FailureKind.BUILD_ERROR),
        (ChildGarbled("no JSON"), FailureKind.BUILD_ERROR),
    ],
    ids=["no answer", "alarm", "crash", "killed", "raised", "garbled"],
)
def test_a_build_that_went_wrong_is_an_outcome(error: ChildError, kind: FailureKind) -> None:
    future: Future[Built] = Future()
    future.set_exception(error)
    found = outcome_of(future)
    assert (found.path, found.failure) == (None, kind)
    assert found.message


def test_a_build_that_went_well_is_its_own_outcome() -> None:
    future: Future[Built] = Future()
    future.set_result(Built(function="main"))
    assert outcome_of(future) is future.result()
