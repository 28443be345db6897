"""`memtape sim`: runs a strategy or a model over a file of bars as a separate agent, and writes a report.

A model is asked at every tick for each symbol, with the agent's brief. Its answer passes the guard made from the skill's limits,
and the brief it was shown is recorded with its decision. Lessons are computed between ticks, as in live trading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from memtape.core.brief.short_ids import expand_short_ids
from memtape.core.codec import digest
from memtape.core.observed import Tick
from memtape.core.values import Number, Quantity, read
from memtape.engine import AgentMemory, Memory, Receipt
from memtape.engine.brief_question import AssembledBrief
from memtape.errors import Invalid, ModelFailed
from memtape.sim.bars import read_bar_file
from memtape.sim.funding import SteadyFunding
from memtape.sim.guard import Guard
from memtape.sim.margin import Margin
from memtape.sim.model_trader import ModelQuestion, ModelTrader, ProposeOrder, UnusableAnswer
from memtape.sim.report import SimReport, report_of, trades_csv
from memtape.sim.report_markdown import render_markdown
from memtape.sim.run import BATCH_TICKS, SimResult, run_simulation
from memtape.sim.strategies import STRATEGIES
from memtape.sim.venue import Venue

ANSWER_TOKENS = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The terms of the simulated account, as text from the command line."""

    leverage: str | None = None
    funding: str | None = None  # rate every 8 hours; a long pays a positive one
    participation: str | None = None  # share of a bar's volume
    limits: Mapping[str, str] = field(default_factory=dict)

    def venue(self, symbols: set[str]) -> Venue:
        """The venue with these terms."""
        rate = None if self.funding is None else read(Number, self.funding, at="funding")
        leverage = None if self.leverage is None else read(Quantity, self.leverage, at="leverage")
        share = None if self.participation is None else read(Quantity, self.participation, at="participation")
        return Venue(
            margin=None if leverage is None else Margin.at_leverage(Decimal(leverage)), participation=share,
            funding={} if rate is None else {symbol: SteadyFunding(rate=Decimal(rate)) for symbol in symbols},
        )  # fmt: skip


def simulate(
    memory: Memory, file: Path, strategy: str, *, agent: str, symbol: str | None, fee_bps: str, slippage_bps: str,
    starting_equity: str, report: Path | None, on_progress: Callable[[int, int], object] | None = None,
    skill: str | None = None, terms: SimulationOptions | None = None, strict: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Run the simulation. Returns its figures and the path of the report."""
    terms = terms or SimulationOptions()
    if strategy not in STRATEGIES and "/" not in strategy:
        fix = f"Choose one of {', '.join(sorted(STRATEGIES))}, or a model like anthropic/claude-haiku-4-5"
        raise Invalid("strategy", f"there is no strategy '{strategy}'", fix)
    source = read_bar_file(file, symbol=symbol, strict=strict)
    bars = source.bars
    handle = _agent(memory, agent, strategy, skill, starting_equity, terms)
    own, _ = memory.skill_of(handle.agent)
    player = _Model(memory, handle, strategy) if "/" in strategy else None
    prefix = digest(f"{file.name}|{strategy}|{len(bars)}|{bars[0].t0}|{bars[-1].t1}")[:6] if bars else "p"

    def after_tick(tick: Tick, receipt: Receipt) -> None:
        if player is not None:
            player.record(tick)
        if receipt.reflection_due:
            handle.lessons.reflect_if_due()

    result = run_simulation(
        handle, bars, STRATEGIES[strategy]() if player is None else ModelTrader(player.decide, player.brief, name=strategy),
        fee_bps=fee_bps, slippage_bps=slippage_bps, starting_equity=starting_equity, on_progress=on_progress, name=agent,
        prefix=prefix, after_tick=after_tick, venue=terms.venue({bar.symbol for bar in bars}),
        guard=Guard(own.limits) if own.limits else None, observe_first=player is not None,
        skipped_bars=source.skipped, batch=BATCH_TICKS,
    )  # fmt: skip
    figures = result.as_dict()
    if report is not None:
        figures |= write_report(result, report)
    return figures


def write_report(result: SimResult, where: Path) -> dict[str, str]:
    """Write the report of a run and its trades as CSV. Returns the paths.

    The end of the name says which: `.html` or `.htm` is a page, a folder gets both forms, and anything else is Markdown.
    """
    report = report_of(result)
    if where.is_dir() or not where.suffix:
        pages, trades = [where / "report.html", where / "report.md"], where / "trades.csv"
    else:
        pages, trades = [where], where.with_suffix(".trades.csv")
    try:
        if len(pages) > 1:
            where.mkdir(parents=True, exist_ok=True)
        for page in pages:
            text = _html(report) if page.suffix.lower() in (".html", ".htm") else render_markdown(report)
            page.write_text(text, encoding="utf-8", newline="\n")
        trades.write_text(trades_csv(report.closed), encoding="utf-8", newline="\n")
    except OSError as error:
        raise Invalid("report", f"{where} cannot be written: {error.strerror}", "Name another file") from None
    return {"report": str(pages[0].absolute()), "trades_file": str(trades.absolute())}


def _html(report: SimReport) -> str:
    # Templates take time to load, and most reports are Markdown.
    from memtape.surfaces.web.sim_report import render_page

    return render_page(report)


def _agent(
    memory: Memory, agent: str, strategy: str, skill: str | None, starting_equity: str, terms: SimulationOptions
) -> AgentMemory:
    """The agent to trade as, with an existing skill or with one created from the strategy and the given limits."""
    if skill is not None:
        if terms.limits:
            raise Invalid("limit", "cannot be combined with --skill, which has its own limits", "Leave one of them out")
        memory.skill(skill)
    else:
        skill = strategy.replace("/", "-").replace("_", "-").lower()
        made = STRATEGIES.get(strategy)
        words = (made.__doc__ or "").strip() if made is not None else ""
        memory.create_skill(skill, name=strategy.replace("_", " "), strategy=words, limits=terms.limits)
    memory.create_agent(agent, skill=skill, mode="sim", settings={"starting_equity": starting_equity})
    return memory.agent(agent)


class _Model:
    """A model as trader: gets a brief before each decision, answers by schema; its briefs are recorded after the tick."""

    def __init__(self, memory: Memory, agent: AgentMemory, name: str) -> None:
        self._agent, self._model = agent, memory.resources.models(name)
        self._shown: list[tuple[str, AssembledBrief]] = []

    def brief(self, symbol: str, _: datetime) -> str:
        """Its brief, with this tick observed and nothing decided yet."""
        made = self._agent.briefs.make(symbol=symbol)
        self._shown.append((symbol, made))
        return made.brief.of("user")

    def decide(self, question: ModelQuestion) -> object:
        """The model's answer. A failure that may pass counts as a bad answer and is recorded; any other ends the run."""
        brief = self._shown[-1][1].brief
        question = replace(question, stable_records=brief.stable_records)
        try:
            answer = self._model.answer(
                brief.of("system"), question.prompt, ProposeOrder, max_tokens=ANSWER_TOKENS, stable_chars=question.stable_chars
            )
            ids = [one.source.id for one in brief.citations]
            named = [expand_short_ids(str(id), ids) for id in answer.data.get("memories") or ()]
            return answer.data | ({"memories": named} if named else {})
        except ModelFailed as failed:
            if not failed.retry_later:
                raise
            return UnusableAnswer(failed.problem)

    def record(self, tick: Tick) -> None:
        """Record the briefs it was shown, with its decisions."""
        for symbol, made in self._shown:
            decided = next((d.id for d in tick.decisions if d.symbol == symbol), None)
            self._agent.briefs.record_shown(made, decision=decided, run=tick.id)
        self._shown.clear()
