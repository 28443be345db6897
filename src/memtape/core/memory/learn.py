"""From trades to memories: one fold that live ticks, imports, replays and rebuilds share.

In order of exit, each closed trade becomes an episode in the situation at its entry and moves the agent's state of mind.
Beliefs and habits are counted from episodes whenever they are read, so they can never be out of step with them.

The situation at entry is what could be known then: bars that had ended and arrived, and the state that follows from trades
known by then. What arrives later with an earlier knowledge (a backfill) changes it for all that were entered since; what
arrives late (a late fill) does not. That makes memories a function of the set of what was recorded, whatever its order.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from memtape.core.codec import MICROSECOND
from memtape.core.items import StoredItem
from memtape.core.ledger.trades import Trade
from memtape.core.ledger.versions import TradeVersion
from memtape.core.memory.affect import AccountChange, AccountClose, AccountFlow, AccountMark, AffectStep, affect_steps
from memtape.core.memory.episodes import NOT_TAUGHT, Episode, RSource
from memtape.core.memory.market import Market, MarketState
from memtape.core.memory.situation_fields import entry_fields, market_state_at
from memtape.core.observed import CashFlow, EquityMark, Situation
from memtape.core.values import read

ATR_PER_R = 1.5  # without a stop, what is risked is taken as this many ATR
TIER_OF = {"fills": 0, "reported": 0, "inferred": 2, "unpriced": 2, "claimed": 3}
CLAIM_WITHIN, CLAIM_PRICE = timedelta(minutes=5), 0.0025


@dataclass(frozen=True, slots=True)
class Amendment:
    """What was said of a trade after it was recorded: a claim about it, a correction, the owner's label, that it be forgotten."""

    known_at: datetime
    changes: Mapping[str, Any] = field(default_factory=dict)  # by field of Episode
    forget: bool = False

    @property
    def moves_affect(self) -> bool:
        """Whether it changes what an outcome counts as."""
        return self.forget or not self.changes.keys().isdisjoint(("pnl_r", "pnl_usd", "teach"))


def amendment_of(item: StoredItem) -> Amendment:
    """A correction as it was stated."""
    changes = dict(item.body.get("changes", {}))
    if "tags" in changes:
        changes["tags"] = tuple(changes["tags"])
    return Amendment(item.known_at, changes, bool(item.body.get("forget")))


# ---- the state of mind -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AccountEvent:
    """An event of the account with the time in which it was believed; a claim counts only while there is no broker."""

    event: AccountChange
    known_to: datetime | None = None
    claimed: bool = False


def account_change(kind: str, body: Any, key: str, known_at: datetime) -> AccountChange:
    """An equity mark or a cash flow as affect feels it."""
    if kind == "equity":
        mark = body if isinstance(body, EquityMark) else read(EquityMark, body)
        return AccountMark(mark.t, key, known_at, float(mark.equity))
    flow = body if isinstance(body, CashFlow) else read(CashFlow, body)
    return AccountFlow(flow.t, key, known_at, float(flow.usd))


def account_event_of(item: StoredItem) -> AccountEvent:
    """The same out of the store, with the time in which it was believed."""
    return AccountEvent(account_change(item.kind, item.body, item.key, item.known_at), item.gone_at)


LOOKED_AT = 16


class AffectTimeline:
    """What the agent's state was, as far as it could be known at any moment."""

    def __init__(
        self, steps: Callable[[datetime], Sequence[AffectStep]], replaced: Callable[[datetime], bool],
        told: Callable[[], Sequence[AccountEvent]], starting: float, verified_from: datetime | None, claims: bool,
    ) -> None:  # fmt: skip
        """`steps` gives the last steps by a moment, of the fold of all that stands now; `replaced` whether something was then
        believed that no longer stands; `told` all that happened to the account, for the rare case that the fold must be
        made again; `claims` whether the agent ever claimed a trade."""
        self._steps, self._replaced, self._told, self._starting = steps, replaced, told, starting
        self._verified_from, self._claims = verified_from, claims

    def at(self, moment: datetime) -> AffectStep | None:
        """The state at a moment, from what was known at it."""
        if self._claims and self._verified_from is not None and moment < self._verified_from:
            return self._again(moment)  # then its claims still counted
        steps = self._steps(moment)
        place = len(steps) - 1
        while place >= 0 and steps[place].known_by > moment:
            if steps[place].known_at <= moment:
                return self._again(moment)  # known although something before it was not
            place -= 1
        if (place < 0 and len(steps) == LOOKED_AT) or self._replaced(moment):
            return self._again(moment)
        return steps[place] if place >= 0 else None

    def steps_known_at(self, moment: datetime) -> list[AffectStep]:
        """All steps by a moment, taken from what was known at it."""
        return affect_steps(believed_changes(self._told(), moment, self._verified_from), self._starting)

    def _again(self, moment: datetime) -> AffectStep | None:
        steps = self.steps_known_at(moment)
        return steps[-1] if steps else None


def steps_until(steps: Sequence[AffectStep]) -> Callable[[datetime], Sequence[AffectStep]]:
    """Steps in memory, to be asked for the last of them by a moment."""
    ats = [step.at for step in steps]

    def until(moment: datetime) -> Sequence[AffectStep]:
        place = bisect_right(ats, moment)
        return steps[max(0, place - LOOKED_AT) : place]

    return until


def timeline_of(
    told: Sequence[AccountEvent], steps: Sequence[AffectStep], starting: float, verified_from: datetime | None
) -> AffectTimeline:
    """The past out of all that happened, in memory."""
    spans = [(t.event.known_at, t.known_to) for t in told if t.known_to is not None]

    def replaced(moment: datetime) -> bool:
        return any(start <= moment < end for start, end in spans)

    return AffectTimeline(steps_until(steps), replaced, lambda: told, starting, verified_from, any(t.claimed for t in told))


def believed_changes(
    told: Iterable[AccountEvent], moment: datetime | None, verified_from: datetime | None
) -> list[AccountChange]:
    """The events as they were believed at a moment (None: now)."""
    if moment is None:
        return [t.event for t in told if t.known_to is None and not (t.claimed and verified_from is not None)]
    claims_count = claims_count_at(moment, verified_from)
    return [
        t.event for t in told
        if t.event.at <= moment and t.event.known_at <= moment and (t.known_to is None or t.known_to > moment)
        and (claims_count or not t.claimed)
    ]  # fmt: skip


def claims_count_at(moment: datetime, verified_from: datetime | None) -> bool:
    """Whether the agent's own claims count at a moment: while there is no broker to ask."""
    return verified_from is None or moment < verified_from


def account_events_of_trade(version: TradeVersion, seen: MarketState, notes: Sequence[Amendment]) -> list[AccountEvent]:
    """A closed trade as the state of mind feels it, in the versions in which it was believed."""
    trade = version.trade
    assert trade.exit_at is not None
    claimed, net = trade.quality == "claimed", _number(trade.net_pnl_usd)
    r = _number(trade.pnl_r)
    if r is None and (proxy := proxy_risk(trade, _atr(entry_situation(trade, seen, None)))) is not None:
        r = proxy[1]
    notes = [note for note in notes if note.moves_affect]
    if not notes:
        close = AccountClose(trade.exit_at, trade.id, version.known_from, r, net, trade.teach not in NOT_TAUGHT, trade.entry_at)
        return [AccountEvent(close, version.known_to, claimed)]
    bare = episode_from_trade(trade, seen, None, 1.0, version.known_from, version.known_to)
    found = [
        AccountEvent(
            AccountClose(e.exit_at, e.id, e.known_from, e.pnl_r, e.pnl_usd, e.teach not in NOT_TAUGHT, e.entry_at),
            e.known_to,
            claimed,
        )
        for e in episode_versions(bare, notes)
    ]
    forgotten = min((note.known_at for note in notes if note.forget), default=None)
    since = max(forgotten, version.known_from) if forgotten is not None else None
    if since is not None and (version.known_to is None or since < version.known_to):  # what the account lost it lost
        found.append(
            AccountEvent(
                AccountClose(trade.exit_at, trade.id, since, None, net, False, trade.entry_at), version.known_to, claimed
            )
        )
    return found


# ---- episodes ----------------------------------------------------------------------------------------------------------


def entry_situation(trade: Trade, seen: MarketState, state: AffectStep | None) -> dict[str, Any]:
    """The situation at entry: what the decision said of it, else what bars and the state of mind show; its own price."""
    said = read(Situation, json.loads(trade.entry_situation)) if trade.entry_situation else None
    found = entry_fields(trade.entry_at, said, seen, state)
    if trade.entry_price is not None:
        found["price"] = float(trade.entry_price)
    if found["spread_as_atr_pct"] is None and found["spread_points"] is not None and found["atr_m5"]:
        found["spread_as_atr_pct"] = found["spread_points"] / found["atr_m5"]
    return found


def proxy_risk(trade: Trade, atr: float | None) -> tuple[float, float] | None:
    """1R of a trade without a stop, from ATR: in the account currency, or (without a size) in price; and the outcome in it."""
    if not atr or trade.entry_price is None or not trade.entry_price:
        return None
    if trade.entry_size_usd and trade.net_pnl_usd is not None:
        risk = ATR_PER_R * atr * float(trade.entry_size_usd) / float(trade.entry_price)
        return risk, float(trade.net_pnl_usd) / risk
    if trade.exit_price is not None:
        side = 1 if trade.side == "long" else -1
        return ATR_PER_R * atr, side * float(trade.exit_price - trade.entry_price) / (ATR_PER_R * atr)
    return None


def _atr(entry: Mapping[str, Any]) -> float | None:
    """The ATR at entry: of the hour, else of the day, else of five minutes."""
    return next((float(entry[frame]) for frame in ("atr_h1", "atr_d1", "atr_m5") if entry[frame]), None)


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def episode_from_trade(
    trade: Trade, seen: MarketState, state: AffectStep | None, equity: float, known_from: datetime, known_to: datetime | None
) -> Episode:
    """A closed trade as an episode."""
    assert trade.exit_at is not None
    situation = entry_situation(trade, seen, state)
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
    said = json.loads(trade.entry_situation).get("price") if trade.entry_situation else None
    return Episode(
        id=trade.id, known_from=max(known_from, trade.exit_at), known_to=known_to, kind="trade", symbol=trade.symbol,
        strategy=trade.strategy, side=trade.side, tier=TIER_OF[trade.quality], claimed=trade.quality == "claimed",
        source=trade.source or "broker", entry_at=trade.entry_at, exit_at=trade.exit_at, pnl_r=r, r_source=r_source,
        pnl_usd=_number(trade.net_pnl_usd), hold_minutes=_number(trade.holding_minutes),
        risk_share=risk / equity if risk and equity > 0 else None,
        mfe_r=_in_r(trade.mfe_r, trade.mfe_usd, risk), mae_r=_in_r(trade.mae_r, trade.mae_usd, risk),
        target_r=abs(target - entry) / distance if target is not None and entry is not None and distance else None,
        stop_atr=distance / atr if distance and atr else None,
        partial_r=side * (partial - entry) / distance if partial is not None and entry is not None and distance else None,
        late_atr=side * (entry - said) / atr if isinstance(said, float | int) and entry is not None and atr else None,
        move_atr=seen.move_atr, trigger=trade.exit_trigger, confidence=_number(trade.confidence), teach=trade.teach,  # type: ignore[arg-type]
        **situation,
        reflection=trade.reflection, tags=trade.tags,
    )  # fmt: skip


def _in_r(stated: Decimal | None, usd: Decimal | None, risk: float | None) -> float | None:
    if stated is not None:
        return float(stated)
    return float(usd) / risk if usd is not None and risk else None


def episode_versions(episode: Episode, notes: Sequence[Amendment]) -> list[Episode]:
    """An episode in the versions that what was said of it later makes of it."""
    starts = {episode.known_from} | {note.known_at for note in notes if note.known_at > episode.known_from}
    ordered = sorted(start for start in starts if episode.known_to is None or start < episode.known_to)
    found: list[Episode] = []
    for start, end in zip(ordered, [*ordered[1:], episode.known_to], strict=True):
        said = [note for note in sorted(notes, key=lambda note: note.known_at) if note.known_at <= start]
        if said and any(note.forget for note in said):
            continue
        changes: dict[str, Any] = {}
        for note in said:
            changes |= note.changes
        found.append(episode._replace(**changes, known_from=start, known_to=end))
    return _joined(found)


def until_gone(versions: Sequence[Episode], gone_at: datetime | None) -> list[Episode]:
    """Versions as far as they were believed before what they rest on was taken back."""
    if gone_at is None:
        return list(versions)
    left = [v for v in versions if v.known_from < gone_at]
    return [v._replace(known_to=gone_at if v.known_to is None else min(v.known_to, gone_at)) for v in left]


def _joined(versions: Sequence[Episode]) -> list[Episode]:
    """Neighbours that say the same are one."""
    found: list[Episode] = []
    for version in versions:
        if found and found[-1].known_to == version.known_from and found[-1][3:] == version[3:]:
            found[-1] = found[-1]._replace(known_to=version.known_to)
        else:
            found.append(version)
    return found


def episodes_from_versions(
    versions: Iterable[TradeVersion], market: Callable[[str, datetime], Market | None], past: AffectTimeline, starting: float,
    notes: Callable[[Trade], Sequence[Amendment]],
) -> list[Episode]:  # fmt: skip
    """The episodes of closed trades, in all their versions."""
    found: list[Episode] = []
    for version in versions:
        trade = version.trade
        at_once = trade.exit_at is not None and trade.exit_at <= trade.entry_at  # told with one time only: not by its own outcome
        state = past.at(trade.entry_at - MICROSECOND if at_once else trade.entry_at)
        seen = market_state_at(market(trade.symbol, trade.entry_at), trade.entry_at)
        equity = state.nav + state.flows if state is not None else starting
        episode = episode_from_trade(trade, seen, state, equity, version.known_from, version.known_to)
        if episode.known_to is not None and episode.known_to <= episode.known_from:
            continue
        said = notes(trade)
        if said:
            found += episode_versions(episode, said)
        else:
            found.append(episode)
    return found


def is_same_trade(claim: Trade, trade: Trade) -> bool:
    """Whether a claim speaks of this trade of the ledger: symbol, side, and entry within five minutes and a quarter percent."""
    if claim.symbol != trade.symbol or claim.side != trade.side or abs(claim.entry_at - trade.entry_at) > CLAIM_WITHIN:
        return False
    if claim.entry_price is None or trade.entry_price is None:
        return False
    return abs(float(claim.entry_price) - float(trade.entry_price)) <= CLAIM_PRICE * float(trade.entry_price)


def amendment_from_claim(claim: Trade, known_at: datetime) -> Amendment:
    """What a claim adds to the trade of the ledger that it speaks of: words and confidence, no numbers."""
    said = {"reflection": claim.reflection, "confidence": _number(claim.confidence)}
    return Amendment(known_at, {name: value for name, value in said.items() if value is not None})


def nearest_trade(claim: Trade, ledger: Iterable[Trade]) -> str | None:
    """The trade of the ledger that a claim speaks of."""
    matching = [trade for trade in ledger if is_same_trade(claim, trade)]
    return min(matching, key=lambda t: (abs(t.entry_at - claim.entry_at), t.id)).id if matching else None


def claims_about(versions: Sequence[TradeVersion]) -> dict[str, list[Amendment]]:
    """What claims add to trades of the ledger, by trade; a claim that the ledger confirms is no episode of its own."""
    standing = [version for version in versions if version.known_to is None]
    ledger = sorted((v.trade for v in standing if v.trade.quality != "claimed"), key=lambda trade: trade.entry_at)
    entered = [trade.entry_at for trade in ledger]
    known_from = {version.trade.id: version.known_from for version in standing}
    found: dict[str, list[Amendment]] = {}
    for claim in standing:
        if claim.trade.quality == "claimed":
            first = bisect_right(entered, claim.trade.entry_at - CLAIM_WITHIN - timedelta(microseconds=1))
            last = bisect_right(entered, claim.trade.entry_at + CLAIM_WITHIN)
            if (id_ := nearest_trade(claim.trade, ledger[first:last])) is not None:
                since = known_from[id_]
                found.setdefault(id_, []).append(amendment_from_claim(claim.trade, claim.known_from))
                found.setdefault(claim.trade.id, []).append(Amendment(max(claim.known_from, since), forget=True))
    return found
