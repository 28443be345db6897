"""Learning in the same transaction as the ledger: episodes, affect and shadows from what just changed.

In order, a close adds an episode and a step. Out of order (a late fill, an import into the past, a correction, an undo, the
first word of a broker) the steps are taken again from the earliest moment concerned, and the episodes that could have
known of it are formed again. Both roads use the same pure fold (`core/memory/learn.py`), as does a rebuild.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memtape.core.codec import EPOCH
from memtape.core.items import in_log_order
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AccountChange, AffectStep, affect_steps
from memtape.core.memory.episodes import Episode
from memtape.core.memory.learn import (
    CLAIM_WITHIN,
    LOOKED_AT,
    AccountEvent,
    AffectTimeline,
    Amendment,
    account_event_of,
    account_events_of_trade,
    amendment_from_claim,
    amendment_of,
    believed_changes,
    episodes_from_versions,
    is_same_trade,
    nearest_trade,
    steps_until,
)
from memtape.core.memory.market import Market
from memtape.core.memory.shadows import FOLLOWED_FOR, WATCHED_FOR, Shadow, follow_shadow, is_followed, shadow_id
from memtape.core.memory.situation_fields import NO_MARKET_STATE, market_state_at
from memtape.core.observed import Decision
from memtape.core.skills import Agent
from memtape.core.values import read
from memtape.engine.write.positions import Batch
from memtape.store.cutoff import EVERYTHING
from memtape.store.memories import MemoryTables, ShadowRow
from memtape.store.rows import Head
from memtape.store.tables import Tables

MANY = 64  # from so many trades on it is cheaper to load everything once than to ask for each


def learn_from_batch(tables: Tables, agent: Agent, start: Head, verified_from: datetime | None, fresh: Batch) -> None:
    """Form and change memories after what a transaction brought; `start` is the head before it."""
    Learner(tables, agent, verified_from).follow(start, fresh)


class Learner:
    """What one agent learns, in one transaction."""

    def __init__(self, tables: Tables, agent: Agent, verified_from: datetime | None) -> None:
        self.tables, self.agent, self.verified_from = tables, agent, verified_from
        self.learned = MemoryTables(tables)
        self.starting = float(agent.settings.starting_equity)
        self.claims = bool(tables.items("claim", EVERYTHING, limit=1, gone=True))  # one taken back was believed until then
        self.known_at: datetime | None = None  # the latest that was known before this transaction
        self._corrected = bool(tables.items("correction", EVERYTHING, limit=1))
        self._notes: dict[str, list[Amendment]] | None = None  # all of them, once that is cheaper than asking for each
        self._undone = [item.known_at for item in tables.items("undo", EVERYTHING)]
        self._whole: dict[str, Market | None] = {}  # markets with all their bars
        self._at: dict[tuple[str, datetime], Market | None] = {}  # markets for one moment
        self._bulk = False
        self._told: list[AccountEvent] | None = None
        self._taken: tuple[datetime, list[AffectStep]] | None = None  # the steps of this transaction, and since when

    def follow(self, start: Head, fresh: Batch) -> None:
        """Take in what is new; everything else that it touches is found here."""
        self.known_at = start.known_at
        surprise = self._surprise(fresh)
        if self.claims and self.verified_from != start.verified_from:
            surprise = EPOCH  # what was claimed no longer counts
        if not (fresh.changed or fresh.account or surprise or fresh.shadows or fresh.bars):
            return
        changed = dict(fresh.changed)
        versions = list(fresh.versions) if not surprise else []
        told_again = set(changed) - {version.trade.id for version in versions}
        if surprise is not None:
            versions = self.learned.versions(entered=surprise)
            told_again = set(changed) - {version.trade.id for version in versions}
            changed |= {version.trade.id: None for version in versions if version.trade.id not in changed}
        if told_again:
            versions += self.learned.versions(ids=told_again)
        if self.claims:
            versions += self._spoken_of(versions, changed)
        self._bulk = len(versions) > MANY
        self._step(surprise, fresh, versions)
        episodes = episodes_from_versions(versions, self.market_at, self.past(), self.starting, self.notes)
        new: set[str] = set() if surprise else {version.trade.id for version in fresh.versions}
        old = set(changed) - new
        shadowed, of_shadows = self._shadows(fresh, surprise)
        self.learned.drop_episodes(old | shadowed)
        self.learned.put_episodes([*episodes, *of_shadows])
        self.learned.note_changes({episode.id for episode in episodes} | old | shadowed)

    def _surprise(self, fresh: Batch) -> datetime | None:
        """Since when something was known that is told only now, if it could have been known at the entry of an episode."""
        if fresh.known_at is None or not self.learned.entered_since(fresh.known_at):
            return None
        return fresh.known_at

    # ---- affect ---------------------------------------------------------------------------------------------------

    def _step(self, surprise: datetime | None, fresh: Batch, versions: Sequence[TradeVersion]) -> None:
        """Take the steps that follow from what is new, again from the earliest moment concerned."""
        moments = [at for at in fresh.changed.values() if at is not None]
        moments += [event.at for event in fresh.account] + ([surprise] if surprise else [])
        if not moments:
            return
        since = min(moments)
        before = self.learned.felt_until(since, 1, before=True)
        later = self.learned.felt_until(None, 1)
        if later and later[0].at >= since:
            events = self._events(since)
            self.learned.drop_felt(since)
        else:
            closed = [t for v in versions for t in self.told(v)]
            events = [*believed_changes(closed, None, self.verified_from), *fresh.account]
        steps = affect_steps(events, self.starting, before[0] if before else None, self.learned.outcomes_before(since))
        self.learned.put_felt(steps)
        self._taken = since, steps

    def _events(self, since: datetime) -> list[AccountChange]:
        """All that stands and happened to the account since a moment."""
        versions = self.learned.versions(exited=since, standing=True)
        self._bulk = self._bulk or len(versions) > MANY
        closed = [told for version in versions for told in self.told(version)]
        return [*believed_changes(closed, None, self.verified_from), *self._account(since)]

    def _account(self, since: datetime | None = None) -> list[AccountChange]:
        return [told.event for told in self._account_told(since) if told.known_to is None]

    def _account_told(self, since: datetime | None = None) -> list[AccountEvent]:
        kept = [item for kind in ("equity", "flow") for item in self.tables.items(kind, EVERYTHING, since=since, gone=True)]
        return [account_event_of(item) for item in in_log_order(kept)]

    def told(self, version: TradeVersion) -> list[AccountEvent]:
        """A trade as affect feels it, in the versions in which it was believed."""
        trade = version.trade
        seen = (
            market_state_at(self.market_at(trade.symbol, trade.entry_at), trade.entry_at)
            if trade.pnl_r is None
            else NO_MARKET_STATE
        )
        return account_events_of_trade(version, seen, self.notes(trade))

    def all_told(self) -> list[AccountEvent]:
        """All that ever happened to the account, in every version."""
        if self._told is None:
            self._bulk = True
            closed = [told for version in self.learned.versions() for told in self.told(version)]
            self._told = closed + self._account_told()
        return self._told

    def past(self) -> AffectTimeline:
        """What the state was, as far as it could be known at any moment."""
        if not self._bulk:
            return AffectTimeline(self._until, self._replaced, self.all_told, self.starting, self.verified_from, self.claims)
        since, taken = self._taken or (None, [])
        steps = [*self.learned.felt_until(since, 2**31, before=since is not None), *taken]
        spans, until = self.learned.replaced_spans(), steps_until(steps)

        def replaced(moment: datetime) -> bool:
            return self._said_later(moment) or any(start <= moment < end for start, end in spans)

        return AffectTimeline(until, replaced, self.all_told, self.starting, self.verified_from, self.claims)

    def _until(self, moment: datetime) -> Sequence[AffectStep]:
        return self.learned.felt_until(moment, LOOKED_AT)

    def _replaced(self, moment: datetime) -> bool:
        """Whether something was then believed of the account that no longer stands."""
        return self._said_later(moment) or self.learned.replaced_at(moment)

    def _said_later(self, moment: datetime) -> bool:
        if any(at > moment for at in self._undone):
            return True
        later = self.tables.items("correction", EVERYTHING, since=moment) if self._corrected else []
        return any(item.known_at > moment and amendment_of(item).moves_affect for item in later)

    def corrections_of(self, id_: str) -> list[Amendment]:
        """What was said of a memory later, in order."""
        if not self._corrected:
            return []
        if not self._bulk and self._notes is None:
            return [amendment_of(item) for item in self.tables.items("correction", EVERYTHING, symbol=id_)]
        if self._notes is None:
            self._notes = {}
            for item in self.tables.items("correction", EVERYTHING):
                self._notes.setdefault(item.symbol, []).append(amendment_of(item))
        return self._notes.get(id_, [])

    # ---- what episodes are made of --------------------------------------------------------------------------------

    def market_at(self, symbol: str, moment: datetime) -> Market | None:
        """The market of a symbol, with at least the bars that are looked at at a moment."""
        if self._bulk:
            if symbol not in self._whole:
                self._whole[symbol] = self.learned.market(symbol, None)
            return self._whole[symbol]
        if (symbol, moment) not in self._at:
            self._at[symbol, moment] = self.learned.market(symbol, moment)
        return self._at[symbol, moment]

    def notes(self, trade: Trade) -> list[Amendment]:
        """What was said of a trade later: corrections, and the claim that speaks of it."""
        found = self.corrections_of(trade.id)
        if self.claims and trade.quality != "claimed":
            for claim in self._near(trade, claimed=True):
                if (
                    is_same_trade(claim.trade, trade)
                    and (of := self._nearest(claim.trade)) is not None
                    and of.trade.id == trade.id
                ):
                    found = [*found, amendment_from_claim(claim.trade, claim.known_from)]
        elif self.claims and (of := self._nearest(trade)) is not None:
            standing = next((v for v in self.learned.versions(ids=[trade.id], standing=True)), None)
            if standing is not None:
                found = [*found, Amendment(max(standing.known_from, of.known_from), forget=True)]
        return found

    def _near(self, trade: Trade, *, claimed: bool) -> list[TradeVersion]:
        """Claims, or trades of the ledger, that may speak of the same trade."""
        first, last = trade.entry_at - CLAIM_WITHIN, trade.entry_at + CLAIM_WITHIN
        return self.learned.entered_near(trade.symbol, first, last, claimed)

    def _nearest(self, claim: Trade) -> TradeVersion | None:
        """The trade of the ledger that a claim speaks of."""
        if self.verified_from is None:
            return None
        ledger = self._near(claim, claimed=False)
        id_ = nearest_trade(claim, [version.trade for version in ledger])
        return next((version for version in ledger if version.trade.id == id_), None)

    def _spoken_of(self, versions: Sequence[TradeVersion], changed: dict[str, datetime | None]) -> list[TradeVersion]:
        """The trades of the ledger that a new claim speaks of, and the claims that a new trade confirms; numbers stay."""
        ids: set[str] = set()
        for version in versions:
            trade = version.trade
            if trade.quality == "claimed":
                ids |= {of.trade.id for of in [self._nearest(trade)] if of is not None}
            else:
                ids |= {claim.trade.id for claim in self._near(trade, claimed=True) if is_same_trade(claim.trade, trade)}
        ids -= set(changed)
        changed |= dict.fromkeys(ids)
        return self.learned.versions(ids=ids) if ids else []

    # ---- shadows --------------------------------------------------------------------------------------------------

    def _shadows(self, fresh: Batch, surprise: datetime | None) -> tuple[set[str], list[Episode]]:
        """The shadows that something new may end or change: their episodes' ids, and what their episodes are now."""
        touched = {decision.id or "" for decision in fresh.shadows}
        if self._undone:  # what is brought again may end what was believed of it the first time
            touched |= {item.key for item in fresh.decisions}
        for symbol, watched in fresh.bars.items():
            first, last = min(seen.bar.t0 for seen in watched), max(seen.bar.t1 for seen in watched)
            known_at = min(seen.known_at for seen in watched)
            late = self.known_at is not None and known_at < self.known_at
            touched |= {shadow.id for shadow in self.learned.shadows(symbol, first - FOLLOWED_FOR if late else first, last)}
            touched |= self._unfollowed(known_at, first - FOLLOWED_FOR, symbol, last)
        if surprise is not None:
            touched |= {shadow.id for shadow in self.learned.shadows(since=surprise)}
            touched |= self._unfollowed(surprise, surprise)
        kept = self.tables.items("decision", EVERYTHING, keys=sorted(touched), gone=True) if touched else []
        found: list[Episode] = []
        for item in in_log_order(kept):
            if is_followed(decision := read(Decision, item.body)):
                shadow = self._shadow(decision, item.known_at, item.gone_at)
                found += shadow.episodes
                if item.gone_at is None:
                    self.learned.put_shadows([ShadowRow(item.key, item.symbol, item.at, shadow.until)])
        followed = {item.key for item in kept if is_followed(read(Decision, item.body))}
        return {shadow_id(self.agent.id, key) for key in followed}, found

    def _unfollowed(
        self, known_at: datetime, since: datetime, symbol: str | None = None, before: datetime | None = None
    ) -> set[str]:
        """Decisions of a time that were taken back after `known_at`: what was believed of them until then may change."""
        if all(at <= known_at for at in self._undone):
            return set()
        kept = self.tables.items("decision", EVERYTHING, symbol=symbol, since=since, before=before, gone=True)
        return {item.key for item in kept if item.gone_at is not None and item.gone_at > known_at}

    def _shadow(self, decision: Decision, known_at: datetime, gone_at: datetime | None) -> Shadow:
        assert decision.symbol is not None and decision.t is not None
        at = decision.t
        bars = self.tables.bars(decision.symbol, EVERYTHING, ending_after=at, ending_by=at + WATCHED_FOR)
        seen = market_state_at(self.market_at(decision.symbol, at), at)
        notes = self.corrections_of(shadow_id(self.agent.id, decision.id or ""))
        return follow_shadow(self.agent, decision, known_at, bars, seen, self.past().at(at), notes, gone_at)
