from __future__ import annotations

import numpy as np
import pytest

from tunesmith.errors import MeasurementFailed
from workers.peers import comparison
from workers.peers.comparison import CHANGE, Peer, check_outputs, movement, take_turns


@pytest.fixture
def peers(tmp_path):
    """Makes peers of what their files say; the inputs of the two sets are 10 and 20."""
    for which in range(2):
        np.savez(tmp_path / f"inputs{which}.npz", x=np.full(1, 10.0 * (which + 1), "float32"))

    def make(**files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return [Peer(name, "fake_peer", tmp_path / name) for name in files]

    return make


def test_peers_run_there_and_back_and_their_outputs_are_compared(peers, tmp_path):
    results = take_turns(peers(a="add 0", b="add 1"), tmp_path, 0.01, 1, passes=3)
    check_outputs(results, tmp_path)
    assert (tmp_path / "log").read_text().splitlines() == ["a 10", "b 10", "b 20", "a 20", "a 10", "b 10"]
    assert [len(result.medians) for result in results] == [3, 3]
    assert results[0].error is None  # the reference
    assert results[1].error == pytest.approx(0.1)  # 1 beside the 10 that other inputs make


def test_the_reference_is_whom_one_trusts(peers, tmp_path):
    results = take_turns(peers(a="add 0", b="add 1"), tmp_path, 0.01, 1)
    check_outputs(results, tmp_path, trusted=("b",))
    assert [result.error for result in results] == [pytest.approx(0.1), None]


def test_a_slow_peer_sits_the_later_passes_out(peers, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "SLOW_SECONDS", 0.05)
    results = take_turns(peers(slow="sleep 0.1", quick="sleep 0.0"), tmp_path, 0.01, 1, passes=3)
    assert [len(result.medians) for result in results] == [2, 3]


def test_a_peer_that_fails_says_why_and_is_not_run_again(peers, tmp_path):
    results = take_turns(peers(broken="fail no such thing", good="add 0"), tmp_path, 0.01, 1)
    assert (results[0].failure, results[0].latency) == ("no such thing", None)
    assert results[1].latency > 0
    assert (tmp_path / "log").read_text().splitlines() == ["broken 10", "good 10", "good 20"]


def test_outputs_of_a_runtime_move_as_far_as_rounded_sums_may_fall(peers, tmp_path):
    given = peers(a="add 1", b="ceil 0", c="fail no")
    take_turns(given[:2], tmp_path, 0.01, 1)
    assert 0 < movement(given[0], tmp_path, 1) <= CHANGE
    assert movement(given[1], tmp_path, 1) == pytest.approx(0.1), "ten and a little is eleven"
    for which in range(2):
        (tmp_path / f"c-{which}.npz").write_bytes((tmp_path / f"a-{which}.npz").read_bytes())
    with pytest.raises(MeasurementFailed, match="c: no"):
        movement(given[2], tmp_path, 1)


def test_a_nan_that_does_not_come_out_is_noted(peers, tmp_path):
    np.savez(tmp_path / comparison.SPECIAL, x=np.full(1, np.nan, "float32"))
    results = take_turns(peers(a="add 0", b="lose 0", c="add 0"), tmp_path, 0.01, 1)
    check_outputs(results, tmp_path)
    assert [result.note for result in results] == ["", "a NaN in an input does not come out, as it does of a", ""]
    assert [result.error for result in results] == [None, 0.0, 0.0]


def test_a_peer_that_divides_by_zero_says_so(peers, tmp_path):
    (result,) = take_turns(peers(broken="trap 8"), tmp_path, 0.01, 1)
    assert result.failure == "its process was ended by SIGFPE: it divided a whole number by zero"
