"""The cost of a run by a Python function, compared with the two writes and the brief that it cannot do without."""

from __future__ import annotations

from bench.desk import BenchRun, desk
from bench.timing import Result, cpu, judge, time_in_turn
from memtape.core.decisions.runs import RunEnd
from memtape.core.observed import Decision
from memtape.engine.runs import BegunRun
from memtape.runners.conduct import RunTask, conduct_run
from memtape.runners.python_function import callable_runner
from memtape.surfaces.run_host import run_host

REPEATS = 3
RUN_BAR = 3.0
ANSWER = {"symbol": "BTC", "action": "wait", "thesis": "nothing to do"}


def measure_run(bench: BenchRun) -> dict[str, Result]:
    """Measure `run`."""
    n = bench.scale.small
    with desk(bench.copy(bench.store(n), "runs.db")) as (memory, agent):
        runner = callable_runner(lambda question: ANSWER)
        host = run_host(memory, lambda config: runner)

        def run() -> None:
            for _ in range(REPEATS):
                done = conduct_run(memory, host, agent.agent.id, RunTask(kind="manual", prompt="Analyse."))
                assert done.result == "ok", done

        def plain() -> None:
            for _ in range(REPEATS):
                begun = agent.runs.begin("manual", "Analyse.", runner="callable")
                assert isinstance(begun, BegunRun)
                brief = agent.briefs.make()
                end = RunEnd(run=begun.start.id, at=begun.start.at, result="ok")
                agent.end_run(begun, end, decision=Decision(symbol="BTC", action="wait"), shown=brief)

        run()
        plain()
        (sides,) = time_in_turn([(plain, run)] * bench.scale.rounds, cpu)
    what = f"A run by a Python function of an agent with {n} trades, compared with its two writes and one brief."
    return {"run": judge(what, n, sides, RUN_BAR)}
