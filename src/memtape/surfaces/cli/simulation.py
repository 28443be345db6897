"""`memtape sim`: runs a strategy or a model over a file of bars as a separate agent, and writes a report.

The terms of a run are recorded with its agent. The same run under the same name continues or repeats it; another one is refused
before anything is written. Lessons are computed between ticks, as in live trading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from memtape.core.codec import canonical_plain, decimal_text, digest, time_text
from memtape.core.observed import Bar, Tick
from memtape.core.skills import Agent
from memtape.core.values import Money, Number, Quantity, read
from memtape.documents.reports import parse_report, report_block
from memtape.engine import AgentMemory, Memory, Receipt
from memtape.engine.reflection import STATS
from memtape.errors import Conflict, Invalid
from memtape.sim.bars import read_bar_file
from memtape.sim.funding import SteadyFunding
from memtape.sim.guard import Guard
from memtape.sim.margin import Margin
from memtape.sim.paper import PaperBroker
from memtape.sim.recorded_model import NO_LIMITS, RecordedModelTrader, UseLimits
from memtape.sim.report import SimReport, questions_csv, report_of, trades_csv
from memtape.sim.report_markdown import render_markdown
from memtape.sim.result import SimResult
from memtape.sim.run import BATCH_TICKS, run_simulation
from memtape.sim.strategies import STRATEGIES
from memtape.sim.terms import PREFIX, differing_terms, simulation_terms
from memtape.sim.venue import Venue


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
    skill: str | None = None, terms: SimulationOptions | None = None, strict: bool = False, limits: UseLimits = NO_LIMITS,
) -> dict[str, Any]:  # fmt: skip
    """Run the simulation, or continue it. Returns its figures and the path of the report."""
    options = terms or SimulationOptions()
    asks_model = "/" in strategy
    if strategy not in STRATEGIES and not asks_model:
        fix = f"Choose one of {', '.join(sorted(STRATEGIES))}, or a model like anthropic/claude-haiku-4-5"
        raise Invalid("strategy", f"there is no strategy '{strategy}'", fix)
    if not asks_model and limits != NO_LIMITS:
        raise Invalid("max_cost", f"the strategy {strategy} asks no model", "Leave --max-cost and --max-tokens out")
    model = memory.resources.models(strategy) if asks_model else None
    if model is not None:
        limits.check(model)
        _check_lessons_price(memory, skill or _skill_of(strategy), limits)
    source = read_bar_file(file, symbol=symbol, strict=strict)
    plan = _Plan(memory, agent, strategy, source.bars, file.name, skill, options, (fee_bps, slippage_bps, starting_equity))
    handle = plan.agent_to_run()
    trader = None if model is None else RecordedModelTrader(handle, model, limits)
    prefix = plan.state(handle)
    own, _ = memory.skill_of(handle.agent)
    after_tick = _LessonsBetweenTicks(handle, trader)
    result = run_simulation(
        handle, source.bars, STRATEGIES[strategy]() if trader is None else trader, fee_bps=fee_bps, slippage_bps=slippage_bps,
        starting_equity=starting_equity, on_progress=on_progress, name=agent, prefix=prefix, after_tick=after_tick,
        venue=replace(plan.venue, dust_qty=handle.agent.settings.dust_qty),
        guard=Guard(own.limits) if own.limits else None, observe_first=asks_model,
        skipped_bars=source.skipped, batch=BATCH_TICKS,
    )  # fmt: skip
    figures = result.as_dict()
    if source.symbol_from_name:
        name = source.bars[0].symbol
        fix = "If it is another one: --symbol XAUUSD, and another --agent"
        figures["notes"] = [f"the file names no symbol: {name}, from its name. {fix}"]
    if report is not None:
        figures |= write_report(result, report)
    return figures | ({} if result.model is None else {"asked": result.model.rows()})


def _skill_of(strategy: str) -> str:
    """The skill of a run that names none."""
    return strategy.replace("/", "-").replace("_", "-").replace(":", "-").lower()


def _check_lessons_price(memory: Memory, skill: str, limits: UseLimits) -> None:
    """Raises Invalid if a model draws the lessons and its price, which the limit counts, is not known."""
    own = next((each for each, _ in memory.skills() if each.id == skill), None)
    if limits.max_cost is None or own is None or own.context.memory.reflection.model == STATS:
        return
    limits.check(memory.resources.models(own.context.memory.reflection.model))


class _LessonsBetweenTicks:
    """Draws lessons after the ticks that make them due; once more after the tick at which an earlier run was killed."""

    def __init__(self, agent: AgentMemory, trader: RecordedModelTrader | None) -> None:
        self._agent, self._trader, last = agent, trader, agent.simulation.last_tick()
        # The earlier run may have been killed between the tick that made lessons due and the lessons.
        self._owed_at = last.at if last is not None and agent.simulation.closed_trade_at_last_tick() else None
        if last is not None:
            agent.simulation.drop_lesson_lease()
        if self._owed_at is not None and trader is None:
            agent.lessons.reflect_if_due()

    def __call__(self, tick: Tick, receipt: Receipt) -> None:
        # A model is asked after its tick was written and before lessons are drawn, so its lessons wait for its answers.
        if not (receipt.reflection_due or tick.t == self._owed_at) or (self._trader and not self._trader.may_draw_lessons()):
            return
        self._agent.lessons.reflect_if_due()
        if self._trader is not None:
            self._trader.count_lessons()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be run under a name, and whether that is what runs there already."""

    memory: Memory
    name: str
    strategy: str
    bars: Sequence[Bar]
    file: str
    skill: str | None
    options: SimulationOptions
    amounts: tuple[str, str, str]  # fee, slippage, starting equity

    @property
    def venue(self) -> Venue:
        """The venue with the terms that are wanted."""
        return self.options.venue({bar.symbol for bar in self.bars})

    @property
    def skill_id(self) -> str:
        """The skill that is wanted."""
        return self.skill or _skill_of(self.strategy)

    def agent_to_run(self) -> AgentMemory:
        """The agent, created with its skill if it is not there. Raises before anything is written if it runs something else."""
        if self.skill is not None and self.options.limits:
            raise Invalid("limit", "cannot be combined with --skill, which has its own limits", "Leave one of them out")
        if not self.bars:
            raise Invalid("bars", "the file has no bar", "Give at least one bar")
        # It refuses amounts that make no sense.
        fee, slippage, equity = self._amounts()
        PaperBroker(equity, fee_bps=fee, slippage_bps=slippage, venue=self.venue)
        existing = next((one for one in self.memory.agents() if one.id == self.name), None)
        if existing is not None:
            self._refuse_other(existing)
        if self.skill is not None:
            self.memory.skill(self.skill)
        elif existing is None or existing.skill != self.skill_id:
            made = STRATEGIES.get(self.strategy)
            words = (made.__doc__ or "").strip() if made is not None else ""
            name = self.strategy.replace("_", " ")
            self.memory.create_skill(self.skill_id, name=name, strategy=words, limits=self.options.limits)
        settings: dict[str, Any] = {"starting_equity": self.amounts[2]}
        if existing is not None:
            # Only the equity is a term of the run; the other settings are the owner's.
            settings = asdict(existing.settings) | {"starting_equity": self.amounts[2]}
            settings.pop("equity_stated", None)
        self.memory.create_agent(self.name, skill=self.skill_id, mode="sim", settings=settings)
        return self.memory.agent(self.name)

    def state(self, agent: AgentMemory) -> str:
        """Record the terms with the agent if they are not. Returns the prefix of its order ids."""
        if (recorded := agent.simulation.terms()) is None:
            recorded = self._terms(agent.agent)
            agent.simulation.state_terms(recorded, self.bars[0].t0)
        return recorded[PREFIX]

    def _refuse_other(self, existing: Agent) -> None:
        agent = self.memory.agent(self.name)
        recorded, last = agent.simulation.terms(), agent.simulation.last_tick()
        found = self._differences(existing) if recorded is None else differing_terms(recorded, self._terms(existing))
        if recorded is None and last is not None:
            found += self._earlier_record(last.key, last.at, last.body.get("marks", {}))
        if found:
            fix = "Choose another name with --agent, or repeat the run as it was"
            raise Conflict("agent", f"'{self.name}' has a simulation with other terms: {'; '.join(found)}", fix)

    def _differences(self, existing: Agent) -> list[str]:
        """How an agent without a recorded run differs from the one that is wanted."""
        equity = self._amounts()[2]
        pairs: list[tuple[str, str, str]] = [
            ("mode", existing.mode, "sim"), ("skill", existing.skill, self.skill_id),
            ("starting_equity", decimal_text(existing.settings.starting_equity), decimal_text(equity)),
        ]  # fmt: skip
        if self.skill is None and existing.skill == self.skill_id:
            own = self.memory.skill_of(existing)[0].limits
            pairs += [("limits", canonical_plain(dict(own)), canonical_plain(dict(self.options.limits)))]
        return [f"{name} is {there} there and {here} here" for name, there, here in pairs if there != here]

    def _earlier_record(self, key: str, at: datetime, marks: Mapping[str, str]) -> list[str]:
        """What is wrong with ticks of a run whose terms no version of memtape recorded; only a strategy can repeat them."""
        closes = {bar.symbol: decimal_text(bar.c) for bar in self.bars if bar.t1 <= at}
        is_ours = key == f"{self.name}-{time_text(at)}" and any(bar.t1 == at for bar in self.bars)
        if "/" in self.strategy:
            return ["its terms and the answers of its model were not recorded, so it cannot be continued"]
        return [] if is_ours and closes == dict(marks) else ["the ticks on record are not those of these bars"]

    def _amounts(self) -> tuple[Decimal, Decimal, Decimal]:
        names = ("fee_bps", "slippage_bps", "starting_equity")
        fee, slippage, equity = (read(Money, given, at=name) for given, name in zip(self.amounts, names, strict=True))
        return fee, slippage, equity

    def _terms(self, agent: Agent) -> dict[str, str]:
        """The terms under which `agent` would run."""
        fee, slippage, equity = self._amounts()
        limits = self.options.limits if self.skill is None else self.memory.skill(self.skill)[0].limits
        if self.skill == agent.skill:
            limits = self.memory.skill_of(agent)[0].limits
        options = self.options
        venue = {"leverage": options.leverage, "funding": options.funding, "participation": options.participation}
        # Ids of orders and fills begin with it, so that those of two runs never look like the same ones.
        prefix = digest(f"{self.file}|{self.strategy}|{len(self.bars)}|{self.bars[0].t0}|{self.bars[-1].t1}")[:6]
        return simulation_terms(
            self.bars, strategy=self.strategy, asks_model="/" in self.strategy, skill=f"{self.skill_id}@{agent.skill_version}",
            limits=limits, fee_bps=fee, slippage_bps=slippage, starting_equity=equity,
            venue={name: None if text is None else decimal_text(Decimal(text)) for name, text in venue.items()}, prefix=prefix,
        )  # fmt: skip


def write_report(result: SimResult, where: Path) -> dict[str, str]:
    """Write the report of a run and its trades as CSV, and the questions that a model was asked. Returns the paths.

    The end of the name says which: `.html` or `.htm` is a page, a folder gets both forms, and anything else is Markdown.
    """
    report = report_of(result)
    if where.is_dir() or not where.suffix:
        pages, trades = [where / "report.html", where / "report.md"], where / "trades.csv"
        questions, metrics = where / "questions.csv", where / "report.metrics.json"
    else:
        pages, trades, questions = [where], where.with_suffix(".trades.csv"), where.with_suffix(".questions.csv")
        metrics = where.with_suffix(".metrics.json")
    try:
        if len(pages) > 1:
            where.mkdir(parents=True, exist_ok=True)
        for page in pages:
            text = _html(report) if page.suffix.lower() in (".html", ".htm") else render_markdown(report)
            page.write_text(text, encoding="utf-8", newline="\n")
        trades.write_text(trades_csv(report.closed), encoding="utf-8", newline="\n")
        # A search reads it, to find backtests like this one.
        if (tested := parse_report("report.md", render_markdown(report))) is not None:
            metrics.write_text(report_block(tested), encoding="utf-8", newline="\n")
        if result.model is not None:
            questions.write_text(questions_csv(result.model), encoding="utf-8", newline="\n")
    except OSError as error:
        raise Invalid("report", f"{where} cannot be written: {error.strerror}", "Name another file") from None
    written = {"report": str(pages[0].absolute()), "trades_file": str(trades.absolute()), "metrics_file": str(metrics.absolute())}
    return written | ({} if result.model is None else {"questions_file": str(questions.absolute())})


def _html(report: SimReport) -> str:
    # Templates take time to load, and most reports are Markdown.
    from memtape.surfaces.web.sim_report import render_page

    return render_page(report)
