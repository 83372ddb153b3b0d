"""The scheduler's plan: a pure function, driven here by a simulated world."""

from __future__ import annotations

from dataclasses import replace

from snapshots import CLASS, job, task, with_options

from services.coordinator.scheduling import actions as act
from services.coordinator.scheduling.answers import ROUNDS_AT_ONCE
from services.coordinator.scheduling.budget import REFERENCE_SECONDS, evaluation_reserve
from services.coordinator.scheduling.plan import plan
from services.coordinator.scheduling.rounds import PROMISED_CANDIDATES
from services.coordinator.scheduling.share import Limits
from services.coordinator.scheduling.snapshot import JobSnapshot, Snapshot, TrainingSnapshot
from tunesmith.states import JobState, ModelState, WorkState

LLVM = "llvm-znver5-2"


def snap(*jobs: JobSnapshot, slots: int = 1) -> Snapshot:
    return Snapshot(jobs=jobs, slots={CLASS: slots} if slots else {})


def opened(actions: list[act.Action], key: str | None = None) -> list[act.OpenRound]:
    return [a for a in actions if isinstance(a, act.OpenRound) and key in (None, a.job)]


def snap_of(one: JobSnapshot) -> Snapshot:
    return Snapshot(jobs=(one,), slots={one.device_class: 1})


def plans(one: JobSnapshot) -> list[act.OpenRound]:
    return opened(plan(snap_of(one)))


def moves(actions: list[act.Action]) -> list[tuple[str, JobState]]:
    return [(a.job, a.new) for a in actions if isinstance(a, act.MoveJob)]


def test_queued_job_waits_for_its_model_then_prepares() -> None:
    queued = job(state=JobState.QUEUED, tasks=0)
    assert plan(snap(replace(queued, model_state=ModelState.IMPORTING))) == []
    assert moves(plan(snap(queued))) == [("a", JobState.PREPARING)]
    problem = {"code": "unsupported_operator"}
    rejected = plan(snap(replace(queued, model_state=ModelState.REJECTED, model_problem=problem)))
    assert rejected == [act.MoveJob("a", JobState.QUEUED, JobState.FAILED, problem=problem)]


def test_first_rounds_visit_the_largest_tasks_with_a_baseline() -> None:
    rounds = opened(plan(snap(job())))
    assert [r.task for r in rounds] == [1, 2, 3]
    assert all(r.baseline for r in rounds)
    assert [r.number for r in rounds] == [1, 2, 3]
    later = job(tasks=1).tasks[0]
    repeated = opened(plan(snap(replace(job(), tasks=(replace(later, rounds=1),)))))
    assert [r.baseline for r in repeated] == [False]


def test_first_rounds_are_proposed_ahead_of_a_job_that_is_alone() -> None:
    many = job(tasks=20, budget_trials=None, budget_seconds=600.0)
    limits = Limits(ahead=4)
    assert len(opened(plan(snap(many), limits))) == limits.rounds(1) + 4
    assert len(opened(plan(snap(many, replace(many, id="b")), limits))) == limits.rounds(1)
    known = replace(many, tasks=tuple(replace(each, rounds=1, history=(1.0,)) for each in many.tasks))
    assert len(opened(plan(snap(known), limits))) == limits.rounds(1)


def test_tasks_that_a_job_will_not_come_to_get_schedules_without_a_measurement() -> None:
    """Those that it may still measure keep their turn, and are not proposed for twice."""
    fresh = tuple(task(i, flops=1e6 * (50 - i)) for i in range(1, 41))
    tasks = (replace(fresh[0], rounds=1, in_flight=1), *fresh[1:])
    short = replace(job(budget_trials=None, budget_seconds=22.0, verify=False), device_class=LLVM, tasks=tasks)
    given = [r for r in plans(short) if not r.size]
    assert len(given) == ROUNDS_AT_ONCE
    measured = [r.task for r in plans(short) if r.size]
    assert measured
    assert max(measured) < min(r.task for r in given)
    assert len({r.number for r in plans(short)}) == len(plans(short))
    assert all(r.size for r in plans(replace(short, budget_seconds=600.0)))
    assert all(r.size for r in plans(replace(short, tasks=fresh))), "its first round always fits"
    assert all(r.size for r in plans(replace(short, device_class="cuda")))
    assert all(r.size for r in plans(replace(short, budget_trials=100, budget_seconds=None)))


def test_a_job_that_is_short_of_time_gives_schedules_before_it_proposes_ahead() -> None:
    """What the check of the untuned model takes is foreseen before anything was timed."""
    fresh = tuple(task(i, flops=1.5e8) for i in range(1, 25))
    short = replace(job(budget_trials=None, budget_seconds=34.0, elapsed=2.0), device_class=LLVM, tasks=fresh)
    limits = Limits()
    first = plans(short)
    assert [bool(r.size) for r in first] == [True] * limits.rounds(1)
    begun = {r.task for r in first}
    under_way = (replace(each, rounds=1, in_flight=1) if each.id in begun else each for each in fresh)
    then = plans(replace(short, tasks=tuple(under_way), trials_in_flight=9))
    assert [r.size for r in then] == [0] * ROUNDS_AT_ONCE
    assert len(plans(replace(short, budget_seconds=300.0))) == limits.rounds(1) + limits.ahead


def test_a_job_ends_once_each_task_has_a_schedule() -> None:
    busy, late = {"rounds": 1, "history": (1.0,), "best": 1.0, "trials": 3}, {"elapsed": 29.0}
    first, second = (task(i, flops=1e6) for i in (1, 2))
    short = replace(job(budget_trials=None, budget_seconds=30.0, verify=False), device_class=LLVM, **late)
    lacking = replace(short, tasks=(replace(first, **busy), second))
    assert [(r.task, r.size) for r in plans(lacking)] == [(2, 0)]
    answering = replace(short, tasks=(replace(first, **busy), replace(second, answering=True)))
    assert plan(snap_of(answering)) == []
    answered = replace(short, tasks=(replace(first, **busy), replace(second, answered=True)))
    assert moves(plan(snap_of(answered))) == [("a", JobState.FINISHING)]
    assert plan(snap_of(replace(answering, elapsed=31.0))) == [], "the check waits a little for it"
    over = plan(snap_of(replace(answering, elapsed=33.5)))
    assert act.CancelRounds("a", measuring=False) in over
    assert moves(over) == [("a", JobState.FINISHING)]


def test_an_unmeasured_task_is_measured_once_no_other_lacks_a_schedule() -> None:
    one, other = task(1, flops=1e6, answered=True), task(2, flops=1e3)
    both = replace(job(budget_trials=None, budget_seconds=600.0), device_class=LLVM, tasks=(one, other))
    assert plans(both)[0].task == 2
    assert [r.task for r in plans(replace(both, tasks=(one,)))] == [1]


def test_schedules_that_a_job_began_with_are_measured_first_and_alone() -> None:
    """Whatever else there is to try for the first time comes after them."""
    given = {"promised": True, "answered": True}
    tasks = (task(1), task(2, **given), task(3, alternative_of=2), task(4, alternative_of=1, **given), task(5, **given))
    timed = replace(job(budget_trials=None, budget_seconds=600.0, allocator="bandit"), tasks=tasks)
    rounds = opened(plan(snap(timed), Limits(ahead=4)))
    assert {(r.task, r.size, r.baseline) for r in rounds[:3]} == {(key, PROMISED_CANDIDATES, True) for key in (2, 4, 5)}
    assert sorted(r.task for r in rounds[3:]) == [1, 3]
    assert all(r.size > PROMISED_CANDIDATES for r in rounds[3:])
    assert timed.unanswered == (), "the pair of 1 and 4 has a schedule"
    others = replace(timed, options=timed.options.model_copy(update={"allocator": "gradient"}))
    assert all(r.size > PROMISED_CANDIDATES for r in opened(plan(snap(others)))), "its rounds are of one size"


def test_an_alternative_has_its_first_round_before_its_direct_task() -> None:
    direct, other, alternative = task(1), task(2), task(3, alternative_of=1)
    three = replace(job(tasks=0), tasks=(direct, other, alternative))
    assert [r.task for r in opened(plan(snap(three)))] == [2, 3, 1]
    for settled in ({"tunable": False}, {"exhausted": True}, {"rounds": 1, "history": (1.0,)}):
        pair = (direct, other, replace(alternative, **settled))
        assert next(iter(opened(plan(snap(replace(three, tasks=pair)))))).task == 1


def test_jobs_do_not_try_the_same_for_the_first_time() -> None:
    equal = replace(job("a"), tasks=tuple(task(i, shared=("t", f"w{i}")) for i in (1, 2, 3)))
    rounds = opened(plan(snap(equal, replace(equal, id="b"))))
    assert sorted(r.task for r in rounds) == [1, 2, 3]
    assert {r.job for r in rounds} == {"a", "b"}
    busy = replace(equal, id="c", tasks=tuple(replace(task, in_flight=task.id == 1) for task in equal.tasks))
    assert next(iter(opened(plan(snap(replace(equal, **with_options({"priority": 9})), busy)), "a"))).task == 2


def test_a_task_has_one_proposal_at_a_time() -> None:
    assert len(opened(plan(snap(job(tasks=1), slots=4)))) == 1


def test_a_task_keeps_its_devices_busy_and_no_more() -> None:
    for slots, in_flight, more in ((1, 1, 1), (1, 2, 0), (3, 3, 1), (3, 4, 0), (0, 2, 0)):
        alone = task(1, rounds=4, history=(1.0,) * 2, in_flight=in_flight)
        assert len(opened(plan(snap(replace(job(tasks=0, budget_trials=512), tasks=(alone,)), slots=slots)))) == more
    busy = task(1, rounds=4, history=(1.0,) * 2, in_flight=2)
    (other,) = opened(plan(snap(replace(job(tasks=0), tasks=(busy, task(2, rounds=1, history=(1.0,)))))))
    assert other.task == 2


def test_small_budgets_are_spread_over_many_tasks() -> None:
    sizes = {r.size for r in opened(plan(snap(job(tasks=20, budget_trials=200), slots=9)))}
    assert sizes == {5}
    assert {r.size for r in opened(plan(snap(job(tasks=3, budget_trials=1))))} == {1}
    assert {r.size for r in opened(plan(snap(job(tasks=1, budget_trials=64))))} == {16}


def test_first_rounds_are_small_where_there_are_many_and_the_allocator_wants_them() -> None:
    timed: dict[str, object] = {"budget_trials": None, "budget_seconds": 60.0}
    assert {r.size for r in opened(plan(snap(job(tasks=1, allocator="bandit", budget_trials=192))))} == {8}
    assert {r.size for r in opened(plan(snap(job(tasks=1, allocator="bandit", **timed))))} == {8}
    assert {r.size for r in opened(plan(snap(job(tasks=1, allocator="gradient", **timed))))} == {16}


def test_without_a_device_one_round_waits_and_the_clock_stands() -> None:
    actions = plan(snap(job(budget_seconds=60.0), slots=0))
    assert len(opened(actions)) == 1
    assert act.SetClock("a", True) in actions
    waiting = job(clock_stopped=True, tasks=0, budget_seconds=60.0)
    waiting = replace(waiting, tasks=(task(1, rounds=1, in_flight=1, proposing=False), task(2)))
    assert plan(snap(waiting, slots=0)) == []
    back = plan(snap(waiting))
    assert act.SetClock("a", False) in back
    assert opened(back)


def test_places_are_shared_between_jobs() -> None:
    by_job = {key: len(opened(plan(snap(job("a"), job("b"), slots=2)), key)) for key in "ab"}
    assert by_job in ({"a": 3, "b": 2}, {"a": 2, "b": 3})
    urgent = plan(snap(job("a"), job("b", priority=3), slots=1))
    assert [r.job for r in opened(urgent)][:1] == ["b"]
    assert len(opened(urgent, "b")) > len(opened(urgent, "a"))


def test_jobs_that_are_not_running_get_nothing() -> None:
    for state in (JobState.PAUSED, JobState.CANCELLING, JobState.PREPARING, JobState.FINISHING):
        assert not opened(plan(snap(job(state=state))))


def test_cancelling_ends_rounds_and_the_check() -> None:
    actions = plan(snap(job(state=JobState.CANCELLING, evaluation=WorkState.RUNNING)))
    assert actions == [
        act.CancelRounds("a", measuring=True),
        act.CancelEvaluation("a"),
        act.MoveJob("a", JobState.CANCELLING, JobState.CANCELLED, stop_reason="cancelled"),
    ]


def test_end_of_the_trials_waits_for_rounds_under_way() -> None:
    spent = task(1, trials=90, rounds=6, history=(1.0,) * 5, untuned=2.0, best=1.0, in_flight=1)
    busy = job(tasks=0, trials_in_flight=10)
    assert plan(snap(replace(busy, tasks=(spent,)))) == []
    done = replace(busy, tasks=(replace(spent, trials=100, in_flight=0),), trials_in_flight=0)
    actions = plan(snap(done))
    assert moves(actions) == [("a", JobState.FINISHING)]
    assert act.StartEvaluation("a", CLASS) in actions


def test_end_of_the_seconds_drops_proposals_but_not_measurements() -> None:
    late = job(tasks=0, budget_trials=None, budget_seconds=100.0, elapsed=99.0)
    proposing = task(1, rounds=2, in_flight=1, proposing=True, untuned=1.0, best=0.5, history=(0.5,))
    actions = plan(snap(replace(late, tasks=(proposing,))))
    assert act.CancelRounds("a", measuring=False) in actions
    assert moves(actions) == [("a", JobState.FINISHING)]
    measuring = replace(proposing, proposing=False)
    assert moves(plan(snap(replace(late, tasks=(measuring,))))) == []


def test_the_last_round_has_what_is_left() -> None:
    nearly = task(1, rounds=8, trials=250, history=(1.0,) * 8)
    assert {r.size for r in opened(plan(snap(replace(job(tasks=0, budget_trials=256), tasks=(nearly,)))))} == {6}


def test_no_round_is_opened_that_would_end_after_the_budget() -> None:
    running = task(1, rounds=2, trials=100, in_flight=1, untuned=1e-3, best=5e-4, history=(6e-4, 5e-4))
    timed = replace(
        job(budget_trials=None, budget_seconds=200.0, trials_in_flight=16, elapsed=100.0), tasks=(running, task(2))
    )
    assert any(isinstance(action, act.OpenRound) for action in plan(snap(timed)))
    late = replace(timed, elapsed=170.0)
    assert all(not action.size for action in opened(plan(snap(late))))
    idle = replace(late, tasks=(replace(running, in_flight=0), task(2, answered=True)), trials_in_flight=0)
    assert moves(plan(snap(idle))) == [("a", JobState.FINISHING)]


def test_a_budget_of_seconds_keeps_time_for_the_check() -> None:
    timed = job(budget_trials=None, budget_seconds=600.0)
    assert 5 < evaluation_reserve(timed) < 60
    assert evaluation_reserve(replace(timed, compared=True)) == evaluation_reserve(timed) + REFERENCE_SECONDS
    assert evaluation_reserve(replace(timed, **with_options({"verify": False}))) == 0
    slow = replace(timed, tasks=(task(1, untuned=1e3),))
    assert evaluation_reserve(slow) == 300
    one, other = task(1, flops=1e9, untuned=2.0), task(2, flops=5e8, weight=4.0)
    reserves = [
        evaluation_reserve(replace(timed, tasks=tasks)) for tasks in ((one, other), (one, replace(other, untuned=1.0)))
    ]
    assert reserves[0] == reserves[1], "a task that is not timed yet runs as fast as the others"


def test_exhausted_tasks_end_the_job() -> None:
    tasks = tuple(task(i, exhausted=True, trials=4, untuned=1.0, best=0.5) for i in (1, 2))
    actions = plan(snap(replace(job(), tasks=tasks)))
    assert [a.stop_reason for a in actions if isinstance(a, act.MoveJob)] == ["exhausted"]


def test_nothing_measured_is_a_failure() -> None:
    tasks = (task(1, exhausted=True, trials=16),)
    failed = [a for a in plan(snap(replace(job(), tasks=tasks))) if isinstance(a, act.MoveJob)]
    assert [(a.new, (a.problem or {})["code"]) for a in failed] == [(JobState.FAILED, "measurement_failed")]


def test_finishing_follows_the_check() -> None:
    finishing = job(state=JobState.FINISHING)
    assert act.StartEvaluation("a", CLASS) in plan(snap(finishing))
    assert plan(snap(replace(finishing, evaluation=WorkState.RUNNING))) == []
    assert moves(plan(snap(replace(finishing, evaluation=WorkState.DONE)))) == [("a", JobState.SUCCEEDED)]
    assert moves(plan(snap(replace(finishing, evaluation=WorkState.FAILED)))) == [("a", JobState.FAILED)]
    assert moves(plan(snap(replace(finishing, **with_options({"verify": False}))))) == [("a", JobState.SUCCEEDED)]


def test_training_follows_the_records() -> None:
    def trains(**values: int | bool) -> bool:
        learned = job(cost_model="xgboost", training=TrainingSnapshot(**values))
        return act.StartTraining("a") in plan(snap(learned))

    assert not trains(records=7)
    assert trains(records=8)
    assert not trains(records=19, trained_on=8)
    assert trains(records=20, trained_on=8)
    assert not trains(records=44, trained_on=33)
    assert trains(records=45, trained_on=33)
    assert not trains(records=1100, trained_on=1000)
    assert trains(records=1200, trained_on=1000)
    assert not trains(records=64, under_way=True)
    assert not trains(records=640, failures=3)
    assert act.StartTraining("a") not in plan(snap(job(training=TrainingSnapshot(records=99))))


def test_no_model_is_fitted_while_nothing_but_first_batches_is_proposed() -> None:
    def trains(waiting: int, rounds: int = 1, **values: bool) -> bool:
        had = task(1, rounds=rounds, history=(1.0,) * rounds)
        tasks = (had, *(task(key + 2, **values) for key in range(waiting)))
        learned = replace(job(tasks=0, cost_model="xgboost", training=TrainingSnapshot(records=64)), tasks=tasks)
        return act.StartTraining("a") in plan(snap(learned))

    assert not trains(4)
    assert trains(3), "it is there for second rounds"
    assert trains(4, rounds=2), "the allocator does not wait for first ones"
    assert trains(4, tunable=False)
    assert trains(4, exhausted=True)


def test_the_first_cost_model_is_waited_for_while_the_device_is_busy() -> None:
    def rounds(in_flight: int, slots: int = 1, **values: int | bool) -> list[act.OpenRound]:
        alone = task(1, rounds=4, history=(1.0,) * 2, in_flight=in_flight)
        learning = replace(
            job(tasks=0, budget_trials=512, cost_model="xgboost"), tasks=(alone,), training=TrainingSnapshot(**values)
        )
        return opened(plan(snap(learning, slots=slots)))

    assert not rounds(1, records=32)
    assert not rounds(1, records=48, under_way=True)
    assert rounds(0, records=32), "an idle device is worse"
    assert rounds(1, slots=2, records=32)
    assert rounds(1, records=640, failures=3)
    assert [r.size for r in rounds(1, records=7)] == [16]
    assert [r.size for r in rounds(1, records=80, trained_on=32, under_way=True)] == [32]


def test_where_trials_are_few_a_batch_knows_the_one_before() -> None:
    def rounds(in_flight: int, slots: int = 1, training: TrainingSnapshot | None = None, **values: object) -> int:
        alone = task(1, rounds=4, trials=64, history=(1.0,) * 2, in_flight=in_flight)
        learning = job(tasks=0, cost_model="xgboost", training=training or TrainingSnapshot(), **values)
        return len(opened(plan(snap(replace(learning, tasks=(alone,)), slots=slots))))

    few: dict[str, object] = {"budget_trials": 128}
    assert rounds(0, **few)
    assert not rounds(1, **few)
    assert rounds(1, slots=2, **few)
    assert rounds(1, budget_trials=192), "many trials: the device should not wait"
    assert rounds(1, budget_trials=128, budget_seconds=40.0, verify=False), "time is what ends it"
    assert rounds(1, budget_trials=None, budget_seconds=60.0)
    due = TrainingSnapshot(records=64, trained_on=33)
    fitting = TrainingSnapshot(records=55, trained_on=48, under_way=True)
    assert not rounds(0, training=due, **few)
    assert not rounds(0, training=fitting, **few)
    assert rounds(0, training=TrainingSnapshot(records=55, trained_on=48), **few)
    assert rounds(0, training=TrainingSnapshot(records=64, failures=3), **few)
    assert rounds(0, training=fitting, budget_trials=192)


def test_a_plan_is_deterministic() -> None:
    world = snap(job("a", 6), job("b", 6), slots=3)
    assert plan(world) == plan(world)


def test_a_decision_among_very_many_tasks_keeps_the_best_scores() -> None:
    many = job(tasks=600)
    tried = tuple(replace(t, rounds=1, history=(1.0 / t.id,)) for t in many.tasks)
    (first, *_) = opened(plan(snap(replace(many, tasks=tried, budget_trials=100_000))))
    assert (len(first.reason["scores"]), first.task) == (256, 1)
    assert first.reason["gain"] == first.reason["scores"]["1"]
