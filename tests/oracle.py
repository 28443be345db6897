"""A second opinion on the trade ledger: rules L1-L18 of `golden/ledger_golden.json`, as naive as they can be written.

It shares nothing with the product, not even its arithmetic: amounts are exact fractions, a trade is the plain list of
its fills, and every question (how much is held, at what cost) is answered by going through that list again. Nothing is
incremental: all ticks are read first, duplicates fall out, each fill and funding is put at its own time, and the whole
history is walked once. Slow on purpose; what matters is that each rule can be found here and read.

Beyond the golden form it knows `leg` (a position is a symbol and a leg), `rate` (account currency per quote unit),
ticks without a snapshot, and fills after the last tick. Where the rules leave a choice, a comment says "Choice".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

Position = tuple[str, str]  # symbol and leg
ZERO = Fraction(0)


@dataclass(frozen=True)
class Tick:
    """An accepted tick: its snapshot (None: none was taken), its marks and its decision."""

    id: str
    t: datetime
    held: dict[Position, dict[str, Any]] | None
    marks: dict[str, Any]
    decision: dict[str, Any]

    def names(self, symbol: str) -> bool:
        return self.decision.get("symbol") == symbol


@dataclass(frozen=True)
class Bar:
    symbol: str
    t0: datetime
    t1: datetime
    open: Fraction
    high: Fraction
    low: Fraction
    close: Fraction


@dataclass(frozen=True)
class Fill:
    """An execution, signed: `qty` is positive for a buy. `px` None: inferred, and nothing gives a price."""

    position: Position
    at: datetime
    qty: Fraction
    px: Fraction | None
    rate: Fraction
    fee: Fraction = ZERO
    liq: bool = False
    inferred: bool = False


@dataclass(frozen=True)
class Log:
    """Everything that was delivered, once each (L3): accepted ticks, fills and funding by their own time, bars."""

    ticks: list[Tick]
    events: list[tuple[tuple[Any, ...], Fill | dict[str, Any]]]  # (time, funding before fills, seq, id) and the event
    bars: list[Bar]


def read(ticks: Iterable[dict[str, Any]]) -> Log:
    """Sort what was delivered: what is new counts, whatever tick brought it; a replayed tick is not a tick."""
    accepted: list[Tick] = []
    fills: dict[str, dict[str, Any]] = {}
    funding: dict[str, dict[str, Any]] = {}
    bars: dict[tuple[str, datetime, datetime], Bar] = {}
    for tick in ticks:
        for raw in tick.get("fills") or []:
            fills.setdefault(raw["id"], raw)
        for raw in tick.get("funding") or []:
            funding.setdefault(raw["id"], raw)
        for raw in tick.get("bars") or []:
            bar = Bar(raw["symbol"], time(raw["t0"]), time(raw["t1"]), *(number(raw[letter]) for letter in "ohlc"))
            bars.setdefault((bar.symbol, bar.t0, bar.t1), bar)
        name, t = str(tick.get("snapshot_id") or tick["id"]), time(tick["t"])
        if any(name == earlier.id or t <= earlier.t for earlier in accepted):
            continue
        held = snapshot(tick.get("positions"))
        accepted.append(Tick(name, t, held, tick.get("marks") or {}, tick.get("decision") or {}))
    events: list[tuple[tuple[Any, ...], Fill | dict[str, Any]]] = []
    for raw in funding.values():
        events.append(((time(raw["t"]), 0, 0, raw["id"]), raw))
    for raw in fills.values():
        signed = number(raw["qty"]) * (1 if raw["side"] == "buy" else -1)
        fill = Fill(
            (raw["symbol"], raw.get("leg") or ""),
            time(raw["t"]),
            signed,
            number(raw["px"]),
            number(raw.get("rate") or 1),
            number(raw.get("fee") or 0),
            bool(raw.get("liq")),
        )
        events.append(((fill.at, 1, raw.get("seq") or 0, raw["id"]), fill))
    return Log(accepted, sorted(events, key=lambda event: event[0]), list(bars.values()))


def snapshot(positions: dict[str, Any] | None) -> dict[Position, dict[str, Any]] | None:
    if positions is None:
        return None
    held = {}
    for symbol, given in positions.items():
        for one in given if isinstance(given, list | tuple) else [given]:
            held[symbol, one.get("leg") or ""] = one
    return held


def time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def number(given: object) -> Fraction:
    return Fraction(str(given))


@dataclass(frozen=True)
class Part:
    """A fill as it counts in one row, or the leg of a fill that was split between two."""

    at: datetime
    enters: bool
    qty: Fraction  # positive
    px: Fraction | None
    rate: Fraction
    fee: Fraction
    liq: bool
    inferred: bool
    tick: Tick | None


@dataclass(frozen=True)
class State:
    """A row after one of its parts. `cost` is the average cost in the account currency, `avg_cost` in the quote's."""

    at: datetime
    qty: Fraction
    avg_cost: Fraction
    cost: Fraction
    realized: Fraction
    rate: Fraction
    known: bool  # False from the first part without a price on

    def value(self, side: int, px: Fraction) -> Fraction:
        """V(p) of L16, in the account currency at the rate of the latest fill."""
        return self.realized + side * (px * self.rate - self.cost) * self.qty


@dataclass
class Row:
    """One round trip (L2): its parts, its funding, and how it ended."""

    position: Position
    side: int  # +1 long, -1 short
    adopted: bool
    parts: list[Part] = field(default_factory=list)
    funding: Fraction = ZERO
    close_cause: str | None = None  # None while open

    def states(self) -> list[State]:
        """L5 and L6, part by part."""
        states: list[State] = []
        qty, avg_cost, cost, realized, known = ZERO, ZERO, ZERO, ZERO, True
        for part in self.parts:
            px = part.px if part.px is not None else ZERO
            known = known and part.px is not None
            if part.enters:
                avg_cost = (qty * avg_cost + part.qty * px) / (qty + part.qty)
                cost = (qty * cost + part.qty * px * part.rate) / (qty + part.qty)
                qty += part.qty
            else:
                realized += self.side * (px * part.rate - cost) * part.qty
                qty -= part.qty
            if self.close_cause and part is self.parts[-1]:
                qty = ZERO  # what is left is dust, which counts as flat (L7)
            states.append(State(part.at, qty, avg_cost, cost, realized, part.rate, known))
        return states

    def entries(self) -> list[Part]:
        return [part for part in self.parts if part.enters]

    def exits(self) -> list[Part]:
        return [part for part in self.parts if not part.enters]

    def dust(self) -> Fraction:
        """What a closed row left behind; negative when its last fill took a crumb more than was held."""
        return quantity(self.entries()) - quantity(self.exits()) if self.close_cause else ZERO

    def priced(self) -> bool:
        return all(part.px is not None for part in self.parts)

    def fees(self) -> Fraction:
        return sum((part.fee for part in self.parts), ZERO)

    def realized(self) -> Fraction | None:
        if not self.priced():
            return None
        last = self.states()[-1]
        if self.close_cause:  # the sums must say what the running average says (L6, and dust at cost)
            gain = notional(self.exits()) - notional(self.entries()) + self.dust() * last.cost
            assert last.realized == self.side * gain, "running average and sums disagree"
        return last.realized

    def net(self) -> Fraction | None:
        """L11."""
        realized = self.realized()
        return None if realized is None else realized - self.fees() + self.funding


def quantity(parts: list[Part]) -> Fraction:
    return sum((part.qty for part in parts), ZERO)


def notional(parts: list[Part]) -> Fraction:
    """In the account currency."""
    return sum((part.qty * part.px * part.rate for part in parts if part.px is not None), ZERO)


def vwap(parts: list[Part]) -> Fraction | None:
    """Average price in the quote currency; unknown where one price is."""
    total = ZERO
    for part in parts:
        if part.px is None:
            return None
        total += part.px * part.qty
    return total / quantity(parts)


class Walk:
    """The history from its first event to its last: L4, L7, L8, L10, L12-L15."""

    def __init__(self, ticks: Iterable[dict[str, Any]], config: dict[str, Any]) -> None:
        self.log = read(ticks)
        self.dust_qty = number(config.get("dust_qty") or 0)
        self.rows: list[Row] = []  # in the order of their creation
        self.applied: list[Fill] = []  # real and inferred, as they came, not split
        self.funding: list[Fraction] = []
        self.orphans: dict[str, Fraction] = {}
        events = list(self.log.events)
        snapshots = 0
        for tick in self.log.ticks:
            while events and events[0][0][0] <= tick.t:
                self.apply(events.pop(0)[1], tick)
            if tick.held is not None:
                snapshots += 1
                self.reconcile(tick, tick.held, first=snapshots == 1)
        for _, event in events:
            self.apply(event, None)

    def open_row(self, position: Position) -> Row | None:
        return next((row for row in self.rows if row.position == position and row.close_cause is None), None)

    def apply(self, event: Fill | dict[str, Any], tick: Tick | None) -> None:
        if isinstance(event, Fill):
            self.fill(event, tick)
            return
        usd, symbol = number(event["usd"]), event["symbol"]
        self.funding.append(usd)
        row = self.open_row((symbol, event.get("leg") or ""))
        if row is None:
            self.orphans[symbol] = self.orphans.get(symbol, ZERO) + usd
        else:
            row.funding += usd

    def fill(self, fill: Fill, tick: Tick | None, adopted: bool = False) -> None:
        self.applied.append(fill)
        side, size = (1 if fill.qty > 0 else -1), abs(fill.qty)
        row = self.open_row(fill.position)
        if row is None:
            self.enter(fill, size, tick, adopted)
        elif row.side == side:
            row.parts.append(self.part(fill, True, size, tick))
        else:
            held = row.states()[-1].qty
            flips = size - held > self.dust_qty  # Choice: a fill that overshoots by no more than dust only closes
            row.parts.append(self.part(fill, False, held if flips else size, tick))
            if flips or held - size <= self.dust_qty:
                row.close_cause = self.cause(fill, tick, flips)
            if flips:
                self.enter(fill, size - held, tick, adopted=False)

    def enter(self, fill: Fill, size: Fraction, tick: Tick | None, adopted: bool) -> None:
        row = Row(fill.position, 1 if fill.qty > 0 else -1, adopted)
        row.parts.append(self.part(fill, True, size, tick))
        self.rows.append(row)

    def part(self, fill: Fill, enters: bool, size: Fraction, tick: Tick | None) -> Part:
        fee = fill.fee * size / abs(fill.qty)  # pro rata by quantity (L8)
        return Part(fill.at, enters, size, fill.px, fill.rate, fee, fill.liq, fill.inferred, tick)

    def cause(self, fill: Fill, tick: Tick | None, flips: bool) -> str:
        """L15: liquidation > flip > close > external."""
        if fill.liq:
            return "liquidation"
        if flips:
            return "flip"
        return "close" if tick and tick.names(fill.position[0]) else "external"

    def reconcile(self, tick: Tick, held: dict[Position, dict[str, Any]], first: bool) -> None:
        """L13 and L14: one inferred fill for each position that the snapshot sees otherwise."""
        open_positions = {row.position for row in self.rows if row.close_cause is None}
        for position in sorted(open_positions | set(held)):
            seen = held.get(position) or {}
            row = self.open_row(position)
            state = row.states()[-1] if row else None
            q0 = row.side * state.qty if row and state else ZERO
            q1 = number(seen.get("qty") or 0)
            if abs(q1) <= self.dust_qty:
                q1 = ZERO
            if abs(q1 - q0) <= self.dust_qty:  # Choice: a difference no larger than dust is no difference
                continue
            entry_px = None if seen.get("entry_px") is None else number(seen["entry_px"])
            mark = self.mark(tick, position[0], seen)
            px = mark
            if entry_px is not None and (q0 == 0 or q0 * q1 < 0):
                px = entry_px
            elif entry_px is not None and abs(q1) > abs(q0) and row and state and vwap(row.entries()) is not None:
                # Choice: taken literally, even where it comes out negative
                px = (abs(q1) * entry_px - abs(q0) * state.avg_cost) / (abs(q1) - abs(q0))
            # Choice: "the very first tick" is the first that took a snapshot; "without fills": none of this position
            adopted = first and not any(fill.position == position for fill in self.applied)
            self.fill(Fill(position, tick.t, q1 - q0, px, self.rate(position), inferred=True), tick, adopted)

    def mark(self, tick: Tick, symbol: str, seen: dict[str, Any]) -> Fraction | None:
        for given in (seen.get("mark"), tick.marks.get(symbol)):
            if given is not None:
                return number(given)
        done = [bar for bar in self.log.bars if bar.symbol == symbol and bar.t1 <= tick.t]
        # Choice: of two bars that end together, the shorter one
        return max(done, key=lambda bar: (bar.t1, bar.t0)).close if done else None

    def rate(self, position: Position) -> Fraction:
        """Choice: an inferred fill has the rate of the position's latest fill, also one of an earlier row; else 1."""
        rates = [fill.rate for fill in self.applied if fill.position == position]
        return rates[-1] if rates else Fraction(1)


def excursions(row: Row, bars: list[Bar], mode: str) -> tuple[Fraction, Fraction]:
    """mfe and mae (L16). What is not known (no price) is not observed."""
    states = row.states()
    entry_at = states[0].at
    exit_at = states[-1].at if row.close_cause else datetime.max.replace(tzinfo=UTC)
    seen = [ZERO]
    for part, state in zip(row.parts, states, strict=True):
        if state.known and part.px is not None:
            seen.append(state.value(row.side, part.px))
    for bar in bars:
        if bar.symbol != row.position[0]:
            continue
        at_t0 = [state for state in states if state.at <= bar.t0][-1:]  # after the events at t0
        at_t1 = [state for state in states if state.at < bar.t1][-1:]  # before the events at t1
        within = [state for state in states if bar.t0 < state.at < bar.t1]
        if mode == "close":
            if entry_at < bar.t1 <= exit_at:
                seen += [state.value(row.side, bar.close) for state in at_t1 if state.known]
        elif entry_at <= bar.t0 and bar.t1 <= exit_at:
            # Choice: the bar's states are all of them, those that lasted no time (fills of one second) included.
            during = at_t0 + within
            if all(state.known for state in during):
                good, bad = (bar.high, bar.low) if row.side > 0 else (bar.low, bar.high)
                seen.append(min(state.value(row.side, good) for state in during))
                seen.append(max(state.value(row.side, bad) for state in during))
        elif bar.t0 < entry_at < bar.t1 <= exit_at:
            seen += [state.value(row.side, bar.close) for state in at_t1 if state.known]
        elif entry_at <= bar.t0 < exit_at < bar.t1:
            seen += [state.value(row.side, bar.open) for state in at_t0 if state.known]
        # Choice: a bar that contains entry and exit says nothing: it opened before the one and closed after the other.
    return max(seen), min(seen)


def rows(ticks: list[dict[str, Any]], config: dict[str, Any]) -> dict[str, Any]:
    """The rows and the orphan funding of a history of golden-form ticks, in the golden's own spelling.

    A row of a position with a leg has one key more than the golden rows: `leg`.
    """
    walk = Walk(ticks, config)
    mode = config.get("mfe_mode") or "hl_strict"
    ordered = sorted(walk.rows, key=lambda row: (row.parts[0].at, row.position[0]))  # stable: then by creation (L18)
    return {
        "rows": [told(row, walk.log.bars, mode) for row in ordered],
        "orphan_funding_usd": {symbol: spell(usd) for symbol, usd in walk.orphans.items()},
    }


def told(row: Row, bars: list[Bar], mode: str) -> dict[str, Any]:
    symbol, leg = row.position
    first, last, state = row.parts[0], row.parts[-1], row.states()[-1]
    entered, exited, closed = row.entries(), row.exits(), row.close_cause is not None
    entry_price, net = vwap(entered), row.net()
    entry_size = None if entry_price is None else notional(entered)
    mfe, mae = excursions(row, bars, mode)
    entry_by = first.tick if first.tick and first.tick.names(symbol) and not row.adopted else None
    exit_by = last.tick if closed and last.tick and last.tick.names(symbol) and not last.liq else None
    exit_reason = exit_by.decision.get("reason") if exit_by else None
    lever = ((first.tick.held or {}).get(row.position) or {}).get("leverage") if first.tick else None
    quality = "inferred" if any(part.inferred for part in row.parts) else "fills"
    answer = {
        "symbol": symbol,
        "side": "long" if row.side > 0 else "short",
        "status": "closed" if closed else "open",
        "entry_tick_at": spell_time(first.tick.t) if first.tick else None,
        "entry_at": spell_time(first.at),
        "entry_price": spell(entry_price),
        "entry_size_usd": spell(entry_size),
        "entry_leverage": None if lever is None else spell(number(lever)),
        "qty_entered": spell(quantity(entered)),
        "qty_exited": spell(quantity(exited)),
        "qty_open": spell(state.qty),
        "avg_cost": None if closed or entry_price is None else spell(state.avg_cost),
        "exit_tick_at": spell_time(last.tick.t) if closed and last.tick else None,
        "exit_at": spell_time(last.at) if closed else None,
        "exit_price": spell(vwap(exited)) if closed else None,
        "holding_minutes": spell(minutes(first.at, last.at)) if closed else None,
        "realized_pnl_usd": spell(row.realized()),
        "fees_usd": spell(row.fees()),
        "funding_usd": spell(row.funding),
        "net_pnl_usd": spell(net),
        "pnl_pct": None if net is None or not entry_size else spell(100 * net / entry_size),
        "mfe_usd": spell(mfe),
        "mae_usd": spell(mae),
        "close_cause": row.close_cause,
        "entry_reason": entry_by.decision.get("reason") if entry_by else None,
        "exit_reason": "liquidation" if row.close_cause == "liquidation" else exit_reason,
        "entry_snapshot_id": entry_by.id if entry_by else None,
        "exit_snapshot_id": exit_by.id if exit_by else None,
        "liquidation_fills": sum(part.liq for part in exited),
        "quality": quality if row.priced() else "unpriced",
        "adopted": row.adopted,
    }
    return answer | ({"leg": leg} if leg else {})


def spell(amount: Fraction | None) -> str | None:
    """Eight places, half to even, no trailing zeros (L1).

    >>> spell(Fraction(2, 3)), spell(Fraction("-1.000000005")), spell(Fraction("0.000000004")), spell(Fraction(1200))
    ('0.66666667', '-1', '0', '1200')
    """
    if amount is None:
        return None
    units = round(amount * 10**8)
    whole, rest = divmod(abs(units), 10**8)
    return ("-" if units < 0 else "") + f"{whole}.{rest:08d}".rstrip("0").rstrip(".")


def spell_time(moment: datetime) -> str:
    text = moment.replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def minutes(start: datetime, end: datetime) -> Fraction:
    return Fraction((end - start) // timedelta(microseconds=1), 60 * 10**6)


def cash(ticks: list[dict[str, Any]], config: dict[str, Any]) -> Fraction | None:
    """What all this did to the cash of the account: every fill paid or received in full, fees and funding.

    It knows no rows and no averages; exact, in the account currency; None when a fill has no price. It balances:
    cash + held_at_cost = the net PnL of all rows, closed and open, + orphan funding (`earned`).
    """
    walk = Walk(ticks, config)
    total = sum(walk.funding, ZERO)
    for fill in walk.applied:
        if fill.px is None:
            return None
        total -= fill.qty * fill.px * fill.rate + fill.fee
    return total


def held_at_cost(ticks: list[dict[str, Any]], config: dict[str, Any]) -> Fraction:
    """What the open positions, and the dust that closed rows left, cost: signed, exact, in the account currency."""
    total = ZERO
    for row in Walk(ticks, config).rows:
        last = row.states()[-1]
        total += row.side * (last.qty + row.dust()) * last.cost
    return total


def earned(ticks: list[dict[str, Any]], config: dict[str, Any]) -> Fraction | None:
    """Net PnL of all rows plus orphan funding, exact; None when a row has no price."""
    walk = Walk(ticks, config)
    total = sum(walk.orphans.values(), ZERO)
    for row in walk.rows:
        net = row.net()
        if net is None:
            return None
        total += net
    return total
