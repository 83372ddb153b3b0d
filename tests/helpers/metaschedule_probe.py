"""MetaSchedule's child of ``bench models`` with builds and runs that cost nothing, stopped in its second round's run.

``python metaschedule_probe.py JOB``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading

from benchmarks.models import metaschedule
from workers.tvm_backend.warm import warm


def search_little() -> None:
    """Fewer candidates are looked at before each round, which takes longer than all else where rounds are small."""
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    defaults = EvolutionarySearch.__init__.__kwdefaults__
    assert {"population_size", "init_min_unmeasured", "genetic_num_iters"} <= defaults.keys()
    defaults.update(population_size=16, init_min_unmeasured=4, genetic_num_iters=1)


def main() -> None:
    warm("llvm")  # spares the test the ten seconds that TVM's own start takes
    search_little()
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    second_round, end = threading.Event(), metaschedule._end

    @derived_object
    class Builder(ms.builder.PyBuilder):
        def build(self, build_inputs):
            # A folder for each, which the scheduler removes.
            return [ms.builder.BuilderResult(f"{tempfile.mkdtemp()}/nothing", None) for _ in build_inputs]

    @derived_object
    class Future(ms.runner.PyRunnerFuture):
        def done(self):
            return True

        def result(self):
            return ms.runner.RunnerResult([1e-3], None)

    @derived_object
    class Runner(ms.runner.PyRunner):
        rounds = 0

        def run(self, runner_inputs):
            self.rounds += 1
            if self.rounds == 2:
                second_round.set()
                threading.Event().wait()  # the process ends meanwhile
            return [Future() for _ in runner_inputs]

    def end_in_the_second_round(*arguments):
        second_round.wait()
        end(*arguments)

    ms.builder.Builder.create = lambda *_, **__: Builder()
    ms.runner.Runner.create = lambda *_, **__: Runner()
    metaschedule._end = end_in_the_second_round
    metaschedule.tune(metaschedule.Job(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
