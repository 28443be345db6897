"""`memtape follow`: a live account, looked at again and again, into an agent's memory."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memtape.surfaces.cli.commands import answer, reporting
from memtape.surfaces.cli.options import AgentName, Db, Json, Owner, open_store, say


def follow(
    address: Annotated[str, typer.Option(help="The account, 0x and 40 hex digits. Only read: no key is needed.")],
    agent: AgentName = "main",
    source: Annotated[str, typer.Option(help="hyperliquid.")] = "hyperliquid",
    url: Annotated[str | None, typer.Option(help="Where the venue is asked, if not at its own address.")] = None,
    coins: Annotated[str | None, typer.Option(help="Coins whose bars are kept before the first trade, with commas.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks; at least 1.")] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
    db: Db = None, owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Follow a live account: its fills, funding, positions and bars go into the agent's memory; lessons are drawn when due."""
    with reporting(as_json), open_store(db, owner) as memory:
        from datetime import timedelta
        from threading import Event

        from memtape.brokers.live import MAINNET, Hyperliquid
        from memtape.errors import Invalid, MemtapeError
        from memtape.workers.live_account import FollowStep, follow_until
        from memtape.workers.live_account import follow_account as look
        from memtape.workers.schedule import running_schedule

        if source != "hyperliquid":
            raise Invalid("source", f"there is no live source '{source}'", "Use hyperliquid")
        venue = Hyperliquid(address, url or MAINNET, coins=[coin.strip() for coin in (coins or "").split(",") if coin.strip()])
        handle = memory.agent(agent)
        if once:
            answer(_told(look(handle, venue)), as_json)
            return

        def tell(told: FollowStep | MemtapeError) -> None:
            if isinstance(told, MemtapeError):
                say(str(told))
            elif told.written:
                answer(_told(told), as_json)

        say(f"Following {address} for {agent}, every {every:g} s. End with ctrl-C.")
        try:
            with running_schedule(memory):
                follow_until(handle, venue, Event(), every=timedelta(seconds=every), on_step=tell)
        except KeyboardInterrupt:
            say("Ended.")


def _told(step: Any) -> dict[str, Any]:
    """One look, in words."""
    tick, receipt = step.tick, step.receipt
    return {
        "t": tick.t.isoformat().replace("+00:00", "Z"), "written": step.written, "fills": len(tick.fills),
        "funding": len(tick.funding), "bars": len(tick.bars), "positions": len(tick.positions or {}),
        "equity": None if tick.equity is None else str(tick.equity),
        "concluded": [] if receipt is None else [event.name for event in receipt.concluded],
    }  # fmt: skip
