"""A view: one read transaction and one cutoff. Everything in an answer is read through one view, so its parts agree.

`StoredView` and `ViewAtHead` implement the same primitives; every other read is a plain function of a `View` (`ledger`,
`memories`, `situation`, `plans`, `lessons`) and does not know which of the two it was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from memtape.core.events import OF_SNAPSHOTS
from memtape.core.items import OWNER_STREAM
from memtape.core.ledger.trade_page import TradeLabels
from memtape.core.memory.affect import Affect
from memtape.core.memory.beliefs import StatedBelief
from memtape.core.sources import OUTCOME_SOURCES, TradeSource, source_of_episode, source_phrase
from memtape.core.value_class import dataclass
from memtape.engine.arguments import require_row
from memtape.store.memories import MemoryTables
from memtape.store.tables import Tables

if TYPE_CHECKING:
    from memtape.core.decisions.followed import FollowedOutcome
    from memtape.core.events import Discrepancy
    from memtape.core.items import StoredItem
    from memtape.core.ledger.rounds import KnownBar
    from memtape.core.ledger.trade_page import TradePage
    from memtape.core.ledger.trades import Trade
    from memtape.core.memory.affect import AffectStep
    from memtape.core.memory.beliefs import Belief
    from memtape.core.memory.episodes import Episode
    from memtape.core.memory.market import Market
    from memtape.core.memory.outcome_units import OutcomeUnit, Signal
    from memtape.core.memory.plans import PlanState
    from memtape.core.memory.trade_labels import EntryLabels
    from memtape.core.recall.query import PlanMemory, Query
    from memtape.core.recall.reference import Recalled
    from memtape.core.recall.unknown_values import KnownValues
    from memtape.core.skills import Agent
    from memtape.store.cutoff import Cutoff
    from memtape.store.rows import Head


@dataclass(frozen=True, slots=True)
class AnswerBasis:
    """What an answer rests on: the moment, whether the agent's own claims count, how many episodes were known, who reported them.

    `notes` say what the question asks for and no memory has.
    """

    as_of: datetime
    claims_count: bool
    n: int
    first_exit: datetime | None = None
    last_exit: datetime | None = None
    sources: tuple[TradeSource, ...] = ()  # of the trades whose outcomes count
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, as_of: datetime, claims_count: bool, episodes: Sequence[Episode]) -> AnswerBasis:
        """The basis of an answer that rests on these episodes, claims only where they count."""
        exits = [episode.exit_at for episode in episodes if claims_count or not episode.claimed]
        reporters = {(e.claimed, e.source) for e in episodes if e.kind == "trade"}
        sources = counted_sources(reporters, claims_count)
        return cls(as_of, claims_count, len(exits), min(exits, default=None), max(exits, default=None), sources)

    @property
    def source_text(self) -> str:
        """Who reported the outcomes, in words."""
        return source_phrase(self.sources)

    @property
    def outcome_source(self) -> Literal["claimed", "verified"]:
        """Whether the agent's own claims count, or only the records of the venue and the owner."""
        return "claimed" if self.claims_count else "verified"


def counted_sources(reporters: Iterable[tuple[bool, str]], claims_count: bool) -> tuple[TradeSource, ...]:
    """The sources of trades by whether each is claimed and who reported it; claims only where they count."""
    found = {source_of_episode(claimed, reporter) for claimed, reporter in reporters if claims_count or not claimed}
    return tuple(source for source in OUTCOME_SOURCES if source in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeFilter:
    """Which trades are wanted, in which order, and how many; `after` continues a page behind its last (entry time, id)."""

    status: str | None = None
    symbol: str | None = None
    strategy: str | None = None
    side: str | None = None
    newest: bool = True
    limit: int | None = None
    after: tuple[datetime, str] | None = None

    def __post_init__(self) -> None:
        if self.limit is not None:
            require_row("limit", self.limit)

    def admits(self, trade: Trade) -> bool:
        """True if a trade is one of those wanted."""
        return (
            (self.status is None or trade.status == self.status)
            and (self.symbol is None or trade.symbol == self.symbol)
            and (self.strategy is None or trade.strategy == self.strategy)
            and (self.side is None or trade.side == self.side)
            and (self.after is None or self._is_behind(trade, self.after))
        )

    def _is_behind(self, trade: Trade, after: tuple[datetime, str]) -> bool:
        if trade.entry_at == after[0]:
            return trade.id > after[1]
        return trade.entry_at < after[0] if self.newest else trade.entry_at > after[0]


ALL_TRADES = TradeFilter()
_NO_LABELS = TradeLabels()
MAX_TICKS_BACK = 20


class View(ABC):
    """One agent's record as of a moment, and as far as it was recorded by a row of the log."""

    def __init__(self, tables: Tables, agent: Agent, cutoff: Cutoff, head: Head | None = None) -> None:
        assert cutoff.as_of is not None, "a view has a moment"
        self.tables, self.agent, self.cutoff, self.as_of = tables, agent, cutoff, cutoff.as_of
        self.recorded_head = cutoff.head
        self.is_present = False  # True if the reader asked for neither a moment nor a row of the log
        self.is_reproduction = False  # True if the reader asked for a row of the log, to see again what was seen then
        self.owner_tables = Tables(tables.session, tables.owner, OWNER_STREAM)
        self.memory_tables = MemoryTables(tables)
        self._items: dict[tuple[Any, ...], list[StoredItem]] = {}
        self._heads: dict[str, Head] = {} if head is None else {tables.stream: head}
        self._markets: dict[str, Market | None] = {}
        self._plans: list[PlanState] | None = None

    # ---- what both kinds of view share: items and heads are limited by the cutoff itself ----------------------------

    @property
    def head(self) -> Head:
        """The head of the agent's stream, as this transaction sees it."""
        return self._head(self.tables)

    @property
    def owner_head(self) -> Head:
        """The head of the owner's stream, as this transaction sees it."""
        return self._head(self.owner_tables)

    def limit_owner(self, owner_head: int) -> None:
        """Limit the owner's stream to the rows stated by `owner_head`."""
        self.cutoff = replace(self.cutoff, owner_head=owner_head)

    def _head(self, tables: Tables) -> Head:
        if tables.stream not in self._heads:
            self._heads[tables.stream] = tables.head()
        return self._heads[tables.stream]

    def items(
        self, kind: str, *, keys: Sequence[str] | None = None, symbol: str | None = None, since: datetime | None = None,
        before: datetime | None = None, limit: int | None = None, newest: bool = False, voided: bool = False,
    ) -> list[StoredItem]:  # fmt: skip
        """Items of the agent's stream that were known and recorded by the cutoff."""
        # Several sections of one answer ask for the same items: the transaction shows one state, so one query will do.
        asked = (kind, None if keys is None else tuple(keys), symbol, since, before, limit, newest, voided)
        if asked not in self._items:
            self._items[asked] = self.tables.items(
                kind, self.cutoff, keys=keys, symbol=symbol, since=since, before=before, limit=limit, newest=newest, voided=voided
            )
        return self._items[asked]

    def owner_items(
        self, kind: str, *, symbols: Sequence[str] | None = None, since: datetime | None = None, before: datetime | None = None
    ) -> list[StoredItem]:
        """Items of the owner's stream that were known by the moment and stated by `owner_head`."""
        asked = (kind, symbols, since, before, self.cutoff.owner_head)
        if asked not in self._items:
            cutoff = self.cutoff.owners()
            self._items[asked] = self.owner_tables.items(kind, cutoff, symbols=symbols, since=since, before=before)
        return self._items[asked]

    def latest_ticks(self) -> list[StoredItem]:
        """The last ticks by the moment, newest first; enough to find the last marks and the last snapshot."""
        ticks = self.items("tick", newest=True, limit=MAX_TICKS_BACK)
        return [tick for tick in ticks if tick.at <= self.as_of]

    def market(self, symbol: str) -> Market | None:
        """The market of a symbol, with the bars that are looked at at the moment."""
        if symbol not in self._markets:
            self._markets[symbol] = self.memory_tables.market(symbol, self.as_of, self.cutoff.head)
        return self._markets[symbol]

    def stored_plans(self) -> list[PlanState]:
        """Every plan in the state of the present."""
        if self._plans is None:
            self._plans = self.memory_tables.plans()
        return self._plans

    def last_bar(self, symbol: str) -> KnownBar | None:
        """The last bar of a symbol that was completed by the moment."""
        return self.tables.last_bar(symbol, self.as_of, self.cutoff)

    @property
    def is_verified(self) -> bool:
        """True if there were records of the venue or the owner by the moment: claims are then no part of the ledger."""
        return self.verified_from is not None and self.verified_from <= self.as_of

    @property
    def claims_count(self) -> bool:
        """True while the agent's own claims are all there is."""
        return not self.is_verified

    def stated_beliefs(self) -> list[StatedBelief]:
        """The beliefs that the owner stated and has not retired."""
        stated = self.items("belief")
        # Most owners state none, and then there is nothing to retire.
        retired = {item.symbol for item in self.items("unbelief")} if stated else set()
        return [stated_belief(item.key, item.body, item.known_at) for item in stated if item.key not in retired]

    def affect(self) -> Affect:
        """The affect state at the moment; calm before anything happened."""
        step, settings = self.affect_step(), self.agent.settings
        starting = float(settings.starting_equity)
        affect = step.state() if step is not None else Affect(peak_equity=starting, equity=starting)
        if settings.stated_equity is None and (step is None or step.marked_at is None):
            return replace(affect, assumed_equity=starting)
        return affect

    # ---- the primitives: stored rows and the log answer them in their own way ---------------------------------------

    @abstractmethod
    def release(self) -> None:
        """Let go of what the view holds beside its transaction."""

    @abstractmethod
    def at(self, moment: datetime) -> View:
        """The same transaction as of an earlier moment."""

    @property
    @abstractmethod
    def verified_from(self) -> datetime | None:
        """Since when there have been records of the venue or the owner, as far as was known."""

    @abstractmethod
    def trades(self, wanted: TradeFilter = ALL_TRADES) -> list[Trade]:
        """Trades, open and closed, ordered by entry time and id."""

    @abstractmethod
    def trade_page(self, page: TradePage) -> list[Trade]:
        """A page of trades, open and closed, in the order asked for."""

    @abstractmethod
    def trade(self, id: str) -> Trade | None:
        """One trade of the ledger."""

    @abstractmethod
    def closed_between(self, first: datetime, last: datetime) -> list[Trade]:
        """Closed trades that ended within a time, ordered by exit time and id."""

    @abstractmethod
    def closed_trades(self, ids: Collection[str]) -> list[Trade]:
        """Some closed trades by id, each in the version believed at the moment, claims included, ordered by id."""

    @abstractmethod
    def trades_entered_by(self, decisions: Collection[str]) -> list[Trade]:
        """The trades of the ledger, open and closed, that some decisions entered, ordered by entry time and id."""

    @abstractmethod
    def outcomes(
        self, *, ids: Collection[str] | None = None, symbol: str | None = None, since: datetime | None = None,
        limit: int | None = None,
    ) -> list[FollowedOutcome]:  # fmt: skip
        """What bars show of the decisions that are followed, as believed at the moment, the newest decisions first."""

    @abstractmethod
    def discrepancies(self, limit: int) -> list[Discrepancy]:
        """Where two records of the account do not agree, newest first."""

    @abstractmethod
    def open_position_count(self) -> int | None:
        """How many positions were held; None where nobody looked."""

    @abstractmethod
    def episodes(self) -> list[Episode]:
        """Every episode in the version believed at the moment."""

    @abstractmethod
    def episodes_of_signals(self, signals: Collection[Signal]) -> list[Episode]:
        """The episodes of all trades of some signals, in the version believed at the moment."""

    @abstractmethod
    def episode(self, id: str) -> Episode | None:
        """One episode in the version believed at the moment."""

    @abstractmethod
    def entry_labels(self, ids: Collection[str]) -> Mapping[str, EntryLabels]:
        """The labels of some trades' entries, as their episodes had them at the moment, by trade."""

    @abstractmethod
    def latest_episodes(self, limit: int, *, symbol: str | None = None, strategy: str | None = None) -> list[Episode]:
        """The trades that ended last, oldest first; without claims if they do not count."""

    @abstractmethod
    def money_unit(self) -> OutcomeUnit:
        """The agent's unit of money, from all its trades known at the moment."""

    @abstractmethod
    def basis(self) -> AnswerBasis:
        """What an answer from all episodes rests on."""

    @abstractmethod
    def known_values(self, *, counted: bool = False) -> KnownValues:
        """The labels and symbols of the episodes known by the moment: of all, or of those that count."""

    def held_symbols(self) -> set[str]:
        """The symbols of open trades."""
        return {trade.symbol for trade in self.trades(TradeFilter(status="open"))}

    @abstractmethod
    def beliefs(self) -> list[Belief]:
        """What is believed at the moment, in every status."""

    @abstractmethod
    def recall(self, query: Query, beliefs: Sequence[Belief], plans: Sequence[PlanMemory]) -> Recalled:
        """What memory has to say about the situation of a query."""

    @abstractmethod
    def affect_step(self) -> AffectStep | None:
        """The last step of the affect state that was known; None before anything happened."""

    @abstractmethod
    def affect_history(self, limit: int) -> list[AffectStep]:
        """The last steps of the affect state, oldest first."""

    @abstractmethod
    def affect_step_count(self) -> int:
        """How many closes, equity marks and cash flows lie behind the affect state."""

    @abstractmethod
    def plan_states(self) -> list[PlanState]:
        """Every plan and its state."""


def stated_belief(id: str, body: Mapping[str, Any], stated_at: datetime) -> StatedBelief:
    """A belief as its owner stated it."""
    return StatedBelief(id=id, stated_at=stated_at, **body)


def discrepancies_to_show(view: View, found: Sequence[Discrepancy]) -> list[Discrepancy]:
    """The discrepancies that say something: for an agent that only ever sends snapshots, a change of position is normal."""
    if any(each.why in OF_SNAPSHOTS for each in found) and not view.tables.has_fill(known=view.cutoff):
        return [each for each in found if each.why not in OF_SNAPSHOTS]
    return list(found)


def select_trades(view: View, trades: Sequence[Trade], wanted: TradeFilter) -> list[Trade]:
    """The trades of a view that are wanted, in order, each with the owner's label on how it may teach."""
    verified = view.is_verified
    chosen = [trade for trade in trades if wanted.admits(trade) and not (verified and trade.quality == "claimed")]
    chosen.sort(key=lambda trade: trade.id)
    chosen.sort(key=lambda trade: trade.entry_at, reverse=wanted.newest)
    return with_labels(view, chosen if wanted.limit is None else chosen[: wanted.limit])


def past_page(view: View, page: TradePage) -> list[Trade]:
    """A page of trades of a past moment, out of all of them."""
    labels: dict[str, TradeLabels] = {}
    if page.by_labels or page.tag is not None:
        labels = {episode.id: TradeLabels.of_episode(episode) for episode in view.episodes()}
    known = [(trade, labels.get(trade.id, _NO_LABELS) if trade.status == "closed" else None) for trade in view.trades()]
    return page.cut(trade for trade, own in known if page.admits(trade, own))


def with_labels(view: View, trades: list[Trade]) -> list[Trade]:
    """Trades with the owner's label on how each may teach, where that is not as usual."""
    corrections = sorted(view.items("correction"), key=lambda item: item.seq)
    labels = {item.symbol: item.body["changes"]["teach"] for item in corrections if "teach" in item.body["changes"]}
    return [trade._replace(teach=labels[trade.id]) if trade.id in labels else trade for trade in trades] if labels else trades
