"""A searcher's own settings, tuned on one half of the recorded spaces and judged on the other one.

Tuned settings are worth more than the choice between searchers (Willemsen et al., "Tuning the Tuner", 2025), and
settings that fit the spaces they were tuned on need not fit others. The sampler is a tree-structured Parzen estimator
(Bergstra et al., NeurIPS 2011), as Optuna has it; hopeless settings are given up after a few seeds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.progress import Progress
from benchmarks.harness.report import Report, Row
from benchmarks.replay import searchers
from benchmarks.replay.ranges import Range, ranges
from benchmarks.replay.searchers import HELD_OUT, Method, methods
from benchmarks.replay.workloads import held_out
from tunesmith.errors import InvalidInput, MissingDependency
from tunesmith.search.registry import default_options
from tunesmith.space.base import Floats
from tunesmith.testing import score
from tunesmith.testing.replay import Recording

STEP = 2
"""Seeds after which settings may be given up."""
FINALISTS = 4
"""Settings that are compared with the default once more, with other seeds: the best of many trials is the luckiest."""
FINAL = 500
"""First of these seeds, of which there are twice as many."""
FRESH = 1000
"""First of the seeds of the verdict, none of which tuning saw."""


@dataclass(frozen=True)
class TuningPlan:
    """What to tune.

    Attributes:
        searcher: its name.
        trials: settings to try, the default ones first.
        seeds: runs of each on each space and, with other seeds, of the verdict.
        batch: candidates a round.
        seed: of the sampler.
    """

    searcher: str
    trials: int
    seeds: int
    batch: int
    seed: int = 0


@dataclass(frozen=True)
class Tuned:
    """Settings and what they are worth.

    Attributes:
        default, best: settings of the searcher's own type.
        before, after: P of either by space and method, float64 [seeds], on fresh seeds.
    """

    default: Any
    best: Any
    before: dict[tuple[str, bool], Floats]
    after: dict[tuple[str, bool], Floats]

    def save(self, path: Path) -> None:
        """Write the settings as JSON: ``{"default": {…}, "tuned": {…}}``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {"default": dataclasses.asdict(self.default), "tuned": dataclasses.asdict(self.best)}
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def tune(plan: TuningPlan, recordings: Sequence[Recording], pool: Executor, progress: Progress) -> Tuned:
    """Tune on the spaces that are not held out; judge on all of them.

    Args:
        progress: is told about each trial.

    Raises:
        InvalidInput: the searcher has no settings to tune.
        MissingDependency: Optuna is not installed.
        UnknownSearcher: there is no such searcher.
    """
    default = default_options(plan.searcher)
    wanted = ranges(default)
    if not wanted:
        raise InvalidInput(f"{plan.searcher} has no settings to tune", field="searcher", value=plan.searcher)
    unseen = held_out(r.name for r in recordings)
    known = [r for r in recordings if r.name not in unseen]

    def value(options: Any, seeds: Sequence[int]) -> float:
        return _mean(worth(plan, options, known, seeds, pool))

    finalists = [default, *_optimise(plan, wanted, default, value, progress)]
    best = max(finalists, key=lambda options: value(options, range(FINAL, FINAL + 2 * plan.seeds)))
    fresh = range(FRESH, FRESH + plan.seeds)
    return Tuned(
        default, best, worth(plan, default, recordings, fresh, pool), worth(plan, best, recordings, fresh, pool)
    )


def worth(
    plan: TuningPlan, options: Any, recordings: Sequence[Recording], seeds: Sequence[int], pool: Executor
) -> dict[tuple[str, bool], Floats]:
    """P of each run, float64 [seeds], by space and whether a cost model ranked."""
    keys = [(r, dataclasses.replace(m, options=options)) for r in recordings for m in methods([plan.searcher])]
    futures = [pool.submit(searchers.run, r, m, seeds, searchers.budget_of(r), plan.batch) for r, m in keys]
    return {
        (r.name, m.model): searchers.judge(r, m, f.result()).by_seed for (r, m), f in zip(keys, futures, strict=True)
    }


def _mean(found: dict[tuple[str, bool], Floats]) -> float:
    return float(np.mean(list(found.values())))


def _optimise(
    plan: TuningPlan,
    wanted: Sequence[Range],
    default: Any,
    value: Callable[[Any, Sequence[int]], float],
    progress: Progress,
) -> list[Any]:
    """The settings with the largest values among ``plan.trials``."""
    optuna = _optuna()

    def objective(trial: Any) -> float:
        options = dataclasses.replace(default, **{r.name: _suggest(trial, r, default) for r in wanted})
        found: list[float] = []
        for start in range(0, plan.seeds, STEP):
            found += [value(options, range(start, min(start + STEP, plan.seeds)))]
            trial.report(float(np.mean(found)), start)
            if trial.should_prune():
                raise optuna.TrialPruned
        progress(f"trial {trial.number}: P {np.mean(found):.4f} {trial.params}")
        return float(np.mean(found))

    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=plan.seed), pruner=optuna.pruners.MedianPruner()
    )
    study.enqueue_trial({r.name: getattr(default, r.name) for r in wanted})
    study.optimize(objective, n_trials=plan.trials)
    done = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    ahead = sorted(done, key=lambda trial: -trial.value)[:FINALISTS]
    return [dataclasses.replace(default, **trial.params) for trial in ahead]


def _suggest(trial: Any, wanted: Range, default: Any) -> float:
    if isinstance(getattr(default, wanted.name), int):
        return int(trial.suggest_int(wanted.name, int(wanted.low), int(wanted.high), log=wanted.log))
    return float(trial.suggest_float(wanted.name, wanted.low, wanted.high, log=wanted.log))


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "tuning a searcher's settings needs optuna; install it with: pip install -e '.[bench]'", extra="bench"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def report(plan: TuningPlan, tuned: Tuned, setup: dict[str, str]) -> Report:
    """Default and tuned settings on either half, without a cost model and with one."""
    unseen = held_out(name for name, _ in tuned.before)
    rows: list[Row] = []
    for fresh in (False, True):
        for model in sorted({model for _, model in tuned.before}):
            keys = [k for k in tuned.before if k[1] == model and (k[0] in unseen) == fresh]
            if not keys:
                continue
            before, after = (np.stack([side[k] for k in keys]) for side in (tuned.before, tuned.after))
            rows.append(
                {
                    "half": HELD_OUT[fresh],
                    "spaces": len(keys),
                    "searcher": Method(plan.searcher, model).name,
                    "P, default": round(float(before.mean()), 4),
                    "P, tuned": round(float(after.mean()), 4),
                    **searchers.banded("gain", score.bootstrap(after - before)),
                }
            )
    changed = [
        f"`{f.name}` {getattr(tuned.default, f.name):.3g} → {getattr(tuned.best, f.name):.3g}"
        for f in dataclasses.fields(tuned.best)
        if getattr(tuned.best, f.name) != getattr(tuned.default, f.name)
    ]
    summary = (
        f"{plan.trials} settings of {plan.searcher} tried on one half of the spaces, {plan.seeds} seeds each; then the "
        f"best {FINALISTS} and the default with twice as many. P of the default and of the winner comes from seeds "
        "that neither saw, on that half and on the one held out. The band of the gain is a 95 % bootstrap over seeds."
        f"\n\nChanged: {', '.join(changed) or 'nothing'}."
    )
    return Report.of(name_of(plan.searcher), f"Settings of {plan.searcher}, tuned", summary, rows, setup)


def name_of(searcher: str) -> str:
    """Of its report."""
    return f"replay-tune-{searcher}"
