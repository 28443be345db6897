"""`memtape follow` and `memtape sync`: read a live account into an agent's memory, repeatedly or once."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, say
from memtape.surfaces.cli.printing import answer, reporting

if TYPE_CHECKING:
    from memtape.engine import Memory
    from memtape.errors import MemtapeError
    from memtape.workers.live_account import FollowStep


AccountAddress = Annotated[str, typer.Option(help="The account: 0x and 40 hex digits. It is only read, so no key is needed.")]
SourceName = Annotated[str, typer.Option(help="Where the account is: hyperliquid.")]
VenueUrl = Annotated[str | None, typer.Option(help="Another address of the venue.")]
CoinNames = Annotated[str | None, typer.Option(help="Coins whose bars are recorded before the first trade: A,B,C.")]
CoinRates = Annotated[
    str | None,
    typer.Option(help="Account currency per coin, for fees in other coins: A=0.99,B=38, or a file with lines A,0.99."),
]


def follow(
    address: AccountAddress, agent: AgentName = None, source: SourceName = "hyperliquid", url: VenueUrl = None,
    coins: CoinNames = None, rates: CoinRates = None,
    every: Annotated[float, typer.Option(help="Seconds between two reads; at least 1.")] = 10.0,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Follow a live account: record its fills, funding, cash flows, positions and bars; compute lessons when they are due."""
    with reporting(as_json), open_store(db, owner) as memory:
        from datetime import timedelta
        from threading import Event

        from memtape.workers.decision_bars import fetching_decision_bars
        from memtape.workers.live_account import follow_until
        from memtape.workers.schedule import running_schedule

        account = _Account(memory, agent, address, source, url, coins, rates, as_json, once=False)
        agent = account.handle.agent.id
        say(f"Following {address}\nfor {agent}, every {every:g} s. Stop with ctrl-C.")
        try:
            with running_schedule(memory), fetching_decision_bars(memory, agents={agent}):
                follow_until(account.handle, account.venue, Event(), every=timedelta(seconds=every), on_step=account.report)
        except KeyboardInterrupt:
            say("Stopped.")


def sync(
    address: AccountAddress, agent: AgentName = None, source: SourceName = "hyperliquid", url: VenueUrl = None,
    coins: CoinNames = None, rates: CoinRates = None, db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Read a live account once: record its fills, funding, cash flows, positions and bars since the last read."""
    with reporting(as_json), open_store(db, owner) as memory:
        from memtape.workers.live_account import follow_account

        account = _Account(memory, agent, address, source, url, coins, rates, as_json, once=True)
        account.report(follow_account(account.handle, account.venue))


class _Account:
    """An account at its venue, and what is printed about each read of it."""

    def __init__(
        self, memory: Memory, agent: str | None, address: str, source: str, url: str | None, coins: str | None, rates: str | None,
        as_json: bool, *, once: bool,
    ) -> None:  # fmt: skip
        from memtape.brokers.live import MAINNET, Hyperliquid
        from memtape.core.skills import DEFAULT_AGENT
        from memtape.engine.account_polls import FollowedVenue, rate_unknown_fees
        from memtape.errors import Invalid

        if source != "hyperliquid":
            raise Invalid("source", f"there is no live source '{source}'", "Use hyperliquid")
        listed, given = [coin.strip() for coin in (coins or "").split(",") if coin.strip()], read_rates(rates or "")
        self.venue = Hyperliquid(address, url or MAINNET, coins=listed, rates=given)
        # It is stated once the venue has answered: then the bars of the agent's decisions are read there.
        self.handle, self._followed = memory.agent(agent or DEFAULT_AGENT), FollowedVenue(source, url or MAINNET)
        self._as_json, self._once, self._said = as_json, once, set[str]()
        if (n := rate_unknown_fees(self.handle, given)) and not as_json:
            say(f"{n} fee{'s' if n > 1 else ''} without a rate until now {'are' if n > 1 else 'is'} counted.")

    def report(self, step: FollowStep | MemtapeError) -> None:
        """Print what a read recorded, and once what the venue does not tell."""
        from memtape.engine.account_polls import state_followed_venue
        from memtape.errors import MemtapeError

        if isinstance(step, MemtapeError):
            say(str(step))
            return
        state_followed_venue(self.handle, self._followed)
        from memtape.core.venue_coverage import missing_notes

        notes = missing_notes(self.venue.coverage)
        if self._as_json and (step.written or self._once):
            answer(_step_report(step) | {"not_in_record": notes}, as_json=True)
        elif step.written or self._once:
            typer.echo(step_line(step))
        for note in notes if not self._as_json else ():
            if note not in self._said:
                self._said.add(note)
                typer.echo(f"Not in this record: {note}.")


def read_rates(given: str) -> dict[str, Decimal]:
    """Returns the rates of coins, from `A=0.99,B=38` or from a file with lines `A,0.99` or `A=0.99`; a heading is left out.

    >>> read_rates("USDH=0.99, HYPE=38")
    {'USDH': Decimal('0.99'), 'HYPE': Decimal('38')}
    """
    from pathlib import Path

    from memtape.errors import Invalid

    parts = [part.strip() for part in given.split(",") if part.strip()]
    if given and "=" not in given and Path(given).is_file():
        lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
        parts = [line.strip().replace(",", "=", 1) for line in lines if line.strip()]
        if parts and parts[0].lower().replace(" ", "") in ("coin=rate", "token=rate"):
            parts = parts[1:]
    found: dict[str, Decimal] = {}
    for part in parts:
        coin, equals, text = (piece.strip() for piece in part.partition("="))
        if not coin or not equals:
            raise Invalid("rates", f"'{part[:40]}' is not COIN=RATE", "Give them like USDH=0.99,HYPE=38, or name a file")
        try:
            rate = Decimal(text)
        except InvalidOperation:
            rate = Decimal(0)
        if not rate.is_finite() or rate <= 0:
            raise Invalid("rates", f"'{text[:40]}' is not a rate of {coin[:20]}", "Give a number above 0")
        found[coin] = rate
    return found


def step_line(step: FollowStep) -> str:
    """One read in one line: its time, what was recorded, and what followed from it.

    >>> from datetime import UTC, datetime
    >>> from memtape.core.observed import Tick
    >>> from memtape.workers.live_account import FollowStep
    >>> step_line(FollowStep(Tick(id="t", t=datetime(2026, 6, 4, 12, tzinfo=UTC), positions={}, equity=Decimal(5000)), None))
    '2026-06-04 12:00:00  nothing new; equity 5,000.00'
    """
    tick = step.tick
    kinds = (("fill", tick.fills), ("payment", tick.funding), ("bar", tick.bars), ("cash flow", tick.cash_flows))
    found = [f"{len(rows)} {name}{'s' if len(rows) > 1 else ''}" for name, rows in kinds if rows]
    if tick.cash_flows:
        found.append(f"{sum(flow.usd for flow in tick.cash_flows):+,.2f} moved")
    parts = [", ".join(found) if found else "account recorded" if step.written else "nothing new"]
    if tick.positions:
        parts.append("holding " + ", ".join(sorted(tick.positions)))
    if tick.equity is not None:
        parts.append(f"equity {tick.equity:,.2f}")
    else:
        parts.append("equity held back: nothing listed yet explains its change")
    if step.receipt is not None and step.receipt.concluded:
        parts.append(", ".join(event.name for event in step.receipt.concluded))
    return f"{tick.t:%Y-%m-%d %H:%M:%S}  " + "; ".join(parts)


def _step_report(step: FollowStep) -> dict[str, Any]:
    """What one read recorded."""
    tick, receipt = step.tick, step.receipt
    return {
        "t": tick.t.isoformat().replace("+00:00", "Z"), "written": step.written, "fills": len(tick.fills),
        "funding": len(tick.funding), "cash_flows": len(tick.cash_flows), "bars": len(tick.bars),
        "positions": len(tick.positions or {}),
        "equity": None if tick.equity is None else str(tick.equity),
        "concluded": [] if receipt is None else [event.name for event in receipt.concluded],
    }  # fmt: skip
