"""What was delivered: ticks, fills, payments, splits, bars, instrument terms and corrections, each once (L3, M3, M11).

Nothing is concluded here. The record only says what counts: the first delivery of an id, with the corrections that are
known, at its own time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Position = tuple[str, str]  # symbol and leg
ZERO = Fraction(0)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


def time(text: str | datetime) -> datetime:
    moment = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    return moment.astimezone(UTC)


def number(given: object) -> Fraction:
    return Fraction(str(given))


def number_or_none(given: object) -> Fraction | None:
    return None if given is None else number(given)


@dataclass(frozen=True)
class Tick:
    """An accepted tick: its snapshot (None: none was taken), its marks and its decision."""

    id: str
    t: datetime
    held: dict[Position, Json] | None
    marks: dict[str, Json]  # symbol -> {px, rate}
    decision: Json

    def names(self, symbol: str) -> bool:
        return self.decision.get("symbol") == symbol

    def shown(self, position: Position) -> Json:
        return (self.held or {}).get(position) or {}

    def shown_quantity(self, position: Position) -> Fraction:
        return number(self.shown(position).get("qty") or 0)

    def shown_entry(self, position: Position) -> Fraction | None:
        return number_or_none(self.shown(position).get("entry_px"))

    def mark(self, position: Position) -> Fraction | None:
        """The mark that this tick states: that of the position, else that of the symbol."""
        given = self.shown(position).get("mark")
        return number_or_none(self.marks.get(position[0], {}).get("px") if given is None else given)

    def stated_rate(self, symbol: str) -> Fraction | None:
        """The rate that this tick states for a symbol: that of a position, else that of the mark (M1)."""
        # Choice: of two legs with different rates, the first leg's.
        rates = [shown.get("rate") for position, shown in sorted((self.held or {}).items()) if position[0] == symbol]
        rates.append(self.marks.get(symbol, {}).get("rate"))
        return next((number(rate) for rate in rates if rate is not None), None)

    def symbol_mark(self, symbol: str) -> Fraction | None:
        """The mark of any leg of the symbol, else that of the symbol."""
        positions = sorted(position for position in self.held or {} if position[0] == symbol)
        marks = [self.mark(position) for position in [*positions, (symbol, "")]]
        return next((mark for mark in marks if mark is not None), None)


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

    id: str | None  # None: inferred from a snapshot
    position: Position
    at: datetime
    qty: Fraction
    px: Fraction | None
    rate: Fraction
    fee: Fraction = ZERO
    fee_unknown: bool = False
    liq: bool = False
    trigger: str | None = None

    @property
    def inferred(self) -> bool:
        return self.id is None


@dataclass(frozen=True)
class Payment:
    """Funding or a dividend, in account currency. A dividend is placed at its ex-date (M7)."""

    position: Position
    at: datetime
    usd: Fraction


@dataclass(frozen=True)
class Split:
    """`ratio` new units for one old (M6)."""

    symbol: str
    at: datetime
    ratio: Fraction


Event = Split | Payment | Fill


@dataclass(frozen=True)
class Terms:
    """What an instrument statement says; what it leaves out has its default (M3)."""

    accounting: str = "margin"
    multiplier: Fraction = Fraction(1)
    payoff: str = "linear"
    base: str | None = None

    @property
    def inverse(self) -> bool:
        return self.payoff == "inverse"

    @property
    def cash(self) -> bool:
        """Payoff `inverse` is always margin (M4)."""
        return self.accounting == "cash" and not self.inverse


@dataclass(frozen=True)
class Statement:
    symbol: str
    valid_from: datetime
    terms: Terms


@dataclass(frozen=True)
class NotReconciled:
    """Snapshots of a symbol in [start, before) showed the account before a correction (M11)."""

    symbol: str
    start: datetime
    before: datetime


@dataclass(frozen=True)
class Record:
    """Everything that counts, in order."""

    currency: str
    ticks: list[Tick]
    events: list[Event]  # by time; at one moment splits, dividends, funding, fills (M6); then by seq and id (L4)
    bars: list[Bar]
    statements: list[Statement]  # as they were recorded
    not_reconciled: list[NotReconciled]
    discrepancies: list[Json]  # fill_differs and fee_unknown
    refused: list[Json]
    has_fills: bool  # whether any fill was ever delivered

    def terms(self, symbol: str, at: datetime) -> Terms:
        return terms_in_force(self.statements, symbol, at)

    def split_inside(self, bar: Bar) -> bool:
        splits = [event for event in self.events if isinstance(event, Split)]
        return any(split.symbol == bar.symbol and bar.t0 < split.at < bar.t1 for split in splits)


def terms_in_force(statements: list[Statement], symbol: str, at: datetime) -> Terms:
    """The latest valid_from not after the moment; of two with the same one, the statement recorded later (M3)."""
    found, since = Terms(), EARLIEST
    for statement in statements:
        if statement.symbol == symbol and since <= statement.valid_from <= at:
            found, since = statement.terms, statement.valid_from
    return found


def read(ticks: Iterable[Json], config: Json, as_of: str | datetime | None = None) -> Record:
    """Sort what was delivered: what is new counts, whatever tick brought it; a replayed tick is not a tick (L3)."""
    currency = config.get("currency") or "USD"
    now = LATEST if as_of is None else time(as_of)
    accepted: list[Tick] = []
    refused: list[Json] = []
    statements: list[Statement] = []
    restated: list[tuple[str, Statement]] = []
    deliveries: dict[str, list[tuple[datetime, Json]]] = {}  # of each fill id: when, and what
    items: dict[str, dict[str, Json]] = {"funding": {}, "dividends": {}, "splits": {}}
    corrections: list[Json] = []
    bars: dict[tuple[str, datetime, datetime], Bar] = {}
    for tick in ticks:
        name, t = str(tick.get("snapshot_id") or tick["id"]), time(tick["t"])
        # Choice: "only ticks up to it are known": what a later tick brought, and whether a tick is later than such a
        # one, is not known either.
        if t > now:
            continue
        stated = [(name, statement(raw)) for raw in tick.get("instruments") or []]
        # Choice: M4 refuses the whole tick, as if it had never been sent, by the terms known when it is sent.
        bad = unpriceable(tick, statements + [one for _, one in stated])
        if bad:
            refused.append({"snapshot_id": name, "field": "fills.px", "says": bad})
            continue
        for one in stated:
            # Choice: a statement has no id. The same one by the same tick id is a repetition; by another tick it is
            # recorded again, and revises.
            if one not in restated:
                restated.append(one)
                statements.append(one[1])
        for raw in tick.get("fills") or []:
            deliveries.setdefault(raw["id"], []).append((t, raw))
        for kind, found in items.items():
            for raw in tick.get(kind) or []:
                found.setdefault(raw["id"], raw)
        for raw in tick.get("bars") or []:
            bar = Bar(raw["symbol"], time(raw["t0"]), time(raw["t1"]), *(number(raw[letter]) for letter in "ohlc"))
            bars.setdefault((bar.symbol, bar.t0, bar.t1), bar)
        # The new content counts from the correction's t on.
        corrections += [raw for raw in tick.get("corrections") or [] if time(raw["t"]) <= now and raw not in corrections]
        if any(name == earlier.id or t <= earlier.t for earlier in accepted):
            continue
        accepted.append(Tick(name, t, snapshot(tick.get("positions")), marks(tick), tick.get("decision") or {}))
    fills = Fills(currency, deliveries, sorted(corrections, key=lambda raw: time(raw["t"])))
    return Record(
        currency,
        accepted,
        in_order(items, fills.valid),
        list(bars.values()),
        statements,
        fills.not_reconciled,
        fills.discrepancies,
        refused,
        bool(deliveries),
    )


def in_order(items: dict[str, dict[str, Json]], fills: list[tuple[int, Fill]]) -> list[Event]:
    """L4 with the order of M6; a dividend is placed at its ex-date (M7)."""
    found: list[tuple[tuple[Any, ...], Event]] = []
    for raw in items["splits"].values():
        split = Split(raw["symbol"], time(raw["t"]), number(raw["ratio"]))
        found.append(((split.at, 0, 0, raw["id"]), split))
    for place, kind, when in ((1, "dividends", "ex_date"), (2, "funding", "t")):
        for raw in items[kind].values():
            usd = number(raw["usd"]) * number(1 if raw.get("rate") is None else raw["rate"])
            payment = Payment((raw["symbol"], raw.get("leg") or ""), time(raw[when]), usd)
            found.append(((payment.at, place, 0, raw["id"]), payment))
    for seq, fill in fills:
        found.append(((fill.at, 3, seq, fill.id), fill))
    return [event for _, event in sorted(found, key=lambda pair: pair[0])]


def unpriceable(tick: Json, statements: list[Statement]) -> str | None:
    """M4: what is wrong with the price of a fill of an inverse instrument."""
    for raw in tick.get("fills") or []:
        if number(raw["px"]) <= 0 and terms_in_force(statements, raw["symbol"], time(raw["t"])).inverse:
            return f"fills.px: {raw['px']} of {raw['symbol']} is not above 0. The payoff is inverse; give a price above 0."
    return None


def statement(raw: Json) -> Statement:
    terms = Terms(
        raw.get("accounting") or "margin",
        number(raw.get("multiplier") or 1),
        raw.get("payoff") or "linear",
        raw.get("base"),
    )
    return Statement(raw["symbol"], time(raw["valid_from"]) if raw.get("valid_from") else EARLIEST, terms)


def snapshot(positions: Json | None) -> dict[Position, Json] | None:
    if positions is None:
        return None
    held = {}
    for symbol, given in positions.items():
        for one in given if isinstance(given, list | tuple) else [given]:
            held[symbol, one.get("leg") or ""] = one
    return held


def marks(tick: Json) -> dict[str, Json]:
    given = tick.get("marks") or {}
    return {symbol: mark if isinstance(mark, dict) else {"px": mark} for symbol, mark in given.items()}


class Fills:
    """The fills that count, as corrected, and what is to be reported about their deliveries (M8, M11)."""

    def __init__(self, currency: str, deliveries: dict[str, list[tuple[datetime, Json]]], corrections: list[Json]) -> None:
        self.currency = currency
        self.valid: list[tuple[int, Fill]] = []  # with their seq
        self.not_reconciled: list[NotReconciled] = []
        self.discrepancies: list[Json] = []
        for id, delivered in deliveries.items():
            versions, void = self.corrected(delivered[0][1], [raw for raw in corrections if raw["fill_id"] == id])
            self.compare(id, delivered, versions)
            if not void:
                self.valid.append((versions[-1]["seq"], self.fill(id, versions[-1])))

    def corrected(self, first: Json, corrections: list[Json]) -> tuple[list[Json], bool]:
        """Every content that the fill had, and whether it is void: M11, corrections in order of t."""
        raw, versions = first, [self.content(first)]
        for correction in corrections:
            t, old = time(correction["t"]), versions[-1]
            if correction["kind"] == "void_fill":
                self.not_reconciled.append(NotReconciled(old["symbol"], old["t"], t))
                return versions, True  # a voided id stays void
            raw = raw | correction["content"]
            new = self.content(raw)
            versions.append(new)
            # Choice: a field is amended when its value changes, not when it is merely named.
            if any(old[name] != new[name] for name in ("qty", "side", "symbol", "leg", "t")):
                for symbol in {old["symbol"], new["symbol"]}:
                    self.not_reconciled.append(NotReconciled(symbol, min(old["t"], new["t"]), t))
        return versions, False

    def content(self, raw: Json) -> Json:
        """What a delivery says, numbers as numbers, absent fields by their defaults."""
        return {
            "t": time(raw["t"]),
            "seq": int(raw.get("seq") or 0),
            "symbol": raw["symbol"],
            "leg": raw.get("leg") or "",
            "side": raw["side"],
            "qty": number(raw["qty"]),
            "px": number(raw["px"]),
            "fee": number(raw.get("fee") or 0),
            "liq": bool(raw.get("liq")),
            "rate": number(1 if raw.get("rate") is None else raw["rate"]),
            # Choice: the default of fee_currency is the account currency, fee_rate and trigger have none.
            "fee_currency": raw.get("fee_currency") or self.currency,
            "fee_rate": number_or_none(raw.get("fee_rate")),
            "trigger": raw.get("trigger"),
        }

    def compare(self, id: str, delivered: list[tuple[datetime, Json]], versions: list[Json]) -> None:
        """The same id with a content that is no version of the fill (M11)."""
        first = versions[0]
        for t, raw in delivered:
            content = self.content(raw)
            if content not in versions:
                # Choice: the fields in the order in which a fill lists them, as in m11_fill_differs.
                fields = [name for name in first if content[name] != first[name]]
                found = {"at": t, "symbol": first["symbol"], "why": "fill_differs", "fill_id": id, "fields": fields}
                self.discrepancies.append(found)

    def fill(self, id: str, content: Json) -> Fill:
        fee, unknown = content["fee"], False
        if content["fee_rate"] is not None:  # M8
            fee *= content["fee_rate"]
        elif content["fee_currency"] != self.currency and fee != 0:
            found = {"at": content["t"], "symbol": content["symbol"], "why": "fee_unknown", "fill_id": id}
            self.discrepancies.append(found | {"fee": fee, "fee_currency": content["fee_currency"]})
            fee, unknown = ZERO, True
        return Fill(
            id,
            (content["symbol"], content["leg"]),
            content["t"],
            content["qty"] * (1 if content["side"] == "buy" else -1),
            content["px"],
            content["rate"],
            fee,
            unknown,
            content["liq"],
            content["trigger"],
        )
