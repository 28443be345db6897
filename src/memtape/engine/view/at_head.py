"""The view of an earlier log row: memories and trades formed again from what had been recorded by then.

Stored rows know what was recorded later, so they cannot say what an earlier reader met. The fold of a rebuild can: it is given
the rows up to that head, and the plain reference answers from what comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING

from memtape.core.decisions.followed import follow_decisions, outcomes_at
from memtape.core.memory.belief_cells import count_cells, count_stated
from memtape.core.memory.belief_formation import beliefs_from_counts
from memtape.core.memory.episodes import known_episodes
from memtape.core.memory.learn_all import learn_all
from memtape.core.memory.outcome_units import money_unit, signal_of
from memtape.core.recall.reference import recall_reference
from memtape.core.recall.unknown_values import KnownValues
from memtape.engine.view.derived_ledger import (
    all_versions,
    derive_trades,
    differing_fills,
    known_positions,
    open_claims,
    reported_versions,
)
from memtape.engine.view.plan_log import plan_states_from_log
from memtape.engine.view.stored import believed_trades, entered_by, newest_first
from memtape.engine.view.view import (
    ALL_TRADES,
    AnswerBasis,
    TradeFilter,
    View,
    discrepancies_to_show,
    past_page,
    select_trades,
)
from memtape.engine.write.verification import first_broker_record

if TYPE_CHECKING:
    from memtape.core.decisions.followed import FollowedOutcome
    from memtape.core.events import Discrepancy
    from memtape.core.ledger.trade_page import TradePage
    from memtape.core.ledger.trades import Trade
    from memtape.core.ledger.versions import TradeVersion
    from memtape.core.memory.affect import AffectStep
    from memtape.core.memory.beliefs import Belief
    from memtape.core.memory.episodes import Episode
    from memtape.core.memory.learn_all import LearnedMemories
    from memtape.core.memory.outcome_units import OutcomeUnit, Signal
    from memtape.core.memory.plans import PlanState
    from memtape.core.memory.trade_labels import EntryLabels
    from memtape.core.recall.query import PlanMemory, Query
    from memtape.core.recall.reference import Recalled
    from memtape.core.skills import Agent
    from memtape.store.cutoff import Cutoff
    from memtape.store.tables import Tables


class ViewAtHead(View):
    """An agent's record as of a moment, as far as it had been recorded by an earlier row of its log."""

    def __init__(self, tables: Tables, agent: Agent, cutoff: Cutoff, origin: ViewAtHead | None = None) -> None:
        super().__init__(tables, agent, cutoff)
        # An earlier moment of the same head shares the memories that were formed for the later one.
        self._origin = origin or self

    def release(self) -> None:
        """Nothing is held beside the transaction."""

    def at(self, moment: datetime) -> ViewAtHead:
        """The same transaction and head as of an earlier moment."""
        return ViewAtHead(self.tables, self.agent, replace(self.cutoff, as_of=moment), self._origin)

    @cached_property
    def _formed(self) -> LearnedMemories:
        """All memories, formed from the items of the cutoff in one fold."""
        items = [item for kind in ("equity", "flow") for item in self.items(kind, voided=True)]
        items += [item for kind in ("correction", "decision") for item in self.items(kind)]
        bars = cache(lambda symbol: self.tables.bars(symbol, self.cutoff))
        return learn_all(self.agent, self._versions, items, bars, self.verified_from)

    @cached_property
    def _versions(self) -> list[TradeVersion]:
        return all_versions(self.tables, self.agent, self.cutoff)

    # ---- the ledger ------------------------------------------------------------------------------------------------

    @cached_property
    def verified_from(self) -> datetime | None:
        """Since when there have been records of the venue or the owner, as far as was recorded."""
        return first_broker_record(self.tables, self.cutoff)

    @cached_property
    def _ledger(self) -> tuple[list[Trade], list[Discrepancy]]:
        reported = reported_versions(self.tables, self.agent, self.cutoff)
        trades = [version.trade for version in reported if version.known_to is None]
        trades += open_claims(self.tables, self.agent, self.cutoff)
        discrepancies = differing_fills(self.tables, self.cutoff)
        for position in known_positions(self.tables, self.cutoff):
            derived, differing = derive_trades(self.tables, self.agent, self.cutoff, position, None)
            trades += derived
            discrepancies += differing
        return trades, discrepancies

    def trades(self, wanted: TradeFilter = ALL_TRADES) -> list[Trade]:
        """Trades, open and closed, ordered by entry time and id."""
        return select_trades(self, self._ledger[0], wanted)

    def trade_page(self, page: TradePage) -> list[Trade]:
        """A page of trades, open and closed, in the order asked for."""
        return past_page(self, page)

    def trade(self, id: str) -> Trade | None:
        """One trade of the ledger."""
        return next((trade for trade in self.trades() if trade.id == id), None)

    def closed_between(self, first: datetime, last: datetime) -> list[Trade]:
        """Closed trades that ended within a time, ordered by exit time and id."""
        closed = self.trades(TradeFilter(status="closed"))
        ended = [(trade.exit_at, trade) for trade in closed if trade.exit_at is not None and first <= trade.exit_at <= last]
        return [trade for _, trade in sorted(ended, key=lambda pair: (pair[0], pair[1].id))]

    def closed_trades(self, ids: Collection[str]) -> list[Trade]:
        """Some closed trades by id, each in the version believed at the moment, claims included, ordered by id."""
        return believed_trades(self._versions, ids, self.as_of)

    def trades_entered_by(self, decisions: Collection[str]) -> list[Trade]:
        """The trades of the ledger, open and closed, that some decisions entered, ordered by entry time and id."""
        return entered_by(self.trades(), decisions)

    def outcomes(
        self, *, ids: Collection[str] | None = None, symbol: str | None = None, since: datetime | None = None,
        limit: int | None = None,
    ) -> list[FollowedOutcome]:  # fmt: skip
        """What bars show of the decisions that are followed, as believed at the moment, the newest decisions first."""
        items = [item for item in self.items("decision", symbol=symbol, since=since) if ids is None or item.key in ids]
        followed = follow_decisions(items, lambda symbol: self.tables.bars(symbol, self.cutoff))
        believed = outcomes_at((row for each in followed for row in each.rows()), self.as_of)
        return sorted(believed, key=lambda row: row.at, reverse=True)[:limit]

    def discrepancies(self, limit: int) -> list[Discrepancy]:
        """Where two records of the account do not agree, newest first."""
        return newest_first(discrepancies_to_show(self, self._ledger[1]), limit)

    def open_position_count(self) -> int | None:
        """None: nobody looked, and the ledger of the present does not tell."""
        return None

    # ---- memories --------------------------------------------------------------------------------------------------

    def episodes(self) -> list[Episode]:
        """Every episode in the version believed at the moment."""
        return known_episodes(self._formed.episodes, self.as_of)

    def episodes_of_signals(self, signals: Collection[Signal]) -> list[Episode]:
        """The episodes of all trades of some signals, in the version believed at the moment."""
        return [episode for episode in self.episodes() if signal_of(episode) in signals]

    def episode(self, id: str) -> Episode | None:
        """One episode in the version believed at the moment."""
        return next((episode for episode in self.episodes() if episode.id == id), None)

    def entry_labels(self, ids: Collection[str]) -> Mapping[str, EntryLabels]:
        """The labels of some trades' entries, as their episodes had them at the moment, by trade."""
        wanted = set(ids)
        return {
            e.id: {"regime": e.regime, "volatility_regime": e.volatility_regime, "session": e.session}
            for e in self.episodes() if e.id in wanted
        }  # fmt: skip

    def latest_episodes(self, limit: int, *, symbol: str | None = None, strategy: str | None = None) -> list[Episode]:
        """The trades that ended last, oldest first; without claims if they do not count."""
        found = [
            episode for episode in self.episodes()
            if episode.kind == "trade" and (self.claims_count or not episode.claimed)
            and (strategy is None or episode.strategy == strategy) and (symbol is None or episode.symbol == symbol)
        ]  # fmt: skip
        return sorted(found, key=lambda episode: (episode.exit_at, episode.id))[-limit:]

    def money_unit(self) -> OutcomeUnit:
        """The agent's unit of money, from all its trades known at the moment."""
        return money_unit(self.episodes(), self.claims_count)

    def basis(self) -> AnswerBasis:
        """What an answer from all episodes rests on."""
        return AnswerBasis.of(self.as_of, self.claims_count, self.episodes())

    def known_values(self, *, counted: bool = False) -> KnownValues:
        """The labels and symbols of the episodes known by the moment: of all, or of those that count."""
        all_count = not counted or self.claims_count
        episodes = [episode for episode in self.episodes() if all_count or not episode.claimed]

        def values(field: str) -> tuple[str, ...]:
            return tuple(sorted({value for episode in episodes if (value := getattr(episode, field)) is not None}))

        return KnownValues(
            symbols=values("symbol"), strategies=values("strategy"), regimes=values("regime"),
            volatilities=values("volatility_regime"), sessions=values("session"),
        )  # fmt: skip

    def beliefs(self) -> list[Belief]:
        """What is believed at the moment, in every status."""
        found, claims_count = self.episodes(), self.claims_count
        stated = count_stated(self.stated_beliefs(), found, claims_count)
        return beliefs_from_counts(count_cells(found, claims_count), stated, self.as_of)

    def recall(self, query: Query, beliefs: Sequence[Belief], plans: Sequence[PlanMemory]) -> Recalled:
        """What memory has to say about the situation of a query, by the reference."""
        return recall_reference(self._formed.episodes, beliefs, plans, query)

    def affect_step(self) -> AffectStep | None:
        """The last step of the affect state that was known; None before anything happened."""
        return self._origin._formed.past.at(self.as_of)

    def affect_history(self, limit: int) -> list[AffectStep]:
        """The last steps of the affect state, oldest first."""
        return self._formed.steps[-limit:] if limit else []

    def affect_step_count(self) -> int:
        """How many closes, equity marks and cash flows lie behind the affect state."""
        return len(self._formed.steps)

    def plan_states(self) -> list[PlanState]:
        """Every plan and its state."""
        stored = self.stored_plans()
        return plan_states_from_log(self, stored) if stored else []
