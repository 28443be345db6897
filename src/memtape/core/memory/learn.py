"""Turns trades into memories: one fold that live ticks, imports, replays and rebuilds share.

In order of exit, each closed trade becomes an episode in the situation at its entry, and a step of the agent's affect.
Beliefs and habits are counted from episodes whenever they are read, so they always agree with them.

The situation at entry is what could be known then: bars that had ended and arrived, and the affect that follows from trades
known by then. A backfill (it arrives later but was known earlier) changes the situation of every trade entered since. A late
arrival (a late fill) does not. Memories are therefore a function of the set of recorded items, whatever their order.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from memtape.core.authors import MODEL_AUTHOR, OWNER_AUTHOR
from memtape.core.codec import MICROSECOND
from memtape.core.ids import TradeId
from memtape.core.items import StoredItem
from memtape.core.labels import fold_fields
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AccountChange, AccountClose, AccountFlow, AccountMark, AffectStep
from memtape.core.memory.affect_timeline import AccountEvent, AffectTimeline
from memtape.core.memory.episodes import NOT_TAUGHT, Episode, RSource
from memtape.core.memory.market import Market, MarketState
from memtape.core.memory.situation_fields import entry_fields, market_state_at
from memtape.core.observed import CashFlow, EquityMark, Situation
from memtape.core.sources import RECORDS, source_of_trade, trade_tier
from memtape.core.value_class import dataclass
from memtape.core.values import read

OUTCOME_FIELDS = frozenset({"pnl_r", "pnl_usd"})
ATR_PER_R = 1.5  # without a stop, 1R is taken as this many ATR
CLAIM_ENTRY_TOLERANCE, CLAIM_PRICE_TOLERANCE = timedelta(minutes=5), 0.0025


@dataclass(frozen=True, slots=True)
class Amendment:
    """What was stated about a trade after it was recorded: a claim, a correction, a label, or that it is forgotten."""

    known_at: datetime
    changes: Mapping[str, Any] = field(default_factory=dict)  # by field of Episode
    forget: bool = False
    by_model: bool = False  # its reflection does not replace the owner's

    @property
    def moves_affect(self) -> bool:
        """True if it changes whether or how the outcome counts."""
        return self.forget or not self.changes.keys().isdisjoint(("pnl_r", "pnl_usd", "teach"))


def amendment_of(item: StoredItem) -> Amendment:
    """Returns a correction from its stored item.

    Of a model's correction the words count. The outcome that was stated first keeps counting, and what a model forgets is only
    hidden from recall (`is_hidden_by`).
    """
    changes = fold_fields(item.body.get("changes", {}))
    if "tags" in changes:
        changes["tags"] = tuple(changes["tags"])
    if not is_models_correction(item):
        return Amendment(item.known_at, changes, bool(item.body.get("forget")))
    words = {name: value for name, value in changes.items() if name not in OUTCOME_FIELDS}
    return Amendment(item.known_at, words, by_model=True)


def is_models_correction(item: StoredItem) -> bool:
    """Returns True if a model stated a correction. Those of stores that did not record it count as the owner's."""
    return int(item.body.get("tier", OWNER_AUTHOR.tier)) >= MODEL_AUTHOR.tier


def is_hidden_by(item: StoredItem) -> bool:
    """Returns True if a correction hides a memory from recall, while it still counts: a model forgot it."""
    return bool(item.body.get("forget")) and is_models_correction(item)


# ---- affect ------------------------------------------------------------------------------------------------------------


def account_change(kind: str, body: Any, key: str, known_at: datetime) -> AccountChange:
    """Returns an equity mark or a cash flow as a change of the account."""
    if kind == "equity":
        mark = body if isinstance(body, EquityMark) else read(EquityMark, body)
        return AccountMark(mark.t, key, known_at, float(mark.equity))
    flow = body if isinstance(body, CashFlow) else read(CashFlow, body)
    return AccountFlow(flow.t, key, known_at, float(flow.usd))


def account_event_of(item: StoredItem) -> AccountEvent:
    """Returns a stored item as an account event, with the time until which it was believed."""
    return AccountEvent(account_change(item.kind, item.body, item.key, item.known_at), item.voided_at)


def account_events_of_trade(version: TradeVersion, market: MarketState, amendments: Sequence[Amendment]) -> list[AccountEvent]:
    """Returns a closed trade as account events, one for each believed version."""
    trade = version.trade
    assert trade.exit_at is not None
    claimed, net = trade.quality == "claimed", _number(trade.net_pnl_usd)
    r = _number(trade.pnl_r)
    if r is None and (proxy := proxy_risk(trade, _atr(entry_situation(trade, market, None)))) is not None:
        r = proxy[1]
    moving = [amendment for amendment in amendments if amendment.moves_affect]
    if not moving:
        close = AccountClose(trade.exit_at, trade.id, version.known_from, r, net, trade.teach not in NOT_TAUGHT, trade.entry_at)
        return [AccountEvent(close, version.known_to, claimed)]
    bare = episode_from_trade(trade, market, None, 1.0, version.known_from, version.known_to)
    found = [
        AccountEvent(
            AccountClose(e.exit_at, e.id, e.known_from, e.pnl_r, e.pnl_usd, e.teach not in NOT_TAUGHT, e.entry_at),
            e.known_to,
            claimed,
        )
        for e in episode_versions(bare, moving)
    ]
    forgotten = min((amendment.known_at for amendment in moving if amendment.forget), default=None)
    since = max(forgotten, version.known_from) if forgotten is not None else None
    if since is not None and (version.known_to is None or since < version.known_to):
        # Forgetting a trade does not restore the equity that it lost.
        found.append(
            AccountEvent(
                AccountClose(trade.exit_at, trade.id, since, None, net, False, trade.entry_at), version.known_to, claimed
            )
        )
    return found


# ---- episodes ----------------------------------------------------------------------------------------------------------


def entry_situation(trade: Trade, market: MarketState, state: AffectStep | None) -> dict[str, Any]:
    """Returns the fields of the situation at entry: as stated, else from bars and affect; the price is the entry's."""
    stated = read(Situation, json.loads(trade.entry_situation)) if trade.entry_situation else None
    found = entry_fields(trade.entry_at, stated, market, state)
    if trade.entry_price is not None:
        found["price"] = float(trade.entry_price)
    if found["spread_as_atr_pct"] is None and found["spread_points"] is not None and found["atr_m5"]:
        found["spread_as_atr_pct"] = found["spread_points"] / found["atr_m5"]
    return found


def proxy_risk(trade: Trade, atr: float | None) -> tuple[float, float] | None:
    """Returns 1R of a trade without a stop, from ATR, and the outcome in R.

    1R is in the account currency; without a size it is in units of price.
    """
    if not atr or trade.entry_price is None or not trade.entry_price:
        return None
    if trade.entry_size_usd and trade.net_pnl_usd is not None:
        risk = ATR_PER_R * atr * float(trade.entry_size_usd) / float(trade.entry_price)
        return risk, float(trade.net_pnl_usd) / risk
    if trade.exit_price is not None:
        side = 1 if trade.side == "long" else -1
        r = side * float(trade.exit_price - trade.entry_price) / (ATR_PER_R * atr)
        # A trade that lost money is no win, even if its price rose: costs, or a partial exit, may have taken more. Money decides.
        return None if (_number(trade.net_pnl_usd) or 0.0) * r < 0 else (ATR_PER_R * atr, r)
    return None


def _atr(entry: Mapping[str, Any]) -> float | None:
    """Returns the ATR at entry: hourly, else daily, else of five minutes."""
    return next((float(entry[frame]) for frame in ("atr_h1", "atr_d1", "atr_m5") if entry[frame]), None)


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def tier_of_trade(trade: Trade) -> int:
    """Returns the tier of a trade's outcome, by who reported it."""
    return trade_tier(trade.quality, source_of_trade(trade.quality, trade.source))


def episode_from_trade(
    trade: Trade, market: MarketState, state: AffectStep | None, equity: float, known_from: datetime, known_to: datetime | None
) -> Episode:
    """Returns a closed trade as an episode."""
    assert trade.exit_at is not None
    situation = entry_situation(trade, market, state)
    atr = _atr(situation)
    entry, stop = _number(trade.entry_price), _number(trade.stop_price)
    side = 1 if trade.side == "long" else -1
    distance = abs(entry - stop) or None if entry is not None and stop is not None else None
    risk, r = _number(trade.initial_risk_usd), _number(trade.pnl_r)
    r_source: RSource | None = None
    if r is not None:
        r_source = "stated" if trade.r_source == "stated" else "stop"
    elif (proxy := proxy_risk(trade, atr)) is not None:
        r, r_source = proxy[1], "atr_proxy"
        risk = proxy[0] if trade.entry_size_usd else None
    target, partial = _number(trade.target_price), _number(trade.first_partial_price)
    decided = json.loads(trade.entry_situation).get("price") if trade.entry_situation else None
    return Episode(
        id=trade.id, known_from=max(known_from, trade.exit_at), known_to=known_to, kind="trade", symbol=trade.symbol,
        strategy=trade.strategy, side=trade.side, tier=tier_of_trade(trade), claimed=trade.quality == "claimed",
        source=trade.source or RECORDS, entry_at=trade.entry_at, exit_at=trade.exit_at, pnl_r=r, r_source=r_source,
        pnl_usd=_number(trade.net_pnl_usd), hold_minutes=_number(trade.holding_minutes),
        risk_share=risk / equity if risk and equity > 0 else None,
        mfe_r=_in_r(trade.mfe_r, trade.mfe_usd, risk), mae_r=_in_r(trade.mae_r, trade.mae_usd, risk),
        target_r=abs(target - entry) / distance if target is not None and entry is not None and distance else None,
        stop_atr=distance / atr if distance and atr else None,
        partial_r=side * (partial - entry) / distance if partial is not None and entry is not None and distance else None,
        late_atr=side * (entry - decided) / atr if isinstance(decided, float | int) and entry is not None and atr else None,
        move_atr=market.move_atr, trigger=trade.exit_trigger, confidence=_number(trade.confidence), teach=trade.teach,  # type: ignore[arg-type]
        **situation,
        reflection=trade.reflection, tags=trade.tags,
    )  # fmt: skip


def _in_r(stated: Decimal | None, usd: Decimal | None, risk: float | None) -> float | None:
    if stated is not None:
        return float(stated)
    return float(usd) / risk if usd is not None and risk else None


def episode_versions(episode: Episode, amendments: Sequence[Amendment]) -> list[Episode]:
    """Returns the versions of an episode after later amendments: one from each amendment to the next."""
    starts = {episode.known_from} | {each.known_at for each in amendments if each.known_at > episode.known_from}
    ordered = sorted(start for start in starts if episode.known_to is None or start < episode.known_to)
    found: list[Episode] = []
    for start, end in zip(ordered, [*ordered[1:], episode.known_to], strict=True):
        known = [each for each in sorted(amendments, key=lambda each: each.known_at) if each.known_at <= start]
        if any(each.forget for each in known):
            continue
        owner_reflects = any("reflection" in each.changes for each in known if not each.by_model)
        changes: dict[str, Any] = {}
        for each in known:
            kept = each.changes
            if owner_reflects and each.by_model:
                kept = {name: value for name, value in kept.items() if name != "reflection"}
            changes |= kept
        found.append(episode._replace(**changes, known_from=start, known_to=end))
    return _joined(found)


def until_voided(versions: Sequence[Episode], voided_at: datetime | None) -> list[Episode]:
    """Returns the versions, ended when the record behind them was taken back."""
    if voided_at is None:
        return list(versions)
    earlier = [v for v in versions if v.known_from < voided_at]
    return [v._replace(known_to=voided_at if v.known_to is None else min(v.known_to, voided_at)) for v in earlier]


def _joined(versions: Sequence[Episode]) -> list[Episode]:
    """Returns the versions with equal neighbours joined into one."""
    found: list[Episode] = []
    for version in versions:
        if found and found[-1].known_to == version.known_from and found[-1][3:] == version[3:]:
            found[-1] = found[-1]._replace(known_to=version.known_to)
        else:
            found.append(version)
    return found


def episodes_from_versions(
    versions: Iterable[TradeVersion], market: Callable[[str, datetime], Market | None], timeline: AffectTimeline,
    starting: float, amendments: Callable[[Trade], Sequence[Amendment]],
) -> Iterator[Episode]:  # fmt: skip
    """The episodes of closed trades, in all their versions. The versions are gone through twice."""
    # In ascending order, because the timeline carries a past belief from one moment to the next.
    states = {moment: timeline.at(moment) for moment in sorted({moment_before_entry(version.trade) for version in versions})}
    for version in versions:
        trade = version.trade
        state = states[moment_before_entry(trade)]
        at_entry = market_state_at(market(trade.symbol, trade.entry_at), trade.entry_at)
        equity = state.equity if state is not None else starting
        episode = episode_from_trade(trade, at_entry, state, equity, version.known_from, version.known_to)
        if episode.known_to is not None and episode.known_to <= episode.known_from:
            # Replaced before the exit: it was never believed as a closed trade.
            continue
        amended = amendments(trade)
        if amended:
            yield from episode_versions(episode, amended)
        else:
            yield episode


def moment_before_entry(trade: Trade) -> datetime:
    """Returns the moment whose state is that of the entry."""
    # A trade reported with a single time ends when it starts. Its own outcome must not be part of its situation.
    instant = trade.exit_at is not None and trade.exit_at <= trade.entry_at
    return trade.entry_at - MICROSECOND if instant else trade.entry_at


def is_same_trade(claim: Trade | _StatedEntry, trade: Trade | _StatedEntry) -> bool:
    """Returns True if a claim describes this trade of the ledger: same symbol and side, entry within 5 minutes and 0.25 %."""
    if claim.symbol != trade.symbol or claim.side != trade.side or abs(claim.entry_at - trade.entry_at) > CLAIM_ENTRY_TOLERANCE:
        return False
    if claim.entry_price is None or trade.entry_price is None:
        return False
    return abs(float(claim.entry_price) - float(trade.entry_price)) <= CLAIM_PRICE_TOLERANCE * float(trade.entry_price)


def amendment_from_claim(claim: Trade | _StatedEntry, known_at: datetime) -> Amendment:
    """Returns what a claim adds to the trade of the ledger that it describes: its reflection.

    Its confidence is not taken: it may have been stated when the outcome was known, and evidence is weighted by confidence.
    """
    return Amendment(known_at, {} if claim.reflection is None else {"reflection": claim.reflection}, by_model=True)


def nearest_trade(claim: Trade | _StatedEntry, ledger: Iterable[Trade | _StatedEntry]) -> TradeId | None:
    """Returns the trade of the ledger that a claim describes, the nearest by entry; None if there is none."""
    matching = [trade for trade in ledger if is_same_trade(claim, trade)]
    return min(matching, key=lambda t: (abs(t.entry_at - claim.entry_at), t.id)).id if matching else None


class _StatedEntry(NamedTuple):
    """What of a trade tells whether a claim describes it, and what a claim adds to it. Trades may be many."""

    id: TradeId
    symbol: str
    side: str
    entry_at: datetime
    entry_price: Decimal | None
    known_from: datetime
    reflection: str | None

    @classmethod
    def of(cls, version: TradeVersion) -> _StatedEntry:
        trade = version.trade
        return cls(trade.id, trade.symbol, trade.side, trade.entry_at, trade.entry_price, version.known_from,
                   trade.reflection)  # fmt: skip


def claims_about(versions: Iterable[TradeVersion]) -> dict[str, list[Amendment]]:
    """Returns what claims add to trades of the ledger, by trade. A claim that the ledger confirms has no episode of its own.

    The versions are gone through twice.
    """
    claims = [_StatedEntry.of(v) for v in versions if v.known_to is None and v.trade.quality == "claimed"]
    if not claims:
        return {}
    ledger = sorted(
        (_StatedEntry.of(v) for v in versions if v.known_to is None and v.trade.quality != "claimed"),
        key=lambda trade: trade.entry_at,
    )
    entered = [trade.entry_at for trade in ledger]
    known_from = {trade.id: trade.known_from for trade in ledger}
    found: dict[str, list[Amendment]] = {}
    for claim in claims:
        first = bisect_right(entered, claim.entry_at - CLAIM_ENTRY_TOLERANCE - timedelta(microseconds=1))
        last = bisect_right(entered, claim.entry_at + CLAIM_ENTRY_TOLERANCE)
        if (id_ := nearest_trade(claim, ledger[first:last])) is not None:
            since = known_from[id_]
            found.setdefault(id_, []).append(amendment_from_claim(claim, claim.known_from))
            found.setdefault(claim.id, []).append(Amendment(max(claim.known_from, since), forget=True))
    return found
