"""Learns in the same transaction as the ledger: episodes, affect and outcomes from what just changed.

In order, a close adds an episode and a step of affect. Out of order (a late fill, an import into the past, a correction, an
undo, the first record of a broker) the steps are computed again from the earliest moment concerned, and so are the episodes
whose entry could have known of it. Both ways use the same pure fold (`core/memory/learn.py`), as does a rebuild.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memtape.core.codec import EPOCH
from memtape.core.items import in_log_order
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AccountChange, AffectStep, affect_steps
from memtape.core.memory.affect_timeline import (
    STEPS_LOOKED_AT,
    AccountEvent,
    AffectTimeline,
    believed_changes,
    steps_until,
    within_spans,
)
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn import (
    CLAIM_ENTRY_TOLERANCE,
    Amendment,
    account_event_of,
    account_events_of_trade,
    amendment_from_claim,
    amendment_of,
    episodes_from_versions,
    is_same_trade,
    moment_before_entry,
    nearest_trade,
)
from memtape.core.memory.market import Market
from memtape.core.memory.shadows import remembered_versions, shadow_episodes, shadow_id
from memtape.core.memory.situation_fields import NO_MARKET_STATE, market_state_at
from memtape.core.skills import Agent
from memtape.engine.write.batch import Batch
from memtape.engine.write.outcomes import follow_again, follow_new_bars
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables
from memtape.store.rows import Head
from memtape.store.tables import Tables

BULK_FROM_TRADES = 64  # from so many trades on, loading everything once is cheaper than one query for each


def learn_from_batch(tables: Tables, agent: Agent, start: Head, verified_from: datetime | None, batch: Batch) -> None:
    """Form and change memories after what a transaction brought; `start` is the head before it."""
    Learner(tables, agent, verified_from).learn(start, batch)


class Learner:
    """Forms the memories of one agent, in one transaction.

    `verified_from` is when the first record of a broker became known: from then on claims of the agent do not count.
    """

    def __init__(self, tables: Tables, agent: Agent, verified_from: datetime | None) -> None:
        self.tables, self.agent, self.verified_from = tables, agent, verified_from
        self.memories = MemoryTables(tables)
        self.starting = float(agent.settings.starting_equity)
        # Whether the agent ever claimed a trade. A claim that was taken back was believed until then, so it counts here.
        self.has_claims = bool(tables.items("claim", EVERYTHING, limit=1, voided=True))
        self.known_at: datetime | None = None  # the latest moment at which anything was known before this transaction
        self._has_corrections = bool(tables.items("correction", EVERYTHING, limit=1))
        self._corrections: dict[str, list[Amendment]] | None = None  # all of them by memory, once they are loaded in bulk
        self._last_moving_correction: datetime | None = None  # when the last one that moves affect became known
        self._undone = [item.known_at for item in tables.items("undo", EVERYTHING)]
        self._whole_markets: dict[str, Market | None] = {}  # with all their bars, by symbol
        self._markets_at: dict[tuple[str, datetime], Market | None] = {}  # with the bars that one moment needs
        self._bulk = False
        self._account_events: list[AccountEvent] | None = None
        self._new_steps: tuple[datetime, list[AffectStep]] | None = None  # of this transaction, and from when they hold

    def learn(self, start: Head, batch: Batch) -> None:
        """Form the memories that a batch adds or changes."""
        self.known_at = start.known_at
        backfilled_from = self._backfilled_from(batch)
        if self.has_claims and self.verified_from != start.verified_from:
            # The first record of a broker: claims no longer count, so affect and every episode's state may change.
            backfilled_from = EPOCH
        if not (batch.changed or batch.account_changes or backfilled_from or batch.followed or batch.bars):
            return
        changed = dict(batch.changed)
        # The trades whose episodes are formed: the new ones, those that changed, and after a backfill all entered since.
        versions = list(batch.new_versions) if not backfilled_from else []
        revised = set(changed) - {version.trade.id for version in versions}
        if backfilled_from is not None:
            versions = self.memories.versions(entered=backfilled_from)
            revised = set(changed) - {version.trade.id for version in versions}
            changed |= {version.trade.id: None for version in versions if version.trade.id not in changed}
        if revised:
            versions += self.memories.versions(ids=revised)
        if self.has_claims:
            versions += self._counterparts(versions, changed)
        self._bulk = len(versions) > BULK_FROM_TRADES
        # Affect comes first: the situation of an episode contains the state at its entry.
        self._update_affect(backfilled_from, batch, versions)
        timeline = self.affect_timeline(min((moment_before_entry(version.trade) for version in versions), default=None))
        episodes = list(episodes_from_versions(versions, self.market_at, timeline, self.starting, self.amendments))
        new: set[str] = set() if backfilled_from else {version.trade.id for version in batch.new_versions}
        replaced = set(changed) - new
        shadow_ids, of_shadows = self._outcomes(batch, backfilled_from)
        self.memories.drop_episodes(replaced | shadow_ids)
        self.memories.put_episodes([*episodes, *of_shadows])
        self.memories.note_changes({episode.id for episode in episodes} | replaced | shadow_ids)

    def _backfilled_from(self, batch: Batch) -> datetime | None:
        """The earliest moment at which the batch was known, if an episode was entered since: it could have known of it."""
        if batch.known_at is None or not self.memories.entered_since(batch.known_at):
            return None
        return batch.known_at

    # ---- affect ---------------------------------------------------------------------------------------------------

    def _update_affect(self, backfilled_from: datetime | None, batch: Batch, versions: Sequence[TradeVersion]) -> None:
        """Add the steps that follow from a batch, or compute them again from the earliest moment that it concerns."""
        moments = [at for at in batch.changed.values() if at is not None]
        moments += [change.at for change in batch.account_changes] + ([backfilled_from] if backfilled_from else [])
        if not moments:
            return
        since = min(moments)
        before = self.memories.affect_until(since, 1, before=True)
        last = self.memories.affect_until(None, 1)
        if last and last[0].at >= since:
            # Stored steps lie at or after this moment. Each step continues the one before it, so all of them are replaced.
            changes = self._changes_since(since)
            self.memories.drop_affect(since)
        else:
            closes = [event for version in versions for event in self.account_events(version)]
            changes = [*believed_changes(closes, None, self.verified_from), *batch.account_changes]
        steps = affect_steps(changes, self.starting, before[0] if before else None, self.memories.outcomes_before(since))
        self.memories.put_affect(steps)
        self._new_steps = since, steps

    def _changes_since(self, since: datetime) -> list[AccountChange]:
        """Everything that happened to the account since a moment, as it is believed now."""
        versions = self.memories.versions(exited=since, current_only=True)
        self._bulk = self._bulk or len(versions) > BULK_FROM_TRADES
        closes = [event for version in versions for event in self.account_events(version)]
        marks_and_flows = [event.event for event in self._marks_and_flows(since) if event.known_to is None]
        return [*believed_changes(closes, None, self.verified_from), *marks_and_flows]

    def _marks_and_flows(self, since: datetime | None = None) -> list[AccountEvent]:
        items = [item for kind in ("equity", "flow") for item in self.tables.items(kind, EVERYTHING, since=since, voided=True)]
        return [account_event_of(item) for item in in_log_order(items)]

    def account_events(self, version: TradeVersion) -> list[AccountEvent]:
        """A trade as it moves affect, in the versions in which it was believed."""
        trade = version.trade
        if trade.pnl_r is None:
            state = market_state_at(self.market_at(trade.symbol, trade.entry_at), trade.entry_at)
        else:
            state = NO_MARKET_STATE  # an outcome in R needs no ATR
        return account_events_of_trade(version, state, self.amendments(trade))

    def all_account_events(self) -> list[AccountEvent]:
        """Everything that ever happened to the account, in every version. Read once, and only where nothing less will do."""
        if self._account_events is None:
            self._bulk = True
            closes = [event for version in self.memories.versions() for event in self.account_events(version)]
            self._account_events = closes + self._marks_and_flows()
        return self._account_events

    def affect_timeline(self, first: datetime | None = None) -> AffectTimeline:
        """The state at any moment, as far as it was known then; with `first`, at any moment from that one on."""
        if not self._bulk:
            return AffectTimeline(self._steps_until, self._was_replaced, self.all_account_events, self.starting,
                                  self.verified_from, self.has_claims)  # fmt: skip
        since, new = self._new_steps or (None, [])
        if first is not None and (since is None or first < since):
            # Of a long history only the end is asked for.
            steps = [*self.memories.affect_until(first, STEPS_LOOKED_AT), *self.memories.affect_after(first, since), *new]
        else:
            looked_at = 2**31 if first is None else STEPS_LOOKED_AT
            steps = [*self.memories.affect_until(since, looked_at, before=since is not None), *new]
        within = within_spans(self.memories.replaced_spans())

        def replaced(moment: datetime) -> bool:
            return self._amended_after(moment) or within(moment)

        until = steps_until(steps)
        return AffectTimeline(until, replaced, self.all_account_events, self.starting, self.verified_from, self.has_claims)

    def _steps_until(self, moment: datetime) -> Sequence[AffectStep]:
        return self.memories.affect_until(moment, STEPS_LOOKED_AT)

    def _was_replaced(self, moment: datetime) -> bool:
        """Returns True if the account was believed otherwise at that moment than now."""
        return self._amended_after(moment) or self.memories.replaced_at(moment)

    def _amended_after(self, moment: datetime) -> bool:
        """Returns True if an undo, or a correction that moves affect, became known after a moment."""
        if any(at > moment for at in self._undone):
            return True
        if not self._has_corrections:
            return False
        if self._bulk or self._corrections is not None:
            self._load_corrections()
            return self._last_moving_correction is not None and self._last_moving_correction > moment
        later = [amendment_of(item) for item in self.tables.items("correction", EVERYTHING, since=moment)]
        return any(amendment.known_at > moment and amendment.moves_affect for amendment in later)

    def corrections_of(self, id_: str) -> list[Amendment]:
        """The corrections of a memory, in order."""
        if not self._has_corrections:
            return []
        if not self._bulk and self._corrections is None:
            return [amendment_of(item) for item in self.tables.items("correction", EVERYTHING, symbol=id_)]
        return self._load_corrections().get(id_, [])

    def _load_corrections(self) -> dict[str, list[Amendment]]:
        """All corrections by memory, read once."""
        if self._corrections is None:
            self._corrections = {}
            for item in self.tables.items("correction", EVERYTHING):
                self._corrections.setdefault(item.symbol, []).append(amendment_of(item))
            several = [each for own in self._corrections.values() for each in own if each.moves_affect]
            self._last_moving_correction = max((each.known_at for each in several), default=None)
        return self._corrections

    # ---- what episodes are made of --------------------------------------------------------------------------------

    def market_at(self, symbol: str, moment: datetime) -> Market | None:
        """The market of a symbol, with at least the bars that a state at that moment is computed from."""
        if self._bulk:
            if symbol not in self._whole_markets:
                self._whole_markets[symbol] = self.memories.market(symbol, None)
            return self._whole_markets[symbol]
        if (symbol, moment) not in self._markets_at:
            self._markets_at[symbol, moment] = self.memories.market(symbol, moment)
        return self._markets_at[symbol, moment]

    def amendments(self, trade: Trade) -> list[Amendment]:
        """What was stated about a trade later: corrections, and the claim that describes the same trade.

        A trade of the ledger takes the words of such a claim. The claim itself is then forgotten as an episode, from the
        moment at which both are known.
        """
        found = self.corrections_of(trade.id)
        if self.has_claims and trade.quality != "claimed":
            for claim in self._entered_near(trade, claimed=True):
                if is_same_trade(claim.trade, trade):
                    nearest = self._nearest_in_ledger(claim.trade)
                    if nearest is not None and nearest.trade.id == trade.id:
                        found = [*found, amendment_from_claim(claim.trade, claim.known_from)]
        elif self.has_claims and (nearest := self._nearest_in_ledger(trade)) is not None:
            current = next(iter(self.memories.versions(ids=[trade.id], current_only=True)), None)
            if current is not None:
                found = [*found, Amendment(max(current.known_from, nearest.known_from), forget=True)]
        return found

    def _entered_near(self, trade: Trade, *, claimed: bool) -> list[TradeVersion]:
        """Claims, or trades of the ledger, that were entered at about the same time."""
        first, last = trade.entry_at - CLAIM_ENTRY_TOLERANCE, trade.entry_at + CLAIM_ENTRY_TOLERANCE
        return self.memories.entered_near(trade.symbol, first, last, claimed)

    def _nearest_in_ledger(self, claim: Trade) -> TradeVersion | None:
        """The trade of the ledger that a claim describes."""
        if self.verified_from is None:
            return None
        ledger = self._entered_near(claim, claimed=False)
        id_ = nearest_trade(claim, [version.trade for version in ledger])
        return next((version for version in ledger if version.trade.id == id_), None)

    def _counterparts(self, versions: Sequence[TradeVersion], changed: dict[str, datetime | None]) -> list[TradeVersion]:
        """The trades that new claims describe, and the claims that describe new trades: their episodes change in words only.

        Their ids are added to `changed`, without an exit, because affect stays as it is.
        """
        ids: set[str] = set()
        for version in versions:
            trade = version.trade
            if trade.quality == "claimed":
                nearest = self._nearest_in_ledger(trade)
                ids |= set() if nearest is None else {nearest.trade.id}
            else:
                claims = self._entered_near(trade, claimed=True)
                ids |= {claim.trade.id for claim in claims if is_same_trade(claim.trade, trade)}
        ids -= set(changed)
        changed |= dict.fromkeys(ids)
        return self.memories.versions(ids=ids) if ids else []

    # ---- outcomes -------------------------------------------------------------------------------------------------

    def _outcomes(self, batch: Batch, backfilled_from: datetime | None) -> tuple[set[str], list[Episode]]:
        """Follow the decisions that a batch may change. Returns the ids of the episodes of shadows, and the new episodes."""
        touched = set(batch.followed) | follow_new_bars(self.tables, batch.bars)
        if self._undone:
            # A decision that comes again after an undo ends what was believed of it the first time.
            touched |= {item.key for item in batch.decisions}
        if backfilled_from is not None:
            # The situation of a decision not to trade contains what was known at its moment.
            touched |= set(self.memories.shadows(backfilled_from))
        shadow_ids: set[str] = set()
        episodes: list[Episode] = []
        for followed in follow_again(self.tables, touched):
            if not followed.card.is_shadow:
                continue
            id_ = shadow_id(self.agent.id, followed.item.key)
            shadow_ids.add(id_)
            if remembered_versions(followed):
                at, symbol = followed.card.t, followed.item.symbol
                state = market_state_at(self.market_at(symbol, at), at)
                corrections = self.corrections_of(id_)
                episodes += shadow_episodes(self.agent, followed, state, self.affect_timeline().at(at), corrections)
        return shadow_ids, episodes
