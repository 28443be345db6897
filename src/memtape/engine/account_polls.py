"""Polls of a live account, compared with the store: from when to read, and which part of the answer is new.

Which venue an agent follows is a statement in its log, so that other processes know where its market is. So is what could not be
read there.

A venue takes the money of a withdrawal at once and lists it minutes later. Equity that moved without a visible reason is
therefore held back for a while: otherwise a withdrawal would be recorded as a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from memtape.brokers.hyperliquid import currency_code
from memtape.brokers.live import ReadRange
from memtape.core.codec import EPOCH, decimal_text, make_id
from memtape.core.fills import Fill, FillCorrection, Funding
from memtape.core.items import Item
from memtape.core.observed import Bar, CashFlow, EquityMark, Tick
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY, ZERO, read
from memtape.core.venue_coverage import VenueCoverage, coverage_body
from memtape.engine.agent import AgentMemory
from memtape.engine.scope import AgentScope
from memtape.engine.view.venue import latest_coverage
from memtape.store.cutoff import EVERYTHING
from memtape.store.tables import Tables

MICROSECOND = timedelta(microseconds=1)
MAX_SILENCE = timedelta(hours=1)  # after it a tick is written even if nothing happened
EQUITY_MOVE_SHARE = Decimal("0.005")  # a larger move of equity is news, because drawdown depends on it
UNEXPLAINED_SHARE = Decimal("0.01")  # of the equity: cash that moved by more than this needs a reason
MAX_UNEXPLAINED = timedelta(minutes=15)  # after it, equity counts as it is
MAX_HELD_BACK_TICKS = 100  # more than there are in that time
MISSING_FILL_AGE, MAX_MISSING_FILLS = timedelta(days=7), 100  # limits of the search for missing fills


@dataclass(frozen=True, slots=True)
class FollowedVenue:
    """A venue whose account an agent follows."""

    source: str  # hyperliquid
    url: str  # a test network has other prices than the venue itself


def state_followed_venue(agent: AgentMemory, venue: FollowedVenue) -> None:
    """State which venue an agent follows, unless that is what was stated last."""
    if followed_venue(agent) == venue:
        return
    scope = AgentScope(agent.resources, agent.agent)
    with scope.writing() as tables:
        body, at = asdict(venue), scope.stated_at(tables)
        key = make_id("followed_venue", body, tables.head().seq + 1)
        scope.writer(tables).declare(Item("followed_venue", key, at, body), at)


def followed_venue(agent: AgentMemory) -> FollowedVenue | None:
    """The venue that an agent follows, as it was stated last; None if it follows none."""
    with agent.resources.reading(agent.agent.id) as tables:
        return _followed(tables)


def _followed(tables: Tables) -> FollowedVenue | None:
    stated = max(tables.items("followed_venue", EVERYTHING), key=lambda item: item.seq, default=None)
    return None if stated is None else FollowedVenue(**stated.body)


def state_venue_coverage(agent: AgentMemory, coverage: VenueCoverage) -> None:
    """State what was read of an account and what was not, unless that was stated already."""
    known = venue_coverage(agent)
    if coverage == VenueCoverage() or (known is not None and known.joined(coverage) == known):
        return
    scope = AgentScope(agent.resources, agent.agent)
    with scope.writing() as tables:
        # Another follower may have stated something meanwhile.
        before = latest_coverage(tables.items("venue_coverage", EVERYTHING)) or VenueCoverage()
        body, at = coverage_body(before.joined(coverage)), scope.stated_at(tables)
        key = make_id("venue_coverage", body, tables.head().seq + 1)
        scope.writer(tables).declare(Item("venue_coverage", key, at, body), at)


def venue_coverage(agent: AgentMemory) -> VenueCoverage | None:
    """What was read of the account that an agent follows, and what was not; None if nothing was stated."""
    with agent.resources.reading(agent.agent.id) as tables:
        return latest_coverage(tables.items("venue_coverage", EVERYTHING))


def rate_unknown_fees(agent: AgentMemory, rates: Mapping[str, Decimal]) -> int:
    """Count recorded fees whose rate was unknown until now, at the rates of their tokens. Returns how many."""
    by_currency = {currency_code(token): rate for token, rate in rates.items()}
    found = [each for each in agent.ledger.discrepancies() if each.why == "fee_unknown" and each.fee_currency in by_currency]
    for each in found:
        content = {"fee_rate": decimal_text(by_currency[each.fee_currency or ""])}
        agent.observe(FillCorrection(kind="amend_fill", fill_id=each.fill_id or "", t=agent.now(), content=content))
    return len(found)


def missing_bars_from(agent: AgentMemory, symbol: str, length: timedelta, since: datetime, now: datetime) -> datetime:
    """The open time of the first bar that began at or after a moment and is not stored."""
    step = length // MICROSECOND
    first = EPOCH + -(-((since - EPOCH) // MICROSECOND) // step) * length
    with agent.resources.reading(agent.agent.id) as tables:
        stored = tables.bars_between(symbol, first, max(first, now))
    while (int(length.total_seconds()), first) in stored:
        first += length
    return first


def unstored_bars(agent: AgentMemory, bars: Iterable[Bar]) -> list[Bar]:
    """The bars that are not stored yet."""
    with agent.resources.reading(agent.agent.id) as tables:
        return _new_bars(tables, bars)


def next_read_range(agent: AgentMemory) -> tuple[ReadRange | None, datetime | None]:
    """Returns from when to read the account, and the time of the last tick that is stored."""
    with agent.resources.reading(agent.agent.id) as tables:
        return _read_range(tables), tables.head().last_tick


def new_part_of_poll(agent: AgentMemory, polled: Tick) -> tuple[Tick, bool]:
    """Returns the tick without what is stored already, and True if the rest has news and should be written."""
    with agent.resources.reading(agent.agent.id) as tables:
        tick = _without_unexplained_equity(tables, _without_known(tables, polled))
        return tick, _has_news(tables, tick)


def _read_range(tables: Tables) -> ReadRange | None:
    """Returns from when to read: the last tick, or an earlier snapshot that no fill explains yet, because that fill is late."""
    head = tables.head()
    if head.first_snapshot is None or head.last_tick is None:
        return None
    oldest = head.last_tick - MISSING_FILL_AGE
    unexplained = [found.at for found in tables.discrepancies(MAX_MISSING_FILLS) if found.why == "snapshot" and found.at > oldest]
    return ReadRange(head.first_snapshot, min([head.last_tick, *unexplained]))


def _without_known(tables: Tables, tick: Tick) -> Tick:
    """Returns a tick without the fills, funding, cash flows and bars that are already stored."""
    names = [("fill", fill.id) for fill in tick.fills] + [("funding", paid.id) for paid in tick.funding]
    names += [("flow", flow.id) for flow in tick.cash_flows]
    known = tables.log_rows_of(names)
    return replace(
        tick,
        fills=tuple(fill for fill in tick.fills if ("fill", fill.id) not in known),
        funding=tuple(paid for paid in tick.funding if ("funding", paid.id) not in known),
        cash_flows=tuple(flow for flow in tick.cash_flows if ("flow", flow.id) not in known),
        bars=tuple(_new_bars(tables, tick.bars)),
    )


# ---- equity that nothing explains -----------------------------------------------------------------------------------------


def _without_unexplained_equity(tables: Tables, tick: Tick) -> Tick:
    """Returns a tick without its equity while cash moved that no fill, payment or cash flow explains yet."""
    if tick.equity is None or tick.positions is None:
        return tick
    ticks = _latest_ticks(tables)
    last = next((n for n, one in enumerate(ticks) if one.equity is not None), None)
    # Without an earlier equity, or since too long without one, the present one counts.
    if last is None or tick.t <= ticks[last].t or (last > 0 and tick.t - ticks[last - 1].t >= MAX_UNEXPLAINED):
        return tick
    before = ticks[last]
    unexplained = _unexplained_cash(tables, before, tick)
    limit = UNEXPLAINED_SHARE * abs(before.equity or ZERO)
    return tick if unexplained is None or abs(unexplained) <= limit else replace(tick, equity=None)


def _latest_ticks(tables: Tables) -> list[Tick]:
    """Returns the latest ticks with their equity, the newest first."""
    ticks, marks = (tables.items(kind, EVERYTHING, newest=True, limit=MAX_HELD_BACK_TICKS) for kind in ("tick", "equity"))
    equity = {mark.t: mark.equity for mark in (read(EquityMark, item.body) for item in marks)}
    return [replace(tick, equity=equity.get(tick.t)) for tick in (read(Tick, item.body) for item in ticks)]


def _unexplained_cash(tables: Tables, before: Tick, tick: Tick) -> Decimal | None:
    """Returns by how much the cash of the account changed without a reason; None if that cannot be computed.

    Cash is equity less the value of positions. A fill changes it by what was paid and the fee.
    """
    cash_before, cash_now = _cash(before), _cash(tick)
    if cash_before is None or cash_now is None:
        return None
    stored = {
        kind: tables.items(kind, EVERYTHING, since=before.t + MICROSECOND, before=tick.t + MICROSECOND)
        for kind in ("fill", "funding", "flow")
    }
    fills = [read(Fill, item.body) for item in stored["fill"]] + [fill for fill in tick.fills if fill.t > before.t]
    funding = [read(Funding, item.body) for item in stored["funding"]]
    flows = [read(CashFlow, item.body) for item in stored["flow"]]
    expected = {symbol: held[0].qty for symbol, held in (before.positions or {}).items()}
    with localcontext(MONEY):
        explained = sum((paid.amount for paid in (*funding, *tick.funding) if paid.t > before.t), ZERO)
        explained += sum((flow.usd for flow in (*flows, *tick.cash_flows) if flow.t > before.t), ZERO)
        for fill in fills:
            bought = fill.qty if fill.side == "buy" else -fill.qty
            expected[fill.symbol] = expected.get(fill.symbol, ZERO) + bought
            explained -= bought * fill.px + (fill.fee if fill.fee_currency is None else ZERO)
        held = {symbol: held[0].qty for symbol, held in (tick.positions or {}).items()}
        # A fill is missing: then the equity is right, and it is the fill that is late.
        if held != {symbol: qty for symbol, qty in expected.items() if qty}:
            return None
        return cash_now - cash_before - explained


def _cash(tick: Tick) -> Decimal | None:
    """Returns the equity of a tick less the value of its positions; None if a position has no price, or several legs."""
    if tick.equity is None or tick.positions is None:
        return None
    cash = tick.equity
    with localcontext(MONEY):
        for held in tick.positions.values():
            if len(held) != 1 or held[0].mark is None:
                return None
            cash -= held[0].qty * held[0].mark
    return cash


# ---- news ------------------------------------------------------------------------------------------------------------------


def _new_bars(tables: Tables, bars: Iterable[Bar]) -> list[Bar]:
    """Returns the bars that are not stored yet. The first version of a bar counts."""
    found: list[Bar] = []
    listed = list(bars)
    for symbol in sorted({bar.symbol for bar in listed}):
        own = [bar for bar in listed if bar.symbol == symbol]
        stored = tables.bars_between(symbol, min(bar.t0 for bar in own), max(bar.t0 for bar in own))
        found += [bar for bar in own if (bar.frame, bar.t0) not in stored]
    return sorted(found, key=lambda bar: (bar.t1, bar.symbol, bar.frame))


def _has_news(tables: Tables, tick: Tick) -> bool:
    """Returns True if a tick has news: something happened, the account changed, or an hour has passed."""
    if tick.fills or tick.funding or tick.cash_flows or tick.bars:
        return True
    ticks = tables.items("tick", EVERYTHING, newest=True, limit=1)
    if not ticks:
        return True
    last = read(Tick, ticks[0].body)
    if tick.t <= last.t:
        return False
    return tick.t - last.t >= MAX_SILENCE or _held_quantities(tick) != _held_quantities(last) or _equity_moved(tables, last, tick)


def _held_quantities(tick: Tick) -> dict[tuple[str, str], tuple[Decimal, Decimal | None]] | None:
    """Returns quantities and average prices of positions. Their value changes all the time and is no news."""
    if tick.positions is None:
        return None
    return {(symbol, held.leg): (held.qty, held.entry_px) for symbol, legs in tick.positions.items() for held in legs}


def _equity_moved(tables: Tables, last: Tick, tick: Tick) -> bool:
    marks = [read(EquityMark, item.body) for item in tables.items("equity", EVERYTHING, newest=True, limit=1)]
    if tick.equity is None:
        # The first tick without its equity is written: the time that equity may be held back counts from it.
        return any(mark.t == last.t for mark in marks)
    return not marks or abs(tick.equity - marks[0].equity) >= EQUITY_MOVE_SHARE * abs(marks[0].equity)
