"""`memtape follow`: reads a live account repeatedly into an agent's memory."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import answer, reporting
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, say


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
        from memtape.engine.account_polls import FollowedVenue, state_followed_venue
        from memtape.errors import Invalid, MemtapeError
        from memtape.workers.decision_bars import fetching_decision_bars
        from memtape.workers.live_account import FollowStep, follow_account, follow_until
        from memtape.workers.schedule import running_schedule

        if source != "hyperliquid":
            raise Invalid("source", f"there is no live source '{source}'", "Use hyperliquid")
        listed = [coin.strip() for coin in (coins or "").split(",") if coin.strip()]
        venue = Hyperliquid(address, url or MAINNET, coins=listed, rates=read_rates(rates or ""))
        # It is stated once the venue has answered: then the bars of the agent's decisions are read there.
        handle, followed = memory.agent(agent), FollowedVenue(source, url or MAINNET)
        if once:
            answer(_step_report(follow_account(handle, venue)), as_json)
            state_followed_venue(handle, followed)
            return

        def report(step: FollowStep | MemtapeError) -> None:
            if isinstance(step, MemtapeError):
                say(str(step))
                return
            state_followed_venue(handle, followed)
            if step.written:
                answer(_step_report(step), as_json)

        say(f"Following {address} for {agent}, every {every:g} s. Stop with ctrl-C.")
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


def _step_report(step: Any) -> dict[str, Any]:
    """What one read recorded."""
    tick, receipt = step.tick, step.receipt
    return {
        "t": tick.t.isoformat().replace("+00:00", "Z"), "written": step.written, "fills": len(tick.fills),
        "funding": len(tick.funding), "cash_flows": len(tick.cash_flows), "bars": len(tick.bars),
        "positions": len(tick.positions or {}),
        "equity": None if tick.equity is None else str(tick.equity),
        "concluded": [] if receipt is None else [event.name for event in receipt.concluded],
    }  # fmt: skip
