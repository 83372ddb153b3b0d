from __future__ import annotations

import datetime as dt
import json
import math

import pytest
from tuner_outcomes import GEMM, TARGET, ask

from benchmarks.harness.jobs import SAME_TASK
from benchmarks.harness.limits import Level, Peak
from benchmarks.harness.means import geometric_mean
from benchmarks.tuners import command, figures, plan, service
from benchmarks.tuners.outcome import Final, Trial, TunerRun
from tunesmith.cli import main
from tunesmith.errors import InvalidInput, InvalidOperator, MeasurementFailed

SOFTMAX = "softmax:4x8x8:float32"


def outcome(tuner=plan.TUNESMITH, count=10, seconds=60.0, operator=GEMM, seed=0, **values):
    trials = tuple(Trial(seconds * (i + 1) / count, 1e-3 / (i + 1), 0.5) for i in range(count))
    given = {"startup": 6.0, "elapsed": seconds, "trials": trials, "workload": "7", "parts": {"build": seconds / 2}}
    return ask(tuner, operator=operator, seed=seed).outcome(**{**given, **values})


# Figures of one run


def test_only_new_programs_that_ran_in_time_count():
    trials = (Trial(1, 1e-3, 0.5), Trial(2, None), Trial(3, 1e-3, 0.25, duplicate=True), Trial(11, 5e-4, 9.0))
    found = outcome(trials=trials, elapsed=10.0, startup=5.0)
    assert (found.counted, found.failed, found.duplicates) == (1, 1, 1)
    assert found.rate() == pytest.approx(6.0)
    assert found.rate(with_startup=True) == pytest.approx(4.0)
    assert found.busy == pytest.approx(0.075)
    assert found.best == 5e-4
    assert list(found.steps()) == [(1, 0.5, 1, 1e-3), (11, 9.75, 4, 5e-4)]


def test_a_run_without_anything_has_no_figures():
    found = ask().outcome(failure="did not start")
    assert (found.rate(), found.busy, found.best, list(found.steps())) == (None, None, None, [])


def test_an_outcome_survives_json():
    found = outcome(trials=(Trial(1.5, None), Trial(2.5, 1e-3, 0.1, True)))
    assert TunerRun.from_json(json.loads(json.dumps(found.to_json()))) == found


# MetaSchedule's events


# Tunesmith's API

BEGIN = 1_700_000_000.0


def moment(seconds):
    return dt.datetime.fromtimestamp(BEGIN + seconds, dt.timezone.utc)


def record(at, latency, sketch="s", duplicate=False):
    return {
        "sketch": sketch,
        "latency": latency,
        "created_at": moment(at).isoformat().replace("+00:00", "Z"),
        "device_seconds": 0.5,
        "build_seconds": 1.0,
        "run_seconds": 2.0,
        "duplicate": duplicate,
    }


def service_outcome(over, records, best=None):
    rounds = [{"metrics": {"propose_seconds": 0.25}}, {"metrics": None}]
    return service.outcome_of(ask(plan.TUNESMITH), 5.0, BEGIN, BEGIN + over, records, rounds, best or {})


def test_records_become_trials_and_the_default_schedule_is_none():
    records = [record(1, 9.0, sketch=None), record(2, 1e-3), record(3, None), record(4, 1e-3, duplicate=True)]
    found = service_outcome(75.0, [*records, record(61, 1e-4)], {"trace": [[], []], "workload": {"hash": "42"}})
    assert (found.elapsed, found.counted, found.failed, found.duplicates) == (60.0, 1, 1, 1)
    assert [trial.at for trial in found.trials] == pytest.approx([2, 3, 4, 61])
    assert found.parts == {"build": 3.0, "run": 6.0, "kernel": 1.5, "search": 0.25}
    assert (found.trace, found.workload) == ("[[], []]", "42")


def test_a_space_that_is_used_up_ends_the_time_and_idling_does_not():
    assert service_outcome(12.0, [record(2, 1e-3)]).elapsed == pytest.approx(12.0)
    assert service_outcome(60.5, [record(2, 1e-3)]).elapsed == 60.0
    assert service_outcome(60.5, []).trace is None


def test_jobs_are_of_the_program_that_metaschedule_gets():
    submitted = []

    class Client:
        def submit(self, **values):
            submitted.append(values)
            raise MeasurementFailed("enough")

    for tuner in (plan.TUNESMITH, plan.RANDOM):
        with pytest.raises(MeasurementFailed):
            service.warm_up(Client(), ask(tuner).target, **SAME_TASK, **service.OPTIONS.get(tuner, {}))
        with pytest.raises(MeasurementFailed):
            service._tune(Client(), ask(tuner), 0.0, plan.Deadline(60.0))
    assert [values["fast_math"] for values in submitted] == [False] * 4
    assert {values.get("search") for values in submitted} == {None, "random"}


# The plan


def test_every_tuner_comes_first_in_turn():
    found = list(plan.groups([GEMM, SOFTMAX], 2, TARGET, 60.0))
    assert [group[0].tuner for group in found] == ["tunesmith", "random", "random", "metaschedule-16"]
    assert all({a.tuner for a in group} == set(plan.TUNERS) for group in found)
    assert [(group[0].operator, group[0].seed) for group in found] == [
        (GEMM, 0),
        (SOFTMAX, 0),
        (GEMM, 1),
        (SOFTMAX, 1),
    ]
    with pytest.raises(InvalidOperator):
        list(plan.groups(["gemm:1"], 1, TARGET, 60.0))


def test_the_eight_operators_are_distinct_and_valid():
    groups = list(plan.groups(plan.OPERATORS, 1, TARGET, 60.0))
    assert len({group[0].operator for group in groups}) == 8
    assert {group[0].operator for group in groups} == set(plan.OPERATORS)
    assert set(plan.QUICK_OPERATORS) < set(plan.OPERATORS)


def test_a_deadline_counts_down():
    now = [0.0]
    deadline = plan.Deadline(100.0, lambda: now[0])
    early = deadline.earlier(30.0)
    assert (deadline.left(500.0), deadline.left(5.0), early.left(500.0)) == (100.0, 5.0, 70.0)
    now[0] = 80.0
    assert (deadline.left(500.0), early.left(500.0)) == (20.0, 0.0)
    assert plan.Deadline(None).earlier(9.0).left(7.0) == 7.0


def test_the_ledger_goes_on_where_it_was(tmp_path):
    path = tmp_path / "out" / "runs.jsonl"
    asks = [ask(tuner) for tuner in plan.TUNERS]
    ledger = plan.Ledger(path, resume=False)
    ledger.keep(outcome("tunesmith"))
    ledger.keep(ask("random").outcome(failure="stack_failed"))
    ledger.keep(final())
    with path.open("a") as file:
        file.write('{"kind": "outcome", "oper')  # the machine stopped here
    with pytest.raises(InvalidInput, match="--resume"):
        plan.Ledger(path, resume=False)
    repeated = plan.Ledger(path, resume=True)
    assert [a.tuner for a in repeated.missing(asks)] == ["random", "metaschedule-16", "metaschedule-64"]
    assert repeated.outcomes[GEMM, 0, "tunesmith"] == outcome("tunesmith")
    assert (GEMM, 0) in repeated.finals
    repeated.keep(outcome("random"))
    assert repeated.finals == {}  # the best are measured again, random's among them
    third = plan.Ledger(path, resume=True)
    assert (len(third.outcomes), third.finals) == (2, {})
    with pytest.raises(InvalidInput, match="60 s"):
        third.missing([ask("tunesmith", budget=30.0)])


# The report


def final(**samples):
    given = {"untuned": [0.1], "tunesmith": [1e-4, 1e-4, 3e-4], "random": [4e-4], "metaschedule-64": [2e-4]}
    return Final(GEMM, 0, {**given, **samples}, {"tunesmith": 1e-6, "metaschedule-64": 1e-6}, 2e6, 4e4)


def filled(tmp_path, *found):
    ledger = plan.Ledger(tmp_path / "runs.jsonl", resume=False)
    for item in found:
        ledger.keep(item)
    return ledger


def full(tmp_path):
    return filled(
        tmp_path,
        outcome("tunesmith", 100),
        outcome("random", 110),
        outcome("metaschedule-16", 8),
        outcome("metaschedule-64", 16),
        final(),
    )


def test_ratios_take_the_better_of_the_two_for_each_figure(tmp_path):
    found = figures.ratios(full(tmp_path), GEMM)
    assert found["rate-16"] == pytest.approx(100 / 8)
    assert found["rate-64"] == pytest.approx(100 / 16)
    assert found["rate"] == pytest.approx(100 / 16)
    assert found["latency"] == pytest.approx(2.0)
    assert found["random"] == pytest.approx(4.0)
    assert found["busy"] == pytest.approx(100 / 16)


def test_the_report_has_a_row_per_operator_and_tuner(tmp_path):
    ledger = full(tmp_path)
    report = figures.report(
        ledger, [GEMM, SOFTMAX], {"CPU": "one"}, Peak(4e10, (Level("memory", math.inf, 1e10),)), "a note"
    )
    assert len(report.rows) == 2 * len(plan.TUNERS)
    row = dict(zip(report.columns, report.rows[0], strict=True))
    assert (row["operator"], row["tuner"], row["runs"], row["candidates"]) == (GEMM, "tunesmith", 1, 100)
    assert row["per minute"] == pytest.approx(100.0)
    assert row["with start-up"] == pytest.approx(100.0 / 1.1)
    assert row["build %"] == pytest.approx(50.0)
    assert row["best µs"] == pytest.approx(100.0)
    assert row["GFLOP/s"] == pytest.approx(20.0)
    assert row["share of peak %"] == pytest.approx(50.0)
    assert row["speed-up"] == pytest.approx(1000.0)
    sixteen = dict(zip(report.columns, report.rows[2], strict=True))
    assert sixteen["speed-up"] == pytest.approx(1.0)  # it found nothing better than the default schedule
    empty = dict(zip(report.columns, report.rows[-1], strict=True))
    assert (empty["runs"], empty["per minute"], empty["best µs"]) == (0, None, None)
    assert "geometric mean" in report.summary
    assert "a note" in report.summary
    assert "64 a round: 6.25," in figures.verdict(ledger, [GEMM])


def test_what_failed_what_is_wrong_and_what_differs_is_said(tmp_path):
    wrong = Final(GEMM, 0, {"untuned": [0.1], "tunesmith": [1e-6]}, {"tunesmith": math.nan}, 2e6, 4e4)
    ledger = filled(
        tmp_path,
        outcome("tunesmith"),
        outcome("random", workload="8"),
        ask("metaschedule-16").outcome(failure="it did not start"),
        wrong,
    )
    report = figures.report(ledger, [GEMM], {}, None, "")
    assert "it did not start" in report.summary
    assert "not tune the same program" in report.summary
    assert "outputs are not those" in report.summary
    assert dict(zip(report.columns, report.rows[0], strict=True))["speed-up"] == pytest.approx(1.0)
    assert figures.ratios(ledger, GEMM)["rate-16"] is None
    assert figures.ratios(ledger, GEMM)["latency"] is None  # one that failed has no latency, not the default's


def test_geometric_mean():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([]) is None
    assert geometric_mean([2.0, 0.0]) == 0.0


def test_a_tuner_of_ours_that_measures_nothing_is_not_left_out_of_the_mean(tmp_path):
    ledger = filled(tmp_path, outcome("tunesmith", 0), outcome("metaschedule-16", 8), outcome("metaschedule-64", 16))
    assert figures.ratios(ledger, GEMM)["rate-64"] == 0.0
    columns, rows = figures.ratio_table(ledger, [GEMM])
    assert rows[-1][:2] == ("geometric mean of what is known", 0.0)
    assert len(columns) == len(rows[0])


# The command


@pytest.fixture
def tuners(monkeypatch):
    """Tuners that answer at once; what was run."""
    ran = []

    def answer(ask, folder, deadline):
        ran.append((ask.operator, ask.seed, ask.tuner))
        assert list(folder.iterdir()) == []
        if answer.broken == ask.tuner:
            raise MeasurementFailed("broken on purpose")
        return outcome(ask.tuner, 5, 30.0, ask.operator, ask.seed, budget=ask.budget, target=ask.target.canonical)

    def outcome(tuner, count, seconds, operator, seed, **values):
        trials = tuple(Trial(float(i), 1e-3, 0.1) for i in range(1, count + 1))
        return TunerRun(operator, seed, tuner, values["target"], values["budget"], 1.0, seconds, trials, {}, "7", "[]")

    def repeated(outcomes, target, folder, deadline):
        samples = {"untuned": [0.1], **{o.tuner: [1e-3] for o in outcomes}}
        return Final(outcomes[0].operator, outcomes[0].seed, samples, {}, 1e6, 1e4)

    answer.broken = None
    monkeypatch.setattr("benchmarks.tuners.metaschedule.run", answer)
    monkeypatch.setattr("benchmarks.tuners.service.run", answer)
    monkeypatch.setattr("benchmarks.tuners.remeasure.run", repeated)
    monkeypatch.setattr(command, "_target", lambda text: TARGET)
    monkeypatch.setattr(command, "_peak", lambda threads: None)
    answer.ran = ran
    return answer


def bench(capsys, out, *arguments):
    status = main.run_command_line(["bench", "tuners", "--out", str(out), "--json", *arguments])
    return status, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_command_runs_every_tuner_and_writes_the_report(tmp_path, capsys, tuners):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:tuners -->\n<!-- /bench:tuners -->\n")
    status, answer = bench(capsys, tmp_path / "out", "--operator", GEMM, "--seeds", "2", "--docs", str(page))
    assert status == 0
    assert len(tuners.ran) == 8
    assert answer["missing"] == 0
    assert {row["tuner"]: row["per minute"] for row in answer["rows"]} == dict.fromkeys(plan.TUNERS, 10.0)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "tuners-runs.jsonl",
        "tuners.csv",
        "tuners.md",
        "tuners.svg",
        "tuners-curves.csv",
        "tuners-device-seconds.svg",
        "tuners-trials.svg",
    }
    assert "metaschedule-64" in page.read_text()


@pytest.mark.thorough
def test_a_broken_tuner_is_told_and_tried_again_on_resume(tmp_path, capsys, tuners):
    tuners.broken = "metaschedule-64"
    status, answer = bench(capsys, tmp_path / "out", "--operator", GEMM)
    assert (status, answer["missing"]) == (0, 1)
    assert "broken on purpose" in (tmp_path / "out" / "tuners.md").read_text()
    tuners.broken = None
    tuners.ran.clear()
    status, answer = bench(capsys, tmp_path / "out", "--operator", GEMM, "--resume")
    assert (status, answer["missing"], tuners.ran) == (0, 0, [(GEMM, 0, "metaschedule-64")])
    assert "broken" not in (tmp_path / "out" / "tuners.md").read_text()


@pytest.mark.thorough
def test_quick_ends_at_its_deadline_with_what_there_is(tmp_path, capsys, tuners, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(plan.time, "monotonic", lambda: now[0])
    real = tuners

    def slow(ask, folder, deadline):
        assert 0.0 < deadline.left(1e9) <= plan.QUICK_LIMIT - plan.SPARE
        now[0] += 200.0
        return real(ask, folder, deadline)

    monkeypatch.setattr("benchmarks.tuners.metaschedule.run", slow)
    monkeypatch.setattr("benchmarks.tuners.service.run", slow)
    monkeypatch.setattr(plan.Deadline.__init__, "__defaults__", (lambda: now[0],))
    status, answer = bench(capsys, tmp_path / "out", "--quick")
    assert (status, len(tuners.ran)) == (0, 3)
    assert answer["missing"] == 5
    assert "5 of 8 runs are missing" in (tmp_path / "out" / "tuners.md").read_text()


def test_nothing_at_all_is_a_failure(tmp_path, capsys, tuners, monkeypatch):
    def broken(ask, folder, deadline):
        raise MeasurementFailed("no")

    monkeypatch.setattr("benchmarks.tuners.metaschedule.run", broken)
    monkeypatch.setattr("benchmarks.tuners.service.run", broken)
    status, answer = bench(capsys, tmp_path / "out", "--operator", GEMM)
    assert (status, answer["code"]) == (1, "measurement_failed")


def test_mistakes_show_before_anything_runs(tmp_path, capsys, tuners):
    assert bench(capsys, tmp_path / "a", "--operator", "gemm:1")[1]["code"] == "invalid_operator"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "tuners-runs.jsonl").write_text("")
    assert bench(capsys, tmp_path / "b")[1]["code"] == "invalid_input"
    assert tuners.ran == []
