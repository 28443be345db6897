"""The view that stored rows answer: the present, and any past moment.

Stored rows know since when each was believed, so they also answer for a past moment; only trades that were not settled by then
are folded again from what was known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from memtape.core.codec import micros, moment
from memtape.core.ledger.rounds import is_dust, trades_of_open_round
from memtape.core.memory.belief_cells import count_stated
from memtape.core.memory.belief_formation import beliefs_from_counts, fades_at
from memtape.core.memory.beliefs import entry_facts
from memtape.core.memory.episodes import known_episodes
from memtape.core.memory.outcome_units import money_unit_of_results, signal_of
from memtape.core.recall.unknown_values import KnownValues
from memtape.engine.column_cache import CachedBeliefs
from memtape.engine.view.derived_ledger import derive_trades, differing_fills, known_positions, open_claims
from memtape.engine.view.plan_log import plan_states_from_log
from memtape.engine.view.view import (
    ALL_TRADES,
    AnswerBasis,
    View,
    counted_sources,
    discrepancies_to_show,
    past_page,
    select_trades,
    with_labels,
)
from memtape.engine.write.learn import Learner
from memtape.engine.write.verification import first_broker_record
from memtape.store.cutoff import EVERYTHING

if TYPE_CHECKING:
    from memtape.core.decisions.followed import FollowedOutcome
    from memtape.core.events import Discrepancy
    from memtape.core.items import Position
    from memtape.core.ledger.trade_page import TradePage
    from memtape.core.ledger.trades import Trade
    from memtape.core.ledger.versions import TradeVersion
    from memtape.core.memory.affect import AffectStep
    from memtape.core.memory.beliefs import Belief
    from memtape.core.memory.episodes import Episode
    from memtape.core.memory.outcome_units import OutcomeUnit, Signal
    from memtape.core.memory.plans import PlanState
    from memtape.core.memory.trade_labels import EntryLabels
    from memtape.core.recall.query import PlanMemory, Query
    from memtape.core.recall.reference import Recalled
    from memtape.core.skills import Agent
    from memtape.engine.column_cache import CachedColumns, ColumnCache
    from memtape.engine.view.view import (
        TradeFilter,
    )
    from memtape.store.cutoff import Cutoff
    from memtape.store.rows import Head, PositionRow
    from memtape.store.tables import Tables


class StoredView(View):
    """An agent's record as of a moment, from stored rows."""

    def __init__(
        self, tables: Tables, agent: Agent, cutoff: Cutoff, columns: ColumnCache | None = None, head: Head | None = None
    ) -> None:
        super().__init__(tables, agent, cutoff, head)
        # Every row that is stored was recorded by the present head: no statement needs to compare it.
        self.cutoff = replace(cutoff, head=None)
        self._columns, self._open = columns, ExitStack()
        self._cached: CachedColumns | None = None
        self._verified_from: tuple[datetime | None] | None = None
        self._affect: tuple[AffectStep | None] | None = None
        self._episodes: list[Episode] | None = None
        self._open_positions: dict[Position, PositionRow] | None = None

    def release(self) -> None:
        """Stop using the columns: the cache may change them again."""
        self._open.close()
        self._cached = None

    def at(self, moment: datetime) -> StoredView:
        """The same transaction as of an earlier moment."""
        return StoredView(self.tables, self.agent, replace(self.cutoff, as_of=moment), self._columns, self.head)

    @property
    def is_latest(self) -> bool:
        """True if nothing became known after the moment: the rows that stand are the answer."""
        return self.head.known_at is None or self.as_of >= self.head.known_at

    # ---- the ledger ------------------------------------------------------------------------------------------------

    @property
    def verified_from(self) -> datetime | None:
        """Since when there have been such records; an import that was undone later still counted then."""
        if self._verified_from is None:
            undone_later = not self.is_latest and any(
                item.known_at > self.as_of for item in self.tables.items("undo", EVERYTHING)
            )
            since = first_broker_record(self.tables, self.cutoff) if undone_later else self.head.verified_from
            self._verified_from = (since if since is not None and since <= self.as_of else None,)
        return self._verified_from[0]

    def trades(self, wanted: TradeFilter = ALL_TRADES) -> list[Trade]:
        """Trades, open and closed, ordered by entry time and id."""
        if not self.is_latest:
            return select_trades(self, self._ledger()[0], wanted)
        closed: list[Trade] = []
        if wanted.status != "open":
            closed = self.tables.closed_trades(
                EVERYTHING, symbol=wanted.symbol, strategy=wanted.strategy, side=wanted.side, newest=wanted.newest,
                limit=wanted.limit, after=wanted.after, claims=not self.is_verified,
            )  # fmt: skip
        return select_trades(self, closed if wanted.status == "closed" else closed + self._open_trades(), wanted)

    def trade_page(self, page: TradePage) -> list[Trade]:
        """A page of trades, open and closed, in the order asked for; its cost does not grow with the history."""
        if not self.is_latest:
            return past_page(self, page)
        closed = self.tables.sorted_trades(page, claims=not self.is_verified) if page.status != "open" else []
        held = [trade for trade in self._open_trades() if page.admits(trade)] if page.status != "closed" else []
        return with_labels(self, page.cut(t for t in closed + held if not (self.is_verified and t.quality == "claimed")))

    def trade(self, id: str) -> Trade | None:
        """One trade of the ledger, found by its key."""
        if not self.is_latest:
            return next((trade for trade in self.trades() if trade.id == id), None)
        closed = self.tables.closed_trades(EVERYTHING, id=id, claims=not self.is_verified)
        found = closed or [trade for trade in self._open_trades() if trade.id == id]
        found = [trade for trade in found if not (self.is_verified and trade.quality == "claimed")]
        return with_labels(self, found)[0] if found else None

    def _open_trades(self) -> list[Trade]:
        terms, rows = self.agent.terms(), self._positions()
        held = [
            trade for position, row in rows.items() if row.round is not None
            for trade in trades_of_open_round(terms, *position, row.round)
        ]  # fmt: skip
        return held + open_claims(self.tables, self.agent, EVERYTHING)

    def _ledger(self) -> tuple[list[Trade], list[Discrepancy]]:
        """All trades and discrepancies of a past moment: settled trades from their rows, the rest folded from what was known."""
        trades: list[Trade] = []
        settled: dict[Position, list[Trade]] = {}
        for trade in self.tables.closed_trades(self.cutoff, newest=False):
            if trade.quality in ("reported", "claimed"):
                trades.append(trade)
            else:
                settled.setdefault((trade.symbol, trade.leg), []).append(trade)
        trades += open_claims(self.tables, self.agent, self.cutoff)
        stored = self.tables.discrepancies()
        discrepancies = differing_fills(self.tables, self.cutoff)
        for position in known_positions(self.tables, self.cutoff):
            row = self.tables.positions([position[0]]).get(position)
            open_since = row.round.entry_at if row and row.round else None
            flat = self.tables.boundary(position, self.as_of, self.as_of, open_since, self.agent.settle_seconds)
            if flat is not None:
                # Everything up to the flat point was known by then: its rows stand. What follows is folded again.
                trades += [t for t in settled.get(position, ()) if t.exit_at is not None and t.exit_at <= flat.at]
                discrepancies += [
                    d for d in stored
                    if (d.symbol, d.leg) == position and (d.entry_at or d.at) <= flat.at and d.why != "fill_differs"
                ]  # fmt: skip
            derived, differing = derive_trades(self.tables, self.agent, self.cutoff, position, flat)
            trades += derived
            discrepancies += differing
        return trades, discrepancies

    def closed_between(self, first: datetime, last: datetime) -> list[Trade]:
        """Closed trades that ended within a time, ordered by exit time and id."""
        # Episodes are indexed by their exit; a forgotten trade has no episode, but the ledger keeps it.
        forgotten = {item.symbol for item in self.items("correction") if item.body["forget"]}
        known = self.closed_trades({*self.memory_tables.exited_between(first, last), *forgotten})
        verified = self.is_verified
        ended = [
            (trade.exit_at, trade) for trade in known
            if trade.exit_at is not None and first <= trade.exit_at <= last and not (verified and trade.quality == "claimed")
        ]  # fmt: skip
        return [trade for _, trade in sorted(ended, key=lambda pair: (pair[0], pair[1].id))]

    def closed_trades(self, ids: Collection[str]) -> list[Trade]:
        """Some closed trades by id, each in the version believed at the moment, claims included, ordered by id."""
        return believed_trades(self.memory_tables.versions(ids=ids), ids, self.as_of) if ids else []

    def trades_entered_by(self, decisions: Collection[str]) -> list[Trade]:
        """The trades of the ledger, open and closed, that some decisions entered, ordered by entry time and id."""
        if not self.is_latest:
            return entered_by(self.trades(), decisions)
        closed = self.tables.trades_entered_by(decisions)
        found = [t for t in closed + self._open_trades() if not (self.is_verified and t.quality == "claimed")]
        return entered_by(with_labels(self, found), decisions)

    def outcomes(
        self, *, ids: Collection[str] | None = None, symbol: str | None = None, since: datetime | None = None,
        limit: int | None = None,
    ) -> list[FollowedOutcome]:  # fmt: skip
        """What bars show of the decisions that are followed, as believed at the moment, the newest decisions first."""
        return self.memory_tables.outcomes(self.as_of, ids=ids, symbol=symbol, since=since, limit=limit)

    def discrepancies(self, limit: int) -> list[Discrepancy]:
        """Where two records of the account do not agree, newest first."""
        found = self.tables.discrepancies(limit) if self.is_latest else self._ledger()[1]
        return newest_first(discrepancies_to_show(self, found), limit)

    def open_position_count(self) -> int | None:
        """How many positions the ledger shows open; None for a past moment."""
        if not self.is_latest:
            return None
        terms = self.agent.terms()
        return sum(row.round is not None and not is_dust(terms, row.round) for row in self._positions().values())

    def _positions(self) -> dict[Position, PositionRow]:
        """The open positions of the present."""
        if self._open_positions is None:
            self._open_positions = self.tables.positions()
        return self._open_positions

    # ---- memories --------------------------------------------------------------------------------------------------

    def episodes(self) -> list[Episode]:
        """Every episode in the version believed at the moment."""
        if self._episodes is None:
            self._episodes = known_episodes(self.memory_tables.episodes(), self.as_of)
        return self._episodes

    def episodes_of_signals(self, signals: Collection[Signal]) -> list[Episode]:
        """The episodes of all trades of some signals, in the version believed at the moment."""
        entered = known_episodes(self.memory_tables.episodes_entered_in(second for _, _, second in signals), self.as_of)
        return [episode for episode in entered if signal_of(episode) in signals]

    def episode(self, id: str) -> Episode | None:
        """One episode in the version believed at the moment."""
        found = known_episodes(self.memory_tables.episodes([id]), self.as_of)
        return found[0] if found else None

    def entry_labels(self, ids: Collection[str]) -> Mapping[str, EntryLabels]:
        """The labels of some trades' entries, as their episodes had them at the moment, by trade."""
        return self.memory_tables.entry_labels(ids, self.as_of)

    def latest_episodes(self, limit: int, *, symbol: str | None = None, strategy: str | None = None) -> list[Episode]:
        """The trades that ended last, oldest first; without claims if they do not count."""
        return self.memory_tables.latest(self.as_of, limit, symbol, strategy, trades=True, claims=self.claims_count)

    def money_unit(self) -> OutcomeUnit:
        """The agent's unit of money, from all its trades known at the moment."""
        return money_unit_of_results(self.memory_tables.money_results(self.as_of, claims=self.claims_count))

    def basis(self) -> AnswerBasis:
        """What an answer from all episodes rests on."""
        from memtape.columns.present import reporters_present

        columns = self._columns_now().columns
        mask = columns.mask(micros(self.as_of), None, None)
        if not self.claims_count:
            mask = mask & ~columns.claimed[: mask.size]
        n = int(mask.sum())
        exits = columns.exit_us[: columns.n][mask] if n else None
        first, last = (moment(int(exits.min())), moment(int(exits.max()))) if exits is not None else (None, None)
        sources = counted_sources(reporters_present(columns, mask), self.claims_count)
        return AnswerBasis(self.as_of, self.claims_count, n, first, last, sources)

    def known_values(self, *, counted: bool = False) -> KnownValues:
        """The labels and symbols of the episodes known by the moment: of all, or of those that count."""
        from memtape.columns.present import names_present

        columns = self._columns_now().columns
        mask = columns.mask(micros(self.as_of), None, None)
        if counted and not self.claims_count:
            mask = mask & ~columns.claimed[: mask.size]
        return KnownValues(
            symbols=names_present(columns.symbol_code, columns.symbols, mask),
            strategies=names_present(columns.strategy_code, columns.strategies, mask),
            regimes=names_present(columns.regime_code, columns.regimes, mask),
            volatilities=names_present(columns.volatility_code, columns.volatilities, mask),
            sessions=names_present(columns.session_code, columns.sessions, mask),
        )

    def beliefs(self) -> list[Belief]:
        """What is believed at the moment, in every status; the beliefs of the present are cached until something changes them."""
        from memtape.columns.tallies import countable, stated_tallies, tallies

        cached, claims_count, stated = self._columns_now(), self.claims_count, self.stated_beliefs()
        columns, at = cached.columns, self.as_of
        cacheable = self.head.known_at is not None and self.is_latest
        # Another thread may replace the cached beliefs at any time: they are looked at once.
        earlier = cached.beliefs
        if cacheable and earlier is not None and earlier.holds(cached.revision, claims_count, stated, at):
            return earlier.beliefs
        mask = columns.mask(micros(at), None, None)
        counted = tallies(columns, mask, claims_count)

        def settle(rows: Sequence[int]) -> list[Mapping[str, object]]:
            return [entry_facts(e) for e in self._fetch([(columns.ids[row], int(columns.known_from[row])) for row in rows])]

        by_column = [one for one in stated if countable(one, columns)]
        others = [one for one in stated if one not in by_column]
        of_stated = stated_tallies(by_column, columns, mask, claims_count, settle)
        of_stated += count_stated(others, self.episodes(), claims_count) if others else []
        formed = beliefs_from_counts(counted, of_stated, at)
        if cacheable:
            cached.beliefs = CachedBeliefs(cached.revision, claims_count, stated, at, fades_at(formed), formed)
        return formed

    def recall(self, query: Query, beliefs: Sequence[Belief], plans: Sequence[PlanMemory]) -> Recalled:
        """What memory has to say about the situation of a query, from columns."""
        from memtape.columns import recall_columns

        return recall_columns(self._columns_now().columns, beliefs, plans, query, self._fetch)

    def _columns_now(self) -> CachedColumns:
        """The columns at the revision of this transaction; nobody changes them until the view is released."""
        if self._cached is None:
            assert self._columns is not None, "this view was opened without columns"
            opened = self._columns.columns(self.tables.owner, self.agent.id, self.memory_tables)
            self._cached = self._open.enter_context(opened)
        return self._cached

    def _fetch(self, keys: list[tuple[str, int]]) -> list[Episode]:
        episodes = self.memory_tables.episodes([id_ for id_, _ in keys])
        found: dict[tuple[str, int], Episode] = {(e.id, micros(e.known_from)): e for e in episodes}
        return [found[key] for key in keys]

    def affect_step(self) -> AffectStep | None:
        """The last step of the affect state that was known; None before anything happened."""
        if self._affect is None:
            if self.is_latest:
                self._affect = (next(iter(self.memory_tables.affect_until(self.as_of, 1)), None),)
            else:
                self._affect = (self._learner().affect_timeline().at(self.as_of),)
        return self._affect[0]

    def _learner(self) -> Learner:
        return Learner(self.tables, self.agent, self.head.verified_from)

    def affect_history(self, limit: int) -> list[AffectStep]:
        """The last steps of the affect state, oldest first."""
        if self.is_latest:
            return self.memory_tables.affect_until(self.as_of, limit)
        # Stored steps rest on everything known by now: what was known at a past moment takes its steps again.
        return self._learner().affect_timeline().steps_known_at(self.as_of)[-limit:] if limit else []

    def affect_step_count(self) -> int:
        """How many closes, equity marks and cash flows lie behind the affect state."""
        return self.memory_tables.affect_count(self.as_of)

    def plan_states(self) -> list[PlanState]:
        """Every plan and its state."""
        stored = self.stored_plans()
        return stored if not stored or self.is_latest else plan_states_from_log(self, stored)


def believed_trades(versions: Iterable[TradeVersion], ids: Collection[str], at: datetime) -> list[Trade]:
    """The trades of some versions as they were believed at a moment, ordered by id."""
    believed = [v.trade for v in versions if v.known_from <= at and (v.known_to is None or v.known_to > at)]
    return sorted((trade for trade in believed if trade.id in ids), key=lambda trade: trade.id)


def entered_by(trades: Iterable[Trade], decisions: Collection[str]) -> list[Trade]:
    """The trades that some decisions entered, ordered by entry time and id."""
    return sorted((trade for trade in trades if trade.entry_decision in decisions), key=lambda trade: (trade.entry_at, trade.id))


def newest_first(found: Sequence[Discrepancy], limit: int) -> list[Discrepancy]:
    """Discrepancies, the newest first, equal times by symbol and leg."""
    by_position = sorted(found, key=lambda d: (d.symbol, d.leg, d.why, d.fill_id or ""))
    return sorted(by_position, key=lambda d: d.at, reverse=True)[:limit]
