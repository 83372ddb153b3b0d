"""What a worker logs becomes lines for operators: bounded, without secrets, and never in anybody's way."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from pydantic import SecretStr

from tunesmith.worker_logs import KEPT_LINES, LINES_AT_ONCE, TEXT_CHARACTERS, LogLine, lists, of_device, of_node, split
from workers import logs
from workers.log_lines import LineHandler, LogChannel, Scrubber

LINE = LogLine(at=1.5, level="info", logger="here", process=7, text="said")
PASSWORD = "pass/word"


@pytest.fixture
def channel() -> Iterator[LogChannel]:
    made = LogChannel()
    yield made
    made.close()


@pytest.fixture
def handler(channel: LogChannel) -> Iterator[LineHandler]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logs.configure()
    secrets = [
        SecretStr("redis://core:pass%2Fword@host/0"),
        SecretStr("tsm_key_of-enrolment"),
        "postgresql://u:other-one@h/d",
    ]
    made = LineHandler(channel, Scrubber(secrets))
    root.addHandler(made)
    yield made
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_says_what_happened_with_its_values_and_its_traceback(handler: LineHandler, channel: LogChannel) -> None:
    logging.getLogger().handlers[:] = [handler]  # the test's report holds what others take, and no lone surrogate
    structlog.get_logger("here").warning("done", row=7)
    try:
        raise ValueError("of a surrogate \ud800")
    except ValueError:
        logging.getLogger("there").exception("it failed at %s", "once")
    logging.getLogger("there").debug("too low")
    first, second = channel.take()
    assert (first.level, first.logger, first.text) == ("warning", "here", "done row=7")
    assert (second.level, second.logger) == ("error", "there")
    assert second.text.startswith("it failed at once\nTraceback (most recent call last):")
    assert second.text.endswith("ValueError: of a surrogate ?")


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach redis://core:pass%2Fword@host/0",
        f"the password {PASSWORD}",
        "postgresql://u:other-one@h/d is away, other-one",
        "GET http://h/v1/blobs/0?expires=9&signature=ab12",
        "Authorization: Bearer tsm_0_other-one",
        "key tsm_0a1b_x-Y_z was used",
    ],
)
def test_secrets_stay_away(handler: LineHandler, channel: LogChannel, text: str) -> None:
    logging.getLogger("here").info("%s and more", text)
    (line,) = channel.take()
    assert "***" in line.text
    assert line.text.endswith("and more")
    for secret in (PASSWORD, "pass%2F", "other-one", "ab12", "tsm_"):
        assert secret not in line.text


def test_a_long_line_keeps_its_ends(handler: LineHandler, channel: LogChannel) -> None:
    logging.getLogger("here").info("begun " + "x" * 5000 + " ended")
    (line,) = channel.take()
    assert len(line.text) == TEXT_CHARACTERS
    assert (line.text[:6], line.text[-6:]) == ("begun ", " ended")


def test_who_logs_waits_for_nobody_and_what_is_left_out_is_counted(channel: LogChannel) -> None:
    for _ in range(20_000):
        channel.put(LINE)
    found = [line for _ in range(200) for line in channel.take()]
    assert LINES_AT_ONCE < len(found) < 20_000
    channel.put(LINE)
    told, last = channel.take()
    assert told.level == "warning"
    assert told.text.startswith(f"{20_000 - len(found)} lines were left out")
    assert last == LINE


def test_what_could_not_be_passed_on_comes_first_the_next_time(channel: LogChannel) -> None:
    assert not channel.wait(0)
    channel.put(LINE)
    assert channel.wait(0)
    taken = channel.take()
    channel.put(LINE.model_copy(update={"text": "later"}))
    channel.put_back(taken)
    assert [line.text for line in channel.take()] == ["said", "later"]


def test_workers_of_a_kind_and_their_next_lives_have_one_log() -> None:
    assert of_node("search-417@host") == of_node("search-9@host") == of_node("search@host") == "core.search@host"
    assert of_node("host-12-ab34") is None
    assert of_device("core.search@host") != of_node("search@host")


def test_warnings_have_a_list_of_their_own() -> None:
    told, warned = lists("device.d")
    levels = ("debug", "info", "warning", "error", "critical")
    found = split("device.d", [LINE.model_copy(update={"level": level}) for level in levels])
    assert [line.level for line in found[told]] == ["debug", "info"]
    assert [line.level for line in found[warned]] == ["warning", "error", "critical"]
    assert list(lists("x").values()) == list(KEPT_LINES.values())
