"""One row of the ledger: its steps in order, and every figure by going through them again (L5-L12, M1-M8, M12, M14)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from tests.oracle.record import LATEST, ZERO, Bar, Payment, Position, Record, Split, Terms, Tick


@dataclass(frozen=True)
class Part:
    """A fill as it counts in one row, or the share of a fill that was split between two."""

    at: datetime
    enters: bool
    qty: Fraction  # positive, in the units of its time
    px: Fraction | None
    rate: Fraction
    fee: Fraction
    fee_unknown: bool
    liq: bool
    inferred: bool
    tick: Tick | None
    decided: bool  # the tick's decision names the symbol and belongs to this part
    trigger: str | None = None
    cause: str | None = None  # of an exit: what it is, should it close the row
    adopted: bool = False
    stop: Fraction | None = None  # of an entry: those in force with it (M14)
    target: Fraction | None = None


@dataclass(frozen=True)
class State:
    """A row after one of its parts or splits. `cost` is the average of price * rate (M2), `avg_cost` that of prices."""

    at: datetime
    qty: Fraction
    avg_cost: Fraction
    cost: Fraction
    realized: Fraction
    known: bool  # False from the first part without a price on


@dataclass
class Row:
    """One round trip (L2), or one piece of a lot (M12)."""

    position: Position
    side: int  # +1 long, -1 short
    terms: Terms  # those in force at its entry_at, for its whole life (M3)
    steps: list[Part | Split | Payment] = field(default_factory=list)
    closed: bool = False

    def parts(self) -> list[Part]:
        return [step for step in self.steps if isinstance(step, Part)]

    def entries(self) -> list[Part]:
        return [part for part in self.parts() if part.enters]

    def exits(self) -> list[Part]:
        return [part for part in self.parts() if not part.enters]

    @property
    def entry_at(self) -> datetime:
        return self.parts()[0].at

    @property
    def exit_at(self) -> datetime:
        return self.parts()[-1].at if self.closed else LATEST

    # Money

    def gain(self, start: Fraction, end: Fraction, qty: Fraction, rate: Fraction) -> Fraction:
        """What `qty` earns from one price to another, both converted at one rate (M1, M4)."""
        difference = 1 / start - 1 / end if self.terms.inverse else end - start
        return self.side * difference * qty * self.terms.multiplier * rate

    def size(self, part: Part) -> Fraction:
        """The notional of an entry, always positive (M1, M4, M5)."""
        assert part.px is not None
        units = 1 / part.px if self.terms.inverse else abs(part.px)
        return units * part.qty * self.terms.multiplier * part.rate

    def reduction(self, state: State, px: Fraction, qty: Fraction, rate: Fraction) -> Fraction:
        """What selling `qty` at `px` would realise in this state."""
        if self.terms.cash:  # M2
            return self.side * (px * rate - state.cost) * qty * self.terms.multiplier
        if qty == 0:
            return ZERO
        return self.gain(state.avg_cost, px, qty, rate)

    def value(self, state: State, px: Fraction, rate: Fraction) -> Fraction:
        """V(p) of L16, M1, M2 and M4."""
        return state.realized + self.reduction(state, px, state.qty, rate)

    def average(self, qty: Fraction, avg_cost: Fraction, more: Fraction, px: Fraction) -> Fraction:
        """The average price after an addition: L5, or harmonic (M4)."""
        if qty == 0:
            return px
        if self.terms.inverse:
            return (qty + more) / (qty / avg_cost + more / px)
        return (qty * avg_cost + more * px) / (qty + more)

    def states(self) -> list[State]:
        """L5, L6 and M6, step by step."""
        states: list[State] = []
        state = State(self.entry_at, ZERO, ZERO, ZERO, ZERO, True)
        last = self.parts()[-1]
        averaged = True  # False from the first entry without a price on
        for step in self.steps:
            if isinstance(step, Payment):
                continue
            if isinstance(step, Split):
                state = replace(
                    state,
                    at=step.at,
                    qty=state.qty * step.ratio,
                    avg_cost=state.avg_cost / step.ratio,
                    cost=state.cost / step.ratio,
                )
            elif step.enters:
                averaged = averaged and step.px is not None
                qty, avg_cost, cost = state.qty + step.qty, state.avg_cost, state.cost
                if averaged and step.px is not None:
                    avg_cost = self.average(state.qty, avg_cost, step.qty, step.px)
                    cost = (state.qty * cost + step.qty * step.px * step.rate) / qty
                known = state.known and averaged
                state = replace(state, at=step.at, qty=qty, avg_cost=avg_cost, cost=cost, known=known)
            else:
                known, realized = state.known and step.px is not None, state.realized
                if known and step.px is not None:
                    realized += self.reduction(state, step.px, step.qty, step.rate)
                state = replace(state, at=step.at, qty=state.qty - step.qty, realized=realized, known=known)
            if self.closed and step is last:
                state = replace(state, qty=ZERO)  # what is left is dust, which counts as flat (L7)
            states.append(state)
        return states

    def priced(self) -> bool:
        return all(part.px is not None for part in self.parts())

    def realized(self) -> Fraction | None:
        if not self.priced():
            return None
        last = self.states()[-1]
        if self.closed and self.terms.cash:  # the sums must say what the running average says (M2, and dust at cost)
            gain = notional(self.exits()) - notional(self.entries()) + self.dust() * last.cost
            assert last.realized == self.side * self.terms.multiplier * gain, "running average and sums disagree"
        return last.realized

    def fees(self) -> Fraction:
        return sum((part.fee for part in self.parts()), ZERO)

    def funding(self) -> Fraction:
        return sum((step.usd for step in self.steps if isinstance(step, Payment)), ZERO)

    def net(self) -> Fraction | None:
        """L11."""
        realized = self.realized()
        return None if realized is None else realized - self.fees() + self.funding()

    def entry_size(self) -> Fraction | None:
        if any(part.px is None for part in self.entries()):
            return None
        return sum((self.size(part) for part in self.entries()), ZERO)

    def risk(self) -> Fraction | None:
        """initial_risk_usd of M14, each entry in the units of its time; a split does not change it (M6)."""
        total = ZERO
        for part in self.entries():
            if part.stop is None or part.px is None:
                return None
            # Choice: no loss can be computed to a stop that an inverse instrument cannot reach.
            if self.terms.inverse and part.stop <= 0:
                return None
            total += max(ZERO, -self.gain(part.px, part.stop, part.qty, part.rate))
        return total

    # In the units after the row's last split (M6)

    def scale(self, part: Part) -> Fraction:
        """The product of the ratios of all splits after the part."""
        ratio = Fraction(1)
        for step in self.steps[next(place for place, step in enumerate(self.steps) if step is part) :]:
            if isinstance(step, Split):
                ratio *= step.ratio
        return ratio

    def quantity(self, parts: list[Part]) -> Fraction:
        return sum((part.qty * self.scale(part) for part in parts), ZERO)

    def price(self, parts: list[Part]) -> Fraction | None:
        """Average price in the quote currency, harmonic where the payoff is inverse; unknown where one price is."""
        total = ZERO
        for part in parts:
            if part.px is None:
                return None
            qty, px = part.qty * self.scale(part), part.px / self.scale(part)
            total += qty / px if self.terms.inverse else qty * px
        qty = self.quantity(parts)
        if not qty:
            # Choice: an exit that left the whole lot behind as dust has the price of its fill.
            return parts[-1].px
        return qty / total if self.terms.inverse else total / qty

    def dust(self) -> Fraction:
        """What a closed row left behind; negative when its last fill took a crumb more than was held."""
        return self.quantity(self.entries()) - self.quantity(self.exits()) if self.closed else ZERO


def usable(px: Fraction | None, terms: Terms) -> Fraction | None:
    """A price, unless the payoff has no meaning for it.

    Choice: a price not above 0 that was not refused (M4), because the terms came later or a correction or a snapshot
    stated it, counts as no price.
    """
    return None if px is not None and px <= 0 and terms.inverse else px


def notional(parts: list[Part]) -> Fraction:
    """In the account currency. A split leaves quantity * price as it is."""
    return sum((part.qty * part.px * part.rate for part in parts if part.px is not None), ZERO)


def excursions(row: Row, record: Record, rates: Any, mode: str) -> tuple[Fraction, Fraction]:
    """mfe and mae (L16, M1). What is not known (no price) is not observed.

    `rates` gives the last rate known of the row's symbol at or before a moment.
    """
    states = row.states()
    entry_at, exit_at = row.entry_at, row.exit_at
    seen = [ZERO]
    changes = [step for step in row.steps if not isinstance(step, Payment)]
    for step, state in zip(changes, states, strict=True):
        if isinstance(step, Part) and step.px is not None and state.known:
            seen.append(row.value(state, step.px, step.rate))
    for bar in record.bars:
        if bar.symbol != row.position[0] or record.split_inside(bar) or (row.terms.inverse and bar.low <= 0):
            continue
        at_t0 = [state for state in states if state.at <= bar.t0][-1:]  # after the events at t0
        at_t1 = [state for state in states if state.at < bar.t1][-1:]  # before the events at t1
        within = [state for state in states if bar.t0 < state.at < bar.t1]
        if mode == "close":
            if entry_at < bar.t1 <= exit_at:
                seen += [row.value(state, bar.close, rates(bar.t1)) for state in at_t1 if state.known]
        elif entry_at <= bar.t0 and bar.t1 <= exit_at:
            # Choice: the bar's states are all of them, those that lasted no time (fills of one second) included.
            during = [(state, bar.t0) for state in at_t0] + [(state, state.at) for state in within]
            if all(state.known for state, _ in during):
                good, bad = extremes(row, bar)
                seen.append(min(row.value(state, good, rates(at)) for state, at in during))
                seen.append(max(row.value(state, bad, rates(at)) for state, at in during))
        elif bar.t0 < entry_at < bar.t1 <= exit_at:
            seen += [row.value(state, bar.close, rates(bar.t1)) for state in at_t1 if state.known]
        elif entry_at <= bar.t0 < exit_at < bar.t1:
            seen += [row.value(state, bar.open, rates(bar.t0)) for state in at_t0 if state.known]
        # Choice: a bar that contains entry and exit says nothing: it opened before the one and closed after the other.
    return max(seen), min(seen)


def extremes(row: Row, bar: Bar) -> tuple[Fraction, Fraction]:
    """The favourable extreme of a bar, and the adverse one."""
    return (bar.high, bar.low) if row.side > 0 else (bar.low, bar.high)


@dataclass
class Lot:
    """An entry of a round and what is left of it, in the units of the moment (M12)."""

    entry: Part
    open: Fraction
    ratio: Fraction = Fraction(1)
    splits: list[Split] = field(default_factory=list)
    funding: Fraction = ZERO
    pieces: list[Row] = field(default_factory=list)


def pieces(round_trip: Row, record: Record) -> list[Row]:
    """A round trip as FIFO lots: each piece of a lot that was closed, and what is left of it, is a row (M12)."""
    lots: list[Lot] = []

    def close(lot: Lot, qty: Fraction, exit: Part | None) -> None:
        """Take `qty` out of the lot as a row of its own."""
        share = qty / lot.open
        old = qty / lot.ratio  # in the units of the lot's entry
        entry = replace(lot.entry, qty=old, fee=lot.entry.fee * old / lot.entry.qty)
        # The row of a lot has the terms in force at the lot's own entry (M3).
        terms = record.terms(round_trip.position[0], entry.at)
        row = Row(round_trip.position, round_trip.side, terms)
        row.steps = [
            replace(entry, px=usable(entry.px, terms)),
            *lot.splits,
            Payment(row.position, entry.at, lot.funding * share),
        ]
        if exit:
            row.steps.append(replace(exit, px=usable(exit.px, terms)))
            row.closed = True
        lot.pieces.append(row)
        lot.open -= qty
        lot.funding -= lot.funding * share

    for step in round_trip.steps:
        left = [lot for lot in lots if lot.open]
        if isinstance(step, Split):
            for lot in left:
                lot.open *= step.ratio
                lot.ratio *= step.ratio
                lot.splits.append(step)
        elif isinstance(step, Payment):
            held = sum((lot.open for lot in left), ZERO)
            for lot in left:
                lot.funding += step.usd * lot.open / held
        elif step.enters:
            lots.append(Lot(step, step.qty))
        else:
            # Choice: where dust is left, the exit closes every lot. The last pieces enter with the crumb and leave
            # without it, as a flat-to-flat row does (L7); a crumb too much leaves with the last piece.
            flat = round_trip.closed and step is round_trip.parts()[-1]
            rest = step.qty
            for lot in left:
                qty = min(rest, lot.open)
                if not qty and not flat:
                    break
                exited = rest if flat and lot is left[-1] else qty
                exit = replace(step, qty=exited, fee=step.fee * exited / step.qty)
                close(lot, lot.open if flat else qty, exit)
                rest -= exited
    for lot in lots:
        if lot.open:
            close(lot, lot.open, None)
    return [row for lot in lots for row in lot.pieces]
