"""The history from its first event to its last: how fills, splits, payments and snapshots become round trips.

Rules L4, L7, L8, L10, L12-L15 and M1, M6, M7, M9, M10, M11, M14, M15.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

from tests.oracle.record import ZERO, Bar, Event, Fill, Json, Payment, Position, Record, Split, Tick, number, number_or_none
from tests.oracle.row import Part, Row, usable

# Rates known at one moment: fills, then inferred fills, then the tick (M1).
BY_FILL, BY_INFERRED, BY_TICK = 0, 1, 2
DIFFERS = Fraction(1, 1000)  # M9 (b)
WIDER = Fraction(1, 50)  # M9


class Walk:
    def __init__(self, record: Record, config: Json) -> None:
        self.record = record
        self.dust_qty = number(config.get("dust_qty") or 0)
        self.settle = timedelta(seconds=float(config.get("settle_seconds") or 0))
        self.rows: list[Row] = []  # round trips, in the order of their creation
        self.applied: list[Fill | Split] = []  # real and inferred fills, as they came, not divided, and the splits
        self.payments: list[Payment] = []
        self.orphans: dict[str, Fraction] = {}
        self.discrepancies: list[Json] = []
        self.rates: list[tuple[str, datetime, int, Fraction]] = []  # symbol, time, one of BY_*, rate
        self.quantities: list[tuple[Position, datetime, Fraction]] = []  # after each event that changed it
        self.levels: dict[Position, tuple[Fraction | None, Fraction | None]] = {}  # stop and target in force
        self.waiting: list[Event] = list(record.events)
        for place, tick in enumerate(record.ticks):
            earlier = [one for one in record.ticks[:place] if one.held is not None]
            self.take(tick, earlier[-1] if earlier else None)
        for event in list(self.waiting):
            self.apply(event, None)

    def take(self, tick: Tick, previous: Tick | None) -> None:
        """One tick: the events up to its time, the snapshot, and what its decision changes. `previous` has a snapshot."""
        for event in [event for event in self.waiting if event.at <= tick.t]:
            self.apply(event, tick)
        if tick.held is not None:
            self.reconcile(tick, previous)
        self.move_levels(tick)
        for symbol in self.symbols(tick):
            rate = self.tick_rate(tick, symbol)
            if rate is not None:
                self.rates.append((symbol, tick.t, BY_TICK, rate))

    # Events

    def open_row(self, position: Position) -> Row | None:
        return next((row for row in self.rows if row.position == position and not row.closed), None)

    def held(self, position: Position) -> Fraction:
        """The ledger's quantity, signed."""
        row = self.open_row(position)
        return row.side * row.states()[-1].qty if row else ZERO

    def apply(self, event: Event, tick: Tick | None) -> None:
        self.waiting = [one for one in self.waiting if one is not event]
        if isinstance(event, Fill):
            self.fill(event, tick)
        elif isinstance(event, Payment):
            self.pay(event)
        else:
            self.split(event)

    def pay(self, payment: Payment) -> None:
        """L10 and M7: to the row open immediately before; at one moment payments come before fills."""
        self.payments.append(payment)
        row = self.open_row(payment.position)
        if row:
            row.steps.append(payment)
        else:
            symbol = payment.position[0]
            self.orphans[symbol] = self.orphans.get(symbol, ZERO) + payment.usd

    def split(self, split: Split) -> None:
        """M6: what is open is rescaled, and the stop and target in force with it."""
        self.applied.append(split)
        # Choice: a split concerns every leg of the symbol. A quantity that it makes smaller than dust stays open:
        # only a fill closes (L7).
        for row in self.rows:
            if row.position[0] == split.symbol and not row.closed:
                row.steps.append(split)
                self.quantities.append((row.position, split.at, self.held(row.position)))
                stop, target = self.levels.get(row.position, (None, None))
                self.levels[row.position] = (
                    None if stop is None else stop / split.ratio,
                    None if target is None else target / split.ratio,
                )

    def fill(self, fill: Fill, tick: Tick | None, adopted: bool = False, decided: bool = True) -> None:
        """L5-L8. `decided` False: the tick's decision does not belong to this fill."""
        symbol = fill.position[0]
        self.applied.append(fill)
        self.rates.append((symbol, fill.at, BY_INFERRED if fill.inferred else BY_FILL, fill.rate))
        decided = decided and not adopted and tick is not None and tick.names(symbol)
        side, size = (1 if fill.qty > 0 else -1), abs(fill.qty)
        row = self.open_row(fill.position)
        if row is None:
            self.enter(fill, size, tick, decided, adopted)
        elif row.side == side:
            self.add(row, self.part(row, fill, True, size, tick, decided))
        else:
            quantity = abs(self.held(fill.position))
            flips = size - quantity > self.dust_qty  # Choice: a fill that overshoots by no more than dust only closes
            part = self.part(row, fill, False, quantity if flips else size, tick, decided)
            cause, decided_exit = self.cause(fill, flips, decided)
            row.steps.append(replace(part, trigger=fill.trigger, cause=cause, decided=decided_exit))
            row.closed = flips or quantity - size <= self.dust_qty
            if row.closed:
                self.levels.pop(fill.position, None)
            if flips:
                self.enter(fill, size - quantity, tick, decided)
        self.quantities.append((fill.position, fill.at, self.held(fill.position)))

    def enter(self, fill: Fill, size: Fraction, tick: Tick | None, decided: bool, adopted: bool = False) -> None:
        row = Row(fill.position, 1 if fill.qty > 0 else -1, self.record.terms(fill.position[0], fill.at))
        self.rows.append(row)
        self.add(row, replace(self.part(row, fill, True, size, tick, decided), adopted=adopted))

    def part(self, row: Row, fill: Fill, enters: bool, size: Fraction, tick: Tick | None, decided: bool) -> Part:
        fee = fill.fee * size / abs(fill.qty)  # pro rata by quantity (L8)
        px = usable(fill.px, row.terms)
        return Part(fill.at, enters, size, px, fill.rate, fee, fill.fee_unknown, fill.liq, fill.inferred, tick, decided)

    def cause(self, fill: Fill, flips: bool, decided: bool) -> tuple[str, bool]:
        """L15 and M14, liquidation > flip > stop or target > close > external; and whether the decision belongs to it."""
        if fill.liq:
            return "liquidation", False
        if flips:
            return "flip", decided
        if fill.trigger in ("stop", "target"):
            return "external", False
        return ("close" if decided else "external"), decided

    # Stops and targets (M14, M15)

    def add(self, row: Row, part: Part) -> None:
        """An entry, with the stop and target in force: those of its tick's decision first."""
        stop, target = self.levels.get(row.position, (None, None))
        if part.decided and part.tick:
            wanted = number_or_none(part.tick.decision.get("stop"))
            # Choice: what a decision does not state stays as it is. A stop cannot be on the wrong side of no price.
            if wanted is not None and part.px is not None and row.side * (part.px - wanted) <= 0:
                found = {"at": part.tick.t, "symbol": row.position[0], "why": "stop_wrong_side"}
                self.report(found | {"stop": wanted, "price": part.px}, row.position)
            elif wanted is not None:
                stop = wanted
            aim = number_or_none(part.tick.decision.get("target"))
            target = target if aim is None else aim
        self.levels[row.position] = (stop, target)
        row.steps.append(replace(part, stop=stop, target=target))

    def move_levels(self, tick: Tick) -> None:
        """Without an entry of the symbol, the tick's stop and target replace those in force from the tick on."""
        symbol = tick.decision.get("symbol")
        if any(part.tick is tick for row in self.rows if row.position[0] == symbol for part in row.entries()):
            return
        stop, target = (number_or_none(tick.decision.get(name)) for name in ("stop", "target"))
        # Choice: levels in force belong to an open row. Stated while nothing is held, they are not kept for later.
        for position, (old_stop, old_target) in self.levels.items():
            if position[0] == symbol:
                self.levels[position] = (old_stop if stop is None else stop, old_target if target is None else target)

    # Rates (M1)

    def symbols(self, tick: Tick) -> list[str]:
        return sorted({position[0] for position in tick.held or {}} | set(tick.marks))

    def tick_rate(self, tick: Tick, symbol: str) -> Fraction | None:
        """The rate known by a tick: stated, else 1/mark where the base is the account currency."""
        stated = tick.stated_rate(symbol)
        return self.rate_by_price(symbol, tick.t, tick.symbol_mark(symbol)) if stated is None else stated

    def rate_by_price(self, symbol: str, at: datetime, px: Fraction | None) -> Fraction | None:
        row = self.open_row((symbol, ""))
        terms = self.record.terms(symbol, row.entry_at if row else at)  # Choice: an open row keeps its terms, base included (M3)
        if terms.base != self.record.currency:
            return None
        if terms.inverse:  # Choice: an inverse contract on the account's own coin has rate 1 (M4), not 1/price
            return Fraction(1)
        return 1 / px if px is not None and px > 0 else None  # Choice: a price not above 0 gives no rate

    def known_rate(self, symbol: str, moment: datetime) -> Fraction:
        """The last rate known of the symbol at or before a moment, else 1."""
        # Choice: a fill without a rate has rate 1 (M1), and that is then the last rate known.
        known = [(at, kind, place) for place, (name, at, kind, _) in enumerate(self.rates) if name == symbol and at <= moment]
        return self.rates[max(known)[2]][3] if known else Fraction(1)

    def inferred_rate(self, tick: Tick, symbol: str, px: Fraction | None) -> Fraction:
        for rate in (tick.stated_rate(symbol), self.rate_by_price(symbol, tick.t, px)):
            if rate is not None:
                return rate
        return self.known_rate(symbol, tick.t)

    # Snapshots

    def reconcile(self, tick: Tick, previous: Tick | None) -> None:
        """M11, M10, then L13, L14 and M9, for each position that the snapshot or the ledger shows."""
        open_positions = {row.position for row in self.rows if not row.closed}
        for position in sorted(open_positions | set(tick.held or {})):
            # Choice: a snapshot that is not reconciled is still the previous snapshot of the next one.
            if any(one.symbol == position[0] and one.start <= tick.t < one.before for one in self.record.not_reconciled):
                continue
            q0, q1 = self.held(position), self.shown_quantity(tick, position)
            if not self.equal(q0, q1) and self.is_late(tick, position, q0, q1):
                continue
            self.adjust(tick, previous, position, q0, q1)

    def shown_quantity(self, tick: Tick, position: Position) -> Fraction:
        shown = tick.shown_quantity(position)
        return ZERO if abs(shown) <= self.dust_qty else shown

    def equal(self, one: Fraction, other: Fraction) -> bool:
        return abs(one - other) <= self.dust_qty  # Choice: a difference no larger than dust is no difference

    def is_late(self, tick: Tick, position: Position, q0: Fraction, q1: Fraction) -> bool:
        """M10. Choice: where the snapshot could be behind or ahead, it is behind."""
        start = tick.t - self.settle
        mine = [(at, quantity) for name, at, quantity in self.quantities if name == position]
        before = [quantity for at, quantity in mine if at <= start][-1:] or [ZERO]
        behind = any(self.equal(quantity, q1) for quantity in before + [q for at, q in mine if start < at <= tick.t])
        ahead = [] if behind else self.ahead(tick, position, q0, q1)
        if behind or ahead:
            self.report_snapshot("snapshot_lag", tick, position, q0, None)
        for event in ahead:
            self.apply(event, tick)
        return behind or bool(ahead)

    def ahead(self, tick: Tick, position: Position, q0: Fraction, q1: Fraction) -> list[Event]:
        """The events in (t, t + w] up to the first fill that leads to the snapshot's quantity; none if no fill does."""
        found: list[Event] = []
        quantity = q0
        for event in self.waiting:
            if event.at > tick.t + self.settle:
                break
            if isinstance(event, Split) and event.symbol == position[0]:
                quantity *= event.ratio
                found.append(event)
            elif isinstance(event, Payment) and event.position == position:
                found.append(event)
            elif isinstance(event, Fill) and event.position == position:
                quantity += event.qty
                found.append(event)
                if self.equal(quantity, q1):
                    return found
        return []

    def adjust(self, tick: Tick, previous: Tick | None, position: Position, q0: Fraction, q1: Fraction) -> None:
        """The synthetic fills, if any: L13, L14, M9."""
        row = self.open_row(position)
        entry_px, mark = tick.shown_entry(position), self.mark(tick, position)
        if row is None or q0 * q1 < 0:  # (d)
            if self.equal(q0, q1):
                return
            # Choice: "the very first tick" is the first that took a snapshot; "without fills": none of this position.
            adopted = previous is None and not any(isinstance(e, Fill) and e.position == position for e in self.applied)
            px = mark if entry_px is None else entry_px
            self.infer(tick, position, q1 - q0, px, adopted=adopted)
            self.report_snapshot("adopted" if adopted else "snapshot", tick, position, q0, px)
        elif q1 == 0:
            # A decision that names it ends it at the mark.
            px, trigger = (mark, None) if tick.names(position[0]) else self.ending(row, tick, previous)
            if not self.equal(q0, q1):
                self.infer(tick, position, -q0, px, trigger=trigger)
                self.report_snapshot("snapshot", tick, position, q0, px)
        elif self.reopened(row, tick, previous, q0, q1):  # (c)
            px, trigger = self.ending(row, tick, previous)
            self.infer(tick, position, -q0, px, trigger=trigger, decided=False)
            self.infer(tick, position, q1, entry_px)
            self.report_snapshot("snapshot", tick, position, q0, entry_px)
        elif not self.equal(q0, q1):
            px = self.addition_price(row, tick, previous, q0, q1) if abs(q1) > abs(q0) else mark
            self.infer(tick, position, q1 - q0, px)
            self.report_snapshot("snapshot", tick, position, q0, px)

    def infer(
        self,
        tick: Tick,
        position: Position,
        qty: Fraction,
        px: Fraction | None,
        trigger: str | None = None,
        adopted: bool = False,
        decided: bool = True,
    ) -> None:
        rate = self.inferred_rate(tick, position[0], px)
        self.fill(Fill(None, position, tick.t, qty, px, rate, trigger=trigger), tick, adopted, decided)

    def mark(self, tick: Tick, position: Position) -> Fraction | None:
        """L13: position mark, then marks[symbol], then the close of the last completed bar."""
        stated = tick.mark(position)
        if stated is not None:
            return stated
        done = [bar for bar in self.record.bars if bar.symbol == position[0] and bar.t1 <= tick.t]
        # Choice: of two bars that end together, the shorter one
        return max(done, key=lambda bar: (bar.t1, bar.t0)).close if done else None

    def interval(self, row: Row, tick: Tick, previous: Tick | None) -> tuple[list[Bar], list[Fraction]]:
        """M9: the bars and the marks since the previous snapshot, or since the row's entry if that is later."""
        # Choice: prices from before a split inside the interval count as they are.
        start = max(previous.t, row.entry_at) if previous else row.entry_at
        bars = [bar for bar in self.record.bars if bar.symbol == row.position[0] and start < bar.t1 <= tick.t]
        marks = [one.mark(row.position) for one in self.record.ticks if start <= one.t <= tick.t]
        return bars, [mark for mark in marks if mark is not None]

    def within_range(self, px: Fraction, row: Row, tick: Tick, previous: Tick | None) -> bool:
        """M9, widened as M5 says. Without bar and mark there is no range, and nothing is in it."""
        bars, marks = self.interval(row, tick, previous)
        mark = self.mark(tick, row.position)
        if bars:
            prices = [price for bar in bars for price in (bar.low, bar.high)] + marks
        elif mark is not None:
            prices = [mark]
        else:
            return False
        low, high = min(prices), max(prices)
        return low - abs(low) * WIDER <= px <= high + abs(high) * WIDER

    def computed_price(self, row: Row, entry_px: Fraction, q0: Fraction, q1: Fraction) -> Fraction | None:
        """L13 and M4; none where the average of the row is not known."""
        if row.price(row.entries()) is None:
            return None
        old, new, avg_cost = abs(q0), abs(q1), row.states()[-1].avg_cost
        if not row.terms.inverse:
            return (new * entry_px - old * avg_cost) / (new - old)
        divisor = new / entry_px - old / avg_cost if entry_px > 0 else ZERO
        return (new - old) / divisor if divisor > 0 else None

    def addition_price(self, row: Row, tick: Tick, previous: Tick | None, q0: Fraction, q1: Fraction) -> Fraction | None:
        """M9 (a), where the position was not closed and reopened."""
        entry_px, mark = tick.shown_entry(row.position), self.mark(tick, row.position)
        computed = None if entry_px is None else self.computed_price(row, entry_px, q0, q1)
        if computed is None:
            return mark
        bars, _ = self.interval(row, tick, previous)
        if not bars and mark is None:
            return computed  # with neither bar nor mark the computed price stands
        return computed if self.within_range(computed, row, tick, previous) else mark

    def reopened(self, row: Row, tick: Tick, previous: Tick | None, q0: Fraction, q1: Fraction) -> bool:
        """Whether the snapshot shows another position of the same side: M9 (a) and (b)."""
        entry_px = tick.shown_entry(row.position)
        if entry_px is None or not self.within_range(entry_px, row, tick, previous):
            return False
        if abs(q1) > abs(q0) and not self.equal(q0, q1):
            # Choice: where no price can be computed, none is in the range.
            computed = self.computed_price(row, entry_px, q0, q1)
            return computed is None or not self.within_range(computed, row, tick, previous)
        # Choice: an average that is not known cannot be seen to differ.
        if row.price(row.entries()) is None or not differs(entry_px, row.states()[-1].avg_cost):
            return False
        if previous and previous.shown_quantity(row.position) * q1 > 0:
            before = previous.shown_entry(row.position)
            if before is not None and not differs(entry_px, before):
                return False
        return not self.traded_since(previous, row.position)

    def traded_since(self, previous: Tick | None, position: Position) -> bool:
        """Whether there was a fill or split since the previous snapshot; without one, since ever."""
        for event in self.applied:
            if isinstance(event, Fill) and (event.inferred or event.position != position):
                continue
            if isinstance(event, Split) and event.symbol != position[0]:
                continue
            if previous is None or event.at > previous.t:
                return True
        return False

    def ending(self, row: Row, tick: Tick, previous: Tick | None) -> tuple[Fraction | None, str | None]:
        """M14: the stop in force if prices reached it, else the target, else the mark."""
        bars, marks = self.interval(row, tick, previous)
        prices = [price for bar in bars for price in (bar.low, bar.high)] + marks
        stop, target = self.levels.get(row.position, (None, None))
        if stop is not None and any(row.side * (price - stop) <= 0 for price in prices):
            return stop, "stop"
        if target is not None and any(row.side * (price - target) >= 0 for price in prices):
            return target, "target"
        return self.mark(tick, row.position), None

    # Reports

    def report(self, found: Json, position: Position) -> None:
        """Choice: a position with a leg has one key more than the golden discrepancies: `leg`."""
        self.discrepancies.append(found | ({"leg": position[1]} if position[1] else {}))

    def report_snapshot(self, why: str, tick: Tick, position: Position, q0: Fraction, px: Fraction | None) -> None:
        """M9: not for an agent whose log has no fill at all."""
        if self.record.has_fills:  # Choice: a voided fill is still one that the log has
            # Choice: broker_qty as the snapshot states it, also where it counts as flat.
            found = {"at": tick.t, "symbol": position[0], "why": why, "ledger_qty": q0}
            self.report(found | {"broker_qty": tick.shown_quantity(position), "price": px}, position)


def differs(one: Fraction, other: Fraction) -> bool:
    """By more than 0.1 %. Choice: of the ledger's average, or of the price shown before."""
    return abs(one - other) > abs(other) * DIFFERS
