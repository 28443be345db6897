"""`memtape sim`: a strategy over a file of bars, into an agent of its own, with a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from memtape.core.codec import digest
from memtape.engine import Memory
from memtape.errors import Invalid
from memtape.sim.bars import read_bars
from memtape.sim.replay import run
from memtape.sim.report import render
from memtape.sim.strategies import STRATEGIES


def simulate(
    memory: Memory, file: Path, strategy: str, *, agent: str, symbol: str | None, fee_bps: str, slippage_bps: str,
    starting_equity: str, report: Path | None, on_progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run it; the figures, and where the report is."""
    if strategy not in STRATEGIES:
        raise Invalid("strategy", f"there is no strategy '{strategy}'", f"Choose one of {', '.join(sorted(STRATEGIES))}")
    bars = read_bars(file, symbol=symbol)
    skill = strategy.replace("_", "-")
    memory.create_skill(skill, name=strategy.replace("_", " "), strategy=(STRATEGIES[strategy].__doc__ or "").strip())
    memory.create_agent(agent, skill=skill, mode="sim", settings={"starting_equity": starting_equity})
    prefix = digest(f"{file.name}|{strategy}|{len(bars)}|{bars[0].t0}|{bars[-1].t1}")[:6] if bars else "p"
    result = run(
        memory.agent(agent), bars, STRATEGIES[strategy](), fee_bps=fee_bps, slippage_bps=slippage_bps,
        starting_equity=starting_equity, on_progress=on_progress, name=agent, prefix=prefix,
    )  # fmt: skip
    figures = result.as_dict()
    if report is not None:
        try:
            report.write_text(render(result), encoding="utf-8")
        except OSError as error:
            raise Invalid("report", f"{report} cannot be written: {error.strerror}", "Name another file") from None
        figures["report"] = str(report.absolute())
    return figures
