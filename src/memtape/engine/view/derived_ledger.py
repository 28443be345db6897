"""The ledger folded again from the items of a cutoff, position by position: for moments and heads that no stored row shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtape.core.codec import EPOCH
from memtape.core.fill_records import fill_discrepancy
from memtape.core.items import Item, close_claim, in_log_order
from memtape.core.ledger.reported import claimed_trade
from memtape.core.ledger.rounds import trades_of_open_round
from memtape.core.observed import Claim, ClosedTrade, Closing
from memtape.core.values import read
from memtape.engine.write.positions import derive_position
from memtape.engine.write.reported_trades import ReportedTrades, reported_id

if TYPE_CHECKING:
    from memtape.core.events import Discrepancy
    from memtape.core.items import Position
    from memtape.core.ledger.trades import Trade
    from memtape.core.ledger.versions import TradeVersion
    from memtape.core.skills import Agent
    from memtape.store.cutoff import Cutoff, FlatPoint
    from memtape.store.tables import Tables


def known_positions(tables: Tables, cutoff: Cutoff) -> list[Position]:
    """Every position that fills, funding or snapshots name."""
    return sorted(set(tables.positions_ever(cutoff)) | set(tables.positions(since=EPOCH)))


def derive_trades(
    tables: Tables, agent: Agent, cutoff: Cutoff, position: Position, flat: FlatPoint | None
) -> tuple[list[Trade], list[Discrepancy]]:
    """The trades and discrepancies of one position since it was last flat, from what was known and recorded by the cutoff."""
    derived = derive_position(tables, agent, position, flat, cutoff, tables.head().first_snapshot)
    versions, open_round, discrepancies = derived.versions, derived.open, derived.discrepancies
    trades = [version.trade for version in versions if version.known_to is None]
    if open_round is not None:
        trades += trades_of_open_round(agent.terms(), *position, open_round)
    return trades, list(discrepancies)


def reported_versions(tables: Tables, agent: Agent, cutoff: Cutoff, *, voided: bool = False) -> list[TradeVersion]:
    """The trades that a source, or the agent itself, reported closed; with `voided` also those that an undo took back."""
    endings = {item.key: item for item in tables.items("closing", cutoff)}
    found: list[TradeVersion] = []
    source = ReportedTrades.stored(tables, agent, cutoff)
    for kind in ("trade", "claim"):
        for item in in_log_order(tables.items(kind, cutoff, voided=voided)):
            body, known_at = read(ClosedTrade if kind == "trade" else Claim, item.body), item.known_at
            if isinstance(body, Claim):
                if (ending := endings.get(item.key)) is not None:
                    body, known_at = close_claim(body, read(Closing, ending.body)), ending.known_at
                if body.exit_price is None:
                    continue
            own = Item(kind, item.key, item.at, body, item.symbol, item.leg)
            found += source.versions(own, known_at, item.skill_version, item.voided_at)
    return found


def differing_fills(tables: Tables, cutoff: Cutoff) -> list[Discrepancy]:
    """The fills that came again with other content, as far as was known and recorded by the cutoff."""
    return [fill_discrepancy(item) for item in tables.items("fill_differs", cutoff)]


def open_claims(tables: Tables, agent: Agent, cutoff: Cutoff) -> list[Trade]:
    """The trades that the agent reported open and has not yet reported closed."""
    ended = {item.key for item in tables.items("closing", cutoff)}
    found: list[Trade] = []
    for item in tables.items("claim", cutoff):
        if item.key not in ended and (claim := read(Claim, item.body)).exit_price is None:
            id_ = reported_id(agent.id, "claim", item.key, (item.symbol, item.leg))
            found.append(claimed_trade(agent.terms(), claim, item.skill_version, id_))
    return found


def all_versions(tables: Tables, agent: Agent, cutoff: Cutoff) -> list[TradeVersion]:
    """Closed trades in every version that a reader of the cutoff could have met, with the time of each."""
    found = reported_versions(tables, agent, cutoff, voided=True)
    first = tables.head().first_snapshot
    for position in known_positions(tables, cutoff):
        found += derive_position(tables, agent, position, None, cutoff, first).versions
    return found
