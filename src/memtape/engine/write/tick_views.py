"""A tick as one position sees it, and whether it says anything new about that position."""

from __future__ import annotations

from datetime import datetime

from memtape.core.items import Position
from memtape.core.ledger.position_events import SnapshotView
from memtape.core.ledger.rounds import Round
from memtape.core.observed import Decision, HeldPosition, Tick
from memtape.core.skills import Agent
from memtape.core.values import ZERO


def view_of_tick(
    agent: Agent, tick: Tick, known_at: datetime, position: Position, decision: Decision | None, *, first: bool
) -> SnapshotView:
    """A tick as one position sees it; `first` says that it is the agent's very first snapshot."""
    symbol, leg = position
    of_leg = [held for held in tick.positions.get(symbol, ()) if held.leg == leg] if tick.positions else ()
    return SnapshotView(
        id=tick.id, t=tick.t, known_at=known_at, skill_version=agent.skill_version,
        first=first, snapshot=tick.positions is not None, held=of_leg[0] if of_leg else None,
        mark=tick.marks.get(symbol), decision=decision, rate=tick.rates.get(symbol) if tick.rates else None,
    )  # fmt: skip


def repeats_snapshot(round_: Round, held: HeldPosition) -> bool:
    """Returns True if a snapshot shows an open position exactly as the one before, and no rate follows from it.

    Then it says nothing new (`says_nothing_new`). Most ticks of a held position are such.
    """
    return (
        held.rate is None and round_.terms.base is None and held.entry_px == round_.shown_entry
        and held.qty == (round_.qty if round_.side > 0 else -round_.qty)
    )  # fmt: skip


def says_nothing_new(agent: Agent, open_: Round | None, view: SnapshotView) -> bool:
    """Returns True if a tick changes nothing about a position: neither its quantity nor what is known of it."""
    if not shows_ledger_quantity(agent, open_, view):
        return False
    if open_ is None:
        return True
    if states_other_rate(agent, open_, view):
        return False
    if view.decision is not None and (view.decision.stop is not None or view.decision.target is not None):
        return False
    return not view.snapshot or (view.held.entry_px if view.held else None) == open_.shown_entry


def states_other_rate(agent: Agent, open_: Round | None, view: SnapshotView) -> bool:
    """Returns True if a tick states another rate of an open position than the last one known."""
    if open_ is None:
        return False
    rate = view.stated_rate or open_.terms.rate_from(view.stated_mark, agent.settings.currency)
    return rate is not None and rate != open_.rate


def shows_ledger_quantity(agent: Agent, open_: Round | None, view: SnapshotView) -> bool:
    """Returns True if a tick has no snapshot, or one that shows the quantity of the ledger."""
    if not view.snapshot:
        return True
    dust = agent.settings.dust_qty
    shown = view.held.qty if view.held and abs(view.held.qty) > dust else ZERO
    booked = open_.qty * open_.side if open_ else ZERO
    return abs(shown - booked) <= dust
