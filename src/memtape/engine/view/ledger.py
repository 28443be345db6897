"""What is told of one agent: trades, positions, decisions, equity; each as of any moment and any head of the log.

Reading never writes. Without limits the stored rows answer. As of an earlier moment, the trades that were settled by then
come from their rows and the rest is folded again from what was known; with a `head` everything is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from memtape.core.codec import EPOCH
from memtape.core.events import Discrepancy
from memtape.core.items import Item, Position, StoredItem, claimed_trade, close_claim, in_log_order
from memtape.core.ledger.performance import Curve, Performance, equity_curve, performance
from memtape.core.ledger.rounds import trade_from_round
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.observed import Bar, CashFlow, Claim, ClosedTrade, Closing, Decision, EquityMark, Funding, Run
from memtape.core.skills import Agent
from memtape.core.values import ZERO, read
from memtape.engine.write.positions import derive_position, reported_id, reported_version
from memtape.engine.write.writer import first_broker_record
from memtape.store.cutoff import EVERYTHING, Cutoff
from memtape.store.rows import Head
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.engine.memory import Memory


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision as it was recorded, with the tick it came in."""

    decision: Decision
    at: datetime
    known_at: datetime
    tick: str | None

    @property
    def run(self) -> Run | None:
        """The run that took it."""
        return self.decision.run


class Reading:
    """The read side of an agent's memory."""

    def __init__(self, memory: Memory, agent: Agent) -> None:
        self._memory = memory
        self.agent = agent

    @property
    def settings(self) -> object:
        """What its account fixes."""
        return self.agent.settings

    def head(self) -> Head:
        """Where its stream stands."""
        with self._memory.reading(self.agent.id) as tables:
            return tables.head()

    def _said_at(self, tables: Tables) -> datetime:
        """When a statement counts as made: in a simulation at the last moment observed (or before all), else by the clock."""
        return (tables.head().known_at or EPOCH) if self.agent.mode == "sim" else self._memory.clock.now()

    def trades(
        self, *, status: str | None = None, symbol: str | None = None, strategy: str | None = None,
        side: str | None = None, as_of: datetime | None = None, head: int | None = None, newest: bool = True,
        limit: int | None = None, after: tuple[datetime, str] | None = None,
    ) -> list[Trade]:  # fmt: skip
        """Trades, newest entry first: open and closed, or one of them; as of a moment, by a head of the log."""
        known = Cutoff(as_of, head)
        with self._memory.reading(self.agent.id) as tables:
            verified = is_verified(tables, known)
            if known.all or (head is None and self._is_latest(tables, as_of)):
                closed = [] if status == "open" else tables.closed_trades(
                    EVERYTHING, symbol=symbol, strategy=strategy, side=side, newest=newest, limit=limit, after=after,
                    claims=not verified,
                )  # fmt: skip
                open_ = [] if status == "closed" else self._open(tables)
                found = closed + open_
            else:
                found, _ = ledger_at(tables, self.agent, known)
            labels = teach_labels(tables, known)
        chosen = [
            trade for trade in found
            if (status is None or trade.status == status)
            and not (verified and trade.quality == "claimed")
            and (symbol is None or trade.symbol == symbol)
            and (strategy is None or trade.strategy == strategy)
            and (side is None or trade.side == side)
            and (after is None or _follows(trade, after, newest))
        ]  # fmt: skip
        chosen.sort(key=lambda trade: trade.id)
        chosen.sort(key=lambda trade: trade.entry_at, reverse=newest)
        few = chosen if limit is None else chosen[:limit]
        return [trade._replace(teach=labels[trade.id]) if trade.id in labels else trade for trade in few] if labels else few

    def _is_latest(self, tables: Tables, as_of: datetime | None) -> bool:
        latest = tables.head().known_at
        return as_of is not None and (latest is None or as_of >= latest)

    def _open(self, tables: Tables) -> list[Trade]:
        rows = tables.positions()
        held = [
            trade_from_round(self.agent.terms(), *position, row.round) for position, row in rows.items() if row.round is not None
        ]
        return held + open_claims(tables, self.agent, EVERYTHING)

    def trade(self, id: str, *, as_of: datetime | None = None, head: int | None = None) -> Trade | None:
        """One trade."""
        return next((trade for trade in self.trades(as_of=as_of, head=head) if trade.id == id), None)

    def discrepancies(self, limit: int = 1000, *, as_of: datetime | None = None, head: int | None = None) -> list[Discrepancy]:
        """Where the broker showed something else than its fills explain, newest first."""
        known = Cutoff(as_of, head)
        with self._memory.reading(self.agent.id) as tables:
            if known.all or (head is None and self._is_latest(tables, as_of)):
                return tables.discrepancies(limit)
            _, found = ledger_at(tables, self.agent, known)
        found.sort(key=lambda d: (d.symbol, d.leg))
        return sorted(found, key=lambda d: d.at, reverse=True)[:limit]

    def decisions(
        self, *, symbol: str | None = None, limit: int | None = None, as_of: datetime | None = None,
        head: int | None = None, before: datetime | None = None,
    ) -> list[DecisionRow]:  # fmt: skip
        """Decisions, newest first."""
        with self._memory.reading(self.agent.id) as tables:
            items = tables.items("decision", Cutoff(as_of, head), symbol=symbol, limit=limit, before=before, newest=True)
        return [DecisionRow(read(Decision, item.body), item.at, item.known_at, item.ref) for item in items]

    def decision(self, id: str) -> DecisionRow | None:
        """One decision."""
        with self._memory.reading(self.agent.id) as tables:
            items = tables.items("decision", EVERYTHING, keys=[id])
        return next((DecisionRow(read(Decision, item.body), item.at, item.known_at, item.ref) for item in items), None)

    def bars(self, symbol: str, since: datetime, until: datetime) -> list[Bar]:
        """The bars of a symbol that opened within a time, of every length, in order of their opening."""
        with self._memory.reading(self.agent.id) as tables:
            found = tables.bars_between(symbol, since, until)
        return sorted(found.values(), key=lambda bar: (bar.t0, bar.frame))

    def imports(self, *, as_of: datetime | None = None, head: int | None = None) -> list[tuple[StoredItem, bool]]:
        """The imports, oldest first, and whether each was undone."""
        known = Cutoff(as_of, head)
        with self._memory.reading(self.agent.id) as tables:
            undone = {item.key for item in tables.items("undo", known)}
            return [(item, item.key in undone) for item in tables.items("import", known)]

    def orphan_funding(self, *, as_of: datetime | None = None, head: int | None = None) -> dict[str, Decimal]:
        """Funding that fell when no trade was open, by symbol: all funding less what the trades carry."""
        known = Cutoff(as_of, head)
        with self._memory.reading(self.agent.id) as tables:
            paid: dict[str, Decimal] = {}
            for item in tables.items("funding", known):
                paid[item.symbol] = paid.get(item.symbol, ZERO) + read(Funding, item.body).usd
        if not paid:
            return {}
        for trade in self.trades(as_of=as_of, head=head):
            if trade.symbol in paid and trade.quality not in ("reported", "claimed"):
                paid[trade.symbol] -= trade.funding_usd
        return {symbol: usd for symbol, usd in sorted(paid.items()) if usd}

    def equity(self, *, as_of: datetime | None = None, head: int | None = None) -> Curve:
        """The equity curve: the broker's marks less deposits, or starting equity plus net PnL where there are none."""
        known = Cutoff(as_of, head)
        with self._memory.reading(self.agent.id) as tables:
            marks = [read(EquityMark, item.body) for item in tables.items("equity", known)]
            flows = [read(CashFlow, item.body) for item in tables.items("flow", known)]
        closed = self.trades(status="closed", as_of=as_of, head=head, newest=False)
        return equity_curve(closed, marks, flows, self.agent.settings.starting_equity)

    def performance(
        self, *, symbol: str | None = None, strategy: str | None = None, as_of: datetime | None = None,
        head: int | None = None,
    ) -> Performance:  # fmt: skip
        """How it has done, over closed trades."""
        closed = self.trades(status="closed", symbol=symbol, strategy=strategy, as_of=as_of, head=head, newest=False)
        whole = symbol is None and strategy is None
        return performance(closed, self.equity(as_of=as_of, head=head) if whole else None, self.agent.settings)


def teach_labels(tables: Tables, known: Cutoff) -> dict[str, str]:
    """How the owner said that trades may teach, where that is not as usual."""
    said = sorted(tables.items("correction", known), key=lambda item: item.seq)
    return {item.symbol: item.body["changes"]["teach"] for item in said if "teach" in item.body["changes"]}


def ledger_at(tables: Tables, agent: Agent, known: Cutoff) -> tuple[list[Trade], list[Discrepancy]]:
    """All trades and discrepancies of an agent as a reader of that moment and head would have seen them."""
    trades: list[Trade] = []
    settled: dict[Position, list[Trade]] = {}
    if known.head is None:
        for trade in tables.closed_trades(known, newest=False):
            if trade.quality in ("reported", "claimed"):
                trades.append(trade)
            else:
                settled.setdefault((trade.symbol, trade.leg), []).append(trade)
    else:
        trades += [version.trade for version in _reported(tables, agent, known)]
    trades += open_claims(tables, agent, known)
    first, standing = tables.head().first_snapshot, tables.discrepancies()
    discrepancies: list[Discrepancy] = []
    for position in _positions_known(tables, known):
        flat = None
        if known.head is None and known.as_of is not None:
            flat = tables.boundary(position, known.as_of, known.as_of, _open_at(tables, position))
        if flat is not None:  # all up to there was known; what follows is folded again from what was
            trades += [t for t in settled.get(position, ()) if t.exit_at is not None and t.exit_at <= flat.at]
            discrepancies += [d for d in standing if (d.symbol, d.leg) == position and d.at <= flat.at]
        derived = derive_position(tables, agent, position, flat, known, first)
        versions, open_, differing = derived.versions, derived.open, derived.discrepancies
        trades += [version.trade for version in versions if version.known_to is None]
        discrepancies += differing
        if open_ is not None:
            trades.append(trade_from_round(agent.terms(), *position, open_))
    return trades, discrepancies


def _reported(tables: Tables, agent: Agent, known: Cutoff, gone: bool = False) -> list[TradeVersion]:
    """The trades that a source, or the agent itself, reported closed, at once or later; with those taken back on request."""
    endings = {item.key: item for item in tables.items("closing", known)}
    found: list[TradeVersion] = []
    for kind in ("trade", "claim"):
        for item in in_log_order(tables.items(kind, known, gone=gone)):
            body, known_at = read(ClosedTrade if kind == "trade" else Claim, item.body), item.known_at
            if isinstance(body, Claim):
                if (ended := endings.get(item.key)) is not None:
                    body, known_at = close_claim(body, read(Closing, ended.body)), ended.known_at
                if body.exit_price is None:
                    continue
            own = Item(kind, item.key, item.at, body, item.symbol, item.leg)
            found.append(replace(reported_version(agent, own, known_at, item.skill_version), known_to=item.gone_at))
    return found


def trade_versions(tables: Tables, agent: Agent, known: Cutoff) -> list[TradeVersion]:
    """Closed trades in all the versions that a reader of a moment and a head could have met, with when each was known."""
    found = _reported(tables, agent, known, gone=True)
    first = tables.head().first_snapshot
    for position in _positions_known(tables, known):
        found += derive_position(tables, agent, position, None, known, first).versions
    return found


def open_claims(tables: Tables, agent: Agent, known: Cutoff) -> list[Trade]:
    """The trades that the agent reported open and has not yet reported closed."""
    ended = {item.key for item in tables.items("closing", known)}
    found: list[Trade] = []
    for item in tables.items("claim", known):
        if item.key not in ended and (claim := read(Claim, item.body)).exit_price is None:
            id_ = reported_id(agent.id, "claim", item.key, (item.symbol, item.leg))
            found.append(claimed_trade(agent.terms(), claim, item.skill_version, id_))
    return found


def is_verified(tables: Tables, known: Cutoff) -> bool:
    """Whether there was a broker to ask: then the agent's own claims are no part of its ledger."""
    undone_later = known.as_of is not None and any(item.known_at > known.as_of for item in tables.items("undo", EVERYTHING))
    stored = known.head is None and not undone_later
    verified_from = tables.head().verified_from if stored else first_broker_record(tables, known)
    return verified_from is not None and (known.as_of is None or verified_from <= known.as_of)


def _open_at(tables: Tables, position: Position) -> datetime | None:
    row = tables.positions([position[0]]).get(position)
    return row.round.entry_at if row and row.round else None


def _positions_known(tables: Tables, known: Cutoff) -> list[Position]:
    """Every position that fills, funding or snapshots name."""
    named = set(tables.positions_ever(known))
    return sorted(named | set(tables.positions(since=EPOCH)))


def _follows(trade: Trade, after: tuple[datetime, str], newest: bool) -> bool:
    if trade.entry_at == after[0]:
        return trade.id > after[1]
    return trade.entry_at < after[0] if newest else trade.entry_at > after[0]


def trade_totals(trades: Sequence[Trade]) -> dict[str, Decimal]:
    """The sums of a set of trades."""
    sums = {"net_pnl_usd": ZERO, "realized_pnl_usd": ZERO, "fees_usd": ZERO, "funding_usd": ZERO}
    for trade in trades:
        for name in sums:
            sums[name] += getattr(trade, name) or ZERO
    return sums
