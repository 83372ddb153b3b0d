"""What people read: progress, results, help."""

from __future__ import annotations

import datetime as dt
import re

import click
import pytest
import typer
from cli_jobs import job

from tunesmith.cli import main, output, progress, summary
from tunesmith.cli.headline import WIDTH, headline
from tunesmith.cli.output import emit, table

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def commands(command, name="tunesmith"):
    yield name, command
    if hasattr(command, "list_commands"):
        context = click.Context(command)
        for child in command.list_commands(context):
            yield from commands(command.get_command(context, child), f"{name} {child}")


@pytest.mark.parametrize(("name", "command"), list(commands(typer.main.get_command(main.build()))))
def test_help_says_all_that_was_written(capsys, monkeypatch, name, command):
    monkeypatch.setenv("COLUMNS", "1000")  # rich and click wrap nothing then
    monkeypatch.setenv("TERMINAL_WIDTH", "1000")
    assert main.run_command_line([*name.split()[1:], "--help"]) == 0
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    for parameter in command.params:
        written = getattr(parameter, "help", None)
        if written and not getattr(parameter, "hidden", False):
            assert re.sub(r"\s+", " ", written) in shown


def test_a_model_has_no_latency_before_each_task_was_measured():
    assert progress.model_latency(job(tunable=0)) == ""
    assert progress.model_latency(job(measured=12)) == "tasks 12/23"
    assert progress.model_latency(job(measured=23, current=0.011)).split() == ["model", "11", "ms", "speed-up", "18.2x"]


def test_lines_come_when_something_changes_and_not_too_often(capsys):
    now = [0.0]
    display = progress._Lines(clock=lambda: now[0])

    def lines(at, *arguments, **values):
        now[0] = at
        display.job(job(*arguments, **values))
        return capsys.readouterr().err.splitlines()

    assert len(lines(0, state="queued")) == 1
    (first,) = lines(1, 16, 1)
    assert lines(5, 32, 2) == []  # too soon
    (second,) = lines(11, 48, 23, current=0.011)
    assert lines(30, 48, 23, current=0.011) == []  # nothing new
    (third,) = lines(31, 396, 23, current=0.0029)
    assert len({line.index("time") for line in (first, second, third)}) == 1
    assert len({line.index("trials") for line in (first, second, third)}) == 1
    (waiting,) = lines(32, 396, 23, current=0.0029, waiting_for={"device_class": "cuda-sm_90"})
    assert waiting.split() == ["waiting", "for", "a", "device", "of", "class", "cuda-sm_90"]
    assert len(lines(33, 400, 23, current=0.0029, state="succeeded")) == 1


SUMMARY = {
    "job": "j-1",
    "trials": 400,
    "seconds": 240.0,
    "waited_seconds": 0.0,
    "untuned_seconds": 0.2,
    "speedup": 40.0,
    "tuned_seconds": 0.005,
    "latency_source": "measured",
    "output_error": 2e-6,
    "output_tolerance": 0.01,
    "interval": [38.0, 42.1],
    "verdict": "faster",
    "schedules": 7,
    "estimate_seconds": 0.0048,
    "tasks": [
        {
            "tunable": True,
            "in_use": True,
            "trials": 400,
            "best_latency": 1e-3,
            "untuned_latency": 2e-3,
            "verified": {"error": 2.4e-7},
        },
        {"tunable": True, "in_use": True, "trials": 0, "best_latency": None, "untuned_latency": None, "verified": None},
        {
            "tunable": False,
            "in_use": True,
            "trials": 0,
            "best_latency": 1e-3,
            "untuned_latency": 1e-3,
            "verified": None,
        },
    ],
}


def test_a_job_that_measured_nothing_says_where_its_schedules_come_from():
    task = {"tunable": True, "in_use": True, "trials": 0, "best_latency": None, "untuned_latency": None}
    rest = {"verified": None, "answer": None}
    tasks = [
        task | rest | {"answer": {"source": "rescaled", "seconds": 1e-3}},
        task | rest | {"answer": {"source": "estimated", "seconds": 2e-3}},
        task | rest | {"best_latency": 1e-3, "known_latency": 1e-3},
        task | rest | {"in_use": False},
        task | rest,
    ]
    nothing = {"trials": 0, "untuned_seconds": None, "tuned_seconds": None, "speedup": None, "check": None}
    given = SUMMARY | nothing | {"tasks": tasks, "latency_source": "estimate", "output_error": None, "schedules": None}
    latency, _, schedules, *_ = summary.report(given, None, None, "http://h").splitlines()
    assert latency == "latency    not measured"
    assert schedules == (
        "schedules  1 measured by earlier jobs, 1 chosen by the static model, 1 rescaled from relatives, 1 default"
    )


def test_the_result_names_latencies_check_log_and_dashboard(tmp_path):
    text = summary.report(SUMMARY, tmp_path, tmp_path / "data", "http://127.0.0.1:1")
    latency, outputs, schedules, effort, log, database, repeated, dashboard = text.splitlines()
    assert latency == "latency    5 ms: 40x faster than untuned, 200 ms (38x to 42.1x)"
    assert "2.0e-06" in outputs
    assert "1 better than the default ones, each with the same outputs: error 2.4e-07" in schedules
    assert "400 trials on only 1 of 2 tasks in 4:00" in effort
    assert "waiting" not in effort
    rounding = SUMMARY | {"output_error": 0.03, "output_tolerance": 0.08}
    assert "agree with the untuned model: error 3.0e-02 of the signal, which jumps by 8.0e-02" in summary.report(
        rounding, None, None, "http://h"
    )
    assert "DIFFER" in summary.report(rounding | {"output_tolerance": 0.01}, None, None, "http://h")
    assert str(tmp_path / "best.jsonl") in log
    assert database.split() == ["database", str(tmp_path / "metaschedule")]
    assert repeated.split(maxsplit=1) == ["again", f"tunesmith up --data-dir {tmp_path / 'data'}"]
    assert ":1/" not in dashboard  # that stack has ended
    spaced = summary.report(SUMMARY, tmp_path, tmp_path / "my data", "http://h")
    assert f"tunesmith up --data-dir '{tmp_path / 'my data'}'" in spaced
    server = summary.report(SUMMARY | {"latency_source": "estimate", "output_error": None}, None, None, "http://h:8700")
    assert "estimated" in server
    assert "not compared" in server
    assert "tunesmith best j-1" in server
    assert "http://h:8700/jobs/j-1" in server


def test_schedules_that_were_not_checked_are_not_called_right():
    faster = {"tunable": True, "in_use": True, "trials": 9, "best_latency": 1e-3, "untuned_latency": 2e-3}
    tasks = [faster | {"verified": found} for found in ({"error": 1e-7}, None, {"error": 3e-7})]
    text = summary.report(SUMMARY | {"tasks": tasks}, None, None, "http://h")
    assert "3 better than the default ones, 2 of them with the same outputs: error 3.0e-07" in text
    text = summary.report(SUMMARY | {"tasks": tasks[1:2]}, None, None, "http://h")
    assert "schedules  1 better than the default ones\n" in text
    late = {**faster, "trials": 0, "best_latency": None, "answer": {"source": "estimated", "seconds": 1e-3}}
    text = summary.report(SUMMARY | {"tasks": [*tasks[1:2], late]}, None, None, "http://h")
    assert "schedules  1 better than the default ones; not measured: 1 chosen by the static model\n" in text


def test_a_run_that_others_had_prepared_says_so():
    task = {"tunable": True, "in_use": True, "trials": 9, "best_latency": 1e-3, "untuned_latency": 2e-3}
    tasks = [task | {"known_latency": found, "in_use": True, "verified": None} for found in (1e-3, None, 2e-3)]
    text = summary.report(SUMMARY | {"tasks": tasks}, None, None, "http://h")
    assert "400 trials on 3 tasks in 4:00; 2 of them began with what earlier jobs had found\n" in text


def test_a_direct_task_whose_alternative_was_tuned_is_not_lacking():
    task = {"tunable": True, "in_use": True, "best_latency": 1e-3, "untuned_latency": 2e-3, "verified": None}
    direct = task | {"trials": 0, "workload": "w1", "alternative_of": None}
    other = task | {"trials": 9, "workload": "w2", "alternative_of": "w1"}
    text = summary.report(SUMMARY | {"tasks": [direct, other]}, None, None, "http://h")
    assert "400 trials on 1 task in 4:00\n" in text
    text = summary.report(SUMMARY | {"tasks": [direct, other | {"alternative_of": "w3"}]}, None, None, "http://h")
    assert "400 trials on only 1 of 2 tasks in 4:00\n" in text


def test_a_run_that_mostly_waited_says_so(tmp_path):
    text = summary.report(SUMMARY | {"waited_seconds": 200.0}, None, None, "http://h")
    assert "3:20 of it waiting for a device or paused" in text
    over = job(state="succeeded", created_at=BEGAN, finished_at=BEGAN + dt.timedelta(seconds=90), trials=60)
    assert over.waited_seconds == 30
    assert job().waited_seconds == 0


def test_ids_in_lists_are_never_cut(capsys):
    name = "j-" + "0123456789abcdef" * 4
    emit([], table(("id", "name"), [(name, "x" * 300)]), as_json=False)
    assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ["5 ms: 40x faster than untuned, 200 ms (38x to 42.1x)"]),
        (
            {"speedup": 0.8, "interval": [0.7, 0.9], "verdict": "slower"},
            ["5 ms: 1.25x SLOWER than untuned, 200 ms (0.7x to 0.9x)"],
        ),
        (
            {"speedup": 1.1, "interval": [0.95, 1.2], "verdict": "no_difference"},
            ["5 ms: no difference from the untuned build (0.95x to 1.2x)"],
        ),
        (
            {"speedup": 1.34, "interval": [1e-9, 1e9], "verdict": "no_difference"},
            ["5 ms: no difference from the untuned build (too noisy to tell)"],
        ),
        (
            {"speedup": 1.0, "interval": None, "verdict": "no_difference", "schedules": 0},
            ["5 ms: no difference from the untuned build, no schedule changed"],
        ),
        (
            {"estimate_seconds": 0.002},
            [
                "5 ms: 40x faster than untuned, 200 ms (38x to 42.1x)",
                "2 ms from the tasks alone: the rest is calls and colder caches",
            ],
        ),
        (
            {"estimate_seconds": 0.008},
            [
                "5 ms: 40x faster than untuned, 200 ms (38x to 42.1x)",
                "8 ms from the tasks alone: they were timed apart, at other moments",
            ],
        ),
        (
            {"latency_source": "estimate"},
            ["5 ms: 40x faster than untuned, 200 ms", "estimated from its tasks, not measured end to end"],
        ),
    ],
)
def test_a_headline_says_against_what_and_how_sure_it_is(values, said):
    lines = headline(SUMMARY | values)
    assert [text for _, text in lines] == said
    assert lines[0][0] == "latency"
    assert all(len(text) <= WIDTH for _, text in lines)


def test_noise_as_large_as_the_figure_is_a_word():
    assert output.share(0.031) == "3.1%"
    assert output.share(10.0) == "too noisy to tell"


REFERENCE = {
    "runtime": "onnxruntime",
    "precision": "model",
    "seconds": 0.0066,
    "ratio": 0.7576,
    "verdict": "faster",
    "interval": [0.7354, 0.7801],
    "passed_in_seconds": None,
}
NARROW = {"runtime": "onnxruntime", "error": 4.2e-3, "rms": 3.1e-3, "tolerance": 0.01}


def test_outputs_of_a_narrow_precision_are_told_against_float32s():
    assert summary.float32_outputs([REFERENCE]) == []
    text = "0.01 of onnxruntime in float32: 4.2e-03 of the largest, rms 3.1e-03"
    assert summary.float32_outputs([REFERENCE, NARROW]) == [f"within {text}"]
    assert summary.float32_outputs([NARROW | {"rms": 0.5}])[0].startswith("BEYOND")
    noted = summary.report(SUMMARY | {"notes": ["maps in blocks do not fit"]}, None, None, "http://h")
    assert "note       maps in blocks do not fit" in noted


SLOWER = {"ratio": 1.212, "interval": [1.17, 1.25], "verdict": "slower"}
UNTUNED = "200 ms: the tuned build is 40x faster (38x to 42.1x)"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ["5 ms: 0.758 of onnxruntime's 6.6 ms (0.735 to 0.78)", UNTUNED]),
        (
            {"runtime": "openvino", "precision": "default"},
            [
                "5 ms: 0.758 of openvino's 6.6 ms (0.735 to 0.78)",
                "openvino at its default precision, which may be below the model's",
                UNTUNED,
            ],
        ),
        (
            {"ratio": 1.01, "interval": [0.97, 1.04], "verdict": "no_difference"},
            ["5 ms: no difference from onnxruntime's 6.6 ms (0.97 to 1.04)", UNTUNED],
        ),
        (
            SLOWER,
            [
                "5 ms: 1.21 of onnxruntime's 6.6 ms (1.17 to 1.25)",
                "still slower: 1 of 2 tasks run their default schedule",
                UNTUNED,
            ],
        ),
        (
            SLOWER | {"passed_in_seconds": 131.0},
            [
                "5 ms: 1.21 of onnxruntime's 6.6 ms (1.17 to 1.25)",
                "still slower: 1 of 2 tasks run their default schedule;",
                "about two more minutes are expected to pass it",
                UNTUNED,
            ],
        ),
    ],
)
def test_the_fastest_runtime_comes_first(values, said):
    lines = headline(SUMMARY | {"reference": REFERENCE | values})
    assert [text for _, text in lines] == said
    assert all(len(text) <= WIDTH for _, text in lines), lines


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "one more second is"),
        (45, "45 more seconds are"),
        (61, "61 more seconds are"),
        (100, "two more minutes are"),
        (5000, "83 more minutes are"),
        (9000, "two more hours are"),
    ],
)
def test_spans_of_time_are_words(seconds, said):
    reference = REFERENCE | SLOWER | {"passed_in_seconds": seconds}
    assert headline(SUMMARY | {"reference": reference})[2][1] == f"about {said} expected to pass it"


def test_a_missing_reference_has_its_reason():
    reason = "onnxruntime is not installed: pip install 'tunesmith[worker]'; " * 2
    lines = headline(SUMMARY | {"reference": None, "reference_missing": reason})
    assert [name for name, _ in lines] == ["latency", "reference", ""]
    assert all(len(text) <= WIDTH for _, text in lines)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.5, "0.5x"), (17.24, "17.2x"), (999.4, "999x"), (999.6, "1000x"), (12345.6, "12346x")],
)
def test_speed_ups_are_numbers_that_one_can_read(value, text):
    assert output.times(value) == text
