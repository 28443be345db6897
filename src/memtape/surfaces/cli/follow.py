"""`memtape follow`: reads a live account repeatedly into an agent's memory."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memtape.core.venue_coverage import missing_notes
from memtape.surfaces.cli.commands import answer, reporting
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, say

if TYPE_CHECKING:
    from memtape.errors import MemtapeError
    from memtape.workers.live_account import FollowStep


def follow(
    address: Annotated[str, typer.Option(help="The account: 0x and 40 hex digits. It is only read, so no key is needed.")],
    agent: AgentName = "main",
    source: Annotated[str, typer.Option(help="hyperliquid.")] = "hyperliquid",
    url: Annotated[str | None, typer.Option(help="Another address of the venue.")] = None,
    coins: Annotated[str | None, typer.Option(help="Coins whose bars are recorded before the first trade: A,B,C.")] = None,
    rates: Annotated[
        str | None,
        typer.Option(help="Account currency per coin, for fees in other coins: A=0.99,B=38, or a file with lines A,0.99."),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two reads; at least 1.")] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Read once and stop.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Follow a live account: record its fills, funding, cash flows, positions and bars; compute lessons when they are due."""
    with reporting(as_json), open_store(db, owner) as memory:
        from datetime import timedelta
        from threading import Event

        from memtape.brokers.live import MAINNET, Hyperliquid
        from memtape.engine.account_polls import FollowedVenue, rate_unknown_fees, state_followed_venue
        from memtape.errors import Invalid, MemtapeError
        from memtape.workers.decision_bars import fetching_decision_bars
        from memtape.workers.live_account import follow_account, follow_until
        from memtape.workers.schedule import running_schedule

        if source != "hyperliquid":
            raise Invalid("source", f"there is no live source '{source}'", "Use hyperliquid")
        listed, given = [coin.strip() for coin in (coins or "").split(",") if coin.strip()], read_rates(rates or "")
        venue = Hyperliquid(address, url or MAINNET, coins=listed, rates=given)
        # It is stated once the venue has answered: then the bars of the agent's decisions are read there.
        handle, followed = memory.agent(agent), FollowedVenue(source, url or MAINNET)
        said: set[str] = set()

        def report(step: FollowStep | MemtapeError) -> None:
            if isinstance(step, MemtapeError):
                say(str(step))
                return
            state_followed_venue(handle, followed)
            notes = missing_notes(venue.coverage)
            if as_json and (step.written or once):
                answer(_step_report(step) | {"not_in_record": notes}, as_json=True)
            elif step.written or once:
                typer.echo(step_line(step))
            for note in notes if not as_json else ():
                if note not in said:
                    said.add(note)
                    typer.echo(f"Not in this record: {note}.")

        if (n := rate_unknown_fees(handle, given)) and not as_json:
            say(f"{n} fee{'s' if n > 1 else ''} without a rate until now {'are' if n > 1 else 'is'} counted.")
        if once:
            report(follow_account(handle, venue))
            return
        say(f"Following {address}\nfor {agent}, every {every:g} s. Stop with ctrl-C.")
        try:
            with running_schedule(memory), fetching_decision_bars(memory, agents={agent}):
                follow_until(handle, venue, Event(), every=timedelta(seconds=every), on_step=report)
        except KeyboardInterrupt:
            say("Stopped.")


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
