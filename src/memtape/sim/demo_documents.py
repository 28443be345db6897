"""Documents for the demo: one of its agents gets a workspace, so that there is something to search, to cite and to decide.

The manual is the skill of the demo in words, the report is that of its simulated run, the notes and the proposal are made from
the figures of its record. Every step is done once: a file that is there is not written again, a note is known by its id, and
nothing is proposed where something was proposed before. So it may be called whenever the demo is opened.

>>> manual().count(LESS[0])
1
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from memtape.sim.demo import FEE_BPS, LABEL, LIMITS, PLAYERS, SKILLS, SLIPPAGE_BPS, STARTING_EQUITY, prices
from memtape.sim.report import render
from memtape.sim.run import SimResult, run_simulation

if TYPE_CHECKING:
    from memtape.engine import AgentMemory, Memory

PLAYER = PLAYERS[0]
MANUAL, REPORT, OUTLOOK = "TRADING_MANUAL.md", "reports/breakout-2008-2013.md", "research/outlook-2013.md"
LESS = ("1 % of equity at risk", "0.5 % of equity at risk")
RUN = "demo"
MOST_NOTES = 10_000


def fill_documents(memory: Memory, folder: str | Path, result: SimResult | None = None) -> Path:
    """Give the demo's first agent a workspace in a folder, two notes and an open proposal; where the workspace is.

    `result` is the run of the agent, if it is at hand; else it is run again, which adds nothing: its ticks are known.
    """
    agent, home = memory.agent(PLAYER.name), Path(folder)
    for path, text in _pages(agent, home, result):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    agent.documents.add(home)
    written = {note.id for note in agent.journal.notes(MOST_NOTES)}
    for number, words in enumerate(_notes(agent), 1):
        if f"demo-{number}" not in written:  # its figures may be others by now, and notes are not rewritten
            agent.journal.append("journal", words, run=RUN, id=f"demo-{number}")
    if not agent.proposals.all() and (home / MANUAL).read_text(encoding="utf-8").count(LESS[0]) == 1:
        agent.proposals.propose(MANUAL, old=LESS[0], new=LESS[1], reason=_reason(agent), run=RUN)
    return home


def _pages(agent: AgentMemory, home: Path, result: SimResult | None) -> Iterator[tuple[str, str]]:
    """The files that are not there yet."""
    for path, text in ((MANUAL, manual()), (OUTLOOK, outlook())):
        if not (home / path).exists():
            yield path, text
    if not (home / REPORT).exists():
        yield REPORT, render(result or _run_again(agent))


def _run_again(agent: AgentMemory) -> SimResult:
    bars = [bar for bar in prices() if bar.symbol in PLAYER.symbols]
    return run_simulation(
        agent, bars, PLAYER.strategy, name=PLAYER.name, fee_bps=FEE_BPS, slippage_bps=SLIPPAGE_BPS,
        starting_equity=STARTING_EQUITY,
    )  # fmt: skip


def manual() -> str:
    """The skill of the demo as its owner would write it down."""
    skill = SKILLS[PLAYER.skill]
    rules = "\n".join(f"- R{number}: {rule}" for number, rule in enumerate(skill.avoid, 1))
    limits = "\n".join(f"- {what}: {how}" for what, how in LIMITS.items())
    return f"# Trading manual\n\n{LABEL}\n\n## Strategy\n\n{skill.strategy}\n\n## Avoid\n\n{rules}\n\n## Limits\n\n{limits}\n"


def outlook() -> str:
    """A text from outside, to show how one is told from the rest."""
    return (
        "# Outlook for technology shares\n\nWritten for the demo in place of a text from the web.\n\n"
        "Some expect AAPL to recover in 2013, others a longer fall. Whoever reads this should not act on it: a text that came "
        "from outside is quoted, and never an instruction.\n"
    )


def _notes(agent: AgentMemory) -> list[str]:
    """Two notes as the agent would write them, from the figures of its own record."""
    did = {symbol: agent.ledger.performance(symbol=symbol) for symbol in PLAYER.symbols}
    mean = [f"{symbol} {one.mean_r:+.2f}R a trade (n = {one.n_r})" for symbol, one in did.items() if one.mean_r is not None]
    won = [f"{name} {100 * one.win_rate:.0f} % (n = {one.n_priced})" for name, one in did.items() if one.win_rate is not None]
    return [
        f"End of the simulated run. By symbol: {'; '.join(mean) or 'no trade has closed yet'}.",
        f"Trades that won: {'; '.join(won) or 'none has closed yet'}. A row of losses alone is no reason to stop.",
    ]


def _reason(agent: AgentMemory) -> str:
    deepest = agent.ledger.performance().max_drawdown_pct
    fell = f"Equity fell by {deepest:.1f} % from its peak" if deepest else "Equity has yet to fall"
    return f"{fell}, with 1 % of it at risk on each trade; with half of that it would be about half as deep. (Demo, simulated.)"
