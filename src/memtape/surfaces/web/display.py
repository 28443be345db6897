"""How values appear on a page: amounts with separators, sign and unit, times in UTC, codes in words.

The values are those of the operations: amounts and times as text. An unknown value appears as a dash, never as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from memtape.core.codec import read_time
from memtape.core.ledger.trades import money_text
from memtape.core.sources import TIER_WORDS, source_of_trade, source_phrase

UNKNOWN = "–"
MINUS = "−"

# These characters change the reading direction of the text that follows, even across the borders of an element.
# They are shown by their code and have no effect.
_DIRECTION_CHARACTERS = {code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}

MODES: Mapping[str, str] = {"sim": "simulated", "paper": "paper", "live": "live"}
QUALITY: Mapping[str, tuple[str, str]] = {
    "fills": ("from fills", "Every entry and exit is a reported execution. Prices and sums are exact."),
    "reported": ("as reported", "The source reported this trade as a whole, without fills. The figures are those of the source."),
    "inferred": (
        "inferred",
        "A snapshot of positions showed a change that no fill explains. The missing part was inferred from the snapshot and "
        "the price known at that time, so the figures are close, not exact.",
    ),
    "unpriced": (
        "unpriced",
        "The position changed at an unknown price. The trade is counted, but not in any rate or sum of outcomes.",
    ),
    "claimed": (
        "as claimed",
        "The agent itself reported this trade, and no record of the venue or of yours confirms it.",
    ),
}
CAUSES: Mapping[str, str] = {
    "close": "closed by a decision",
    "flip": "closed by changing side",
    "external": "closed outside any decision",
    "liquidation": "liquidated by the venue",
    "reported": "reported as closed by its source",
    "claimed": "closed, as the agent claims",
}
DISCREPANCIES: Mapping[str, str] = {
    "snapshot": "snapshot differs", "adopted": "opened before the first snapshot", "snapshot_lag": "snapshot early or late",
    "fill_differs": "fill came again", "fee_unknown": "fee not counted", "stop_wrong_side": "stop not taken",
    "fill_twice": "two equal fills", "pnl_differs": "PnL differs",
}  # fmt: skip
ACCOUNTING: Mapping[str, str] = {
    "margin": "on margin: the PnL is converted once, at the exit's rate",
    "cash": "paid in full: each amount is converted at its own rate",
}
PAYOFFS: Mapping[str, str] = {"linear": "linear", "inverse": "inverse: coin-margined"}
TRADE_UNITS: Mapping[str, str] = {
    "flat_to_flat": "one trade per round trip, from flat to flat",
    "fifo_lots": "one trade per lot and reduction, oldest lot first",
}


def show_source(trade: Any) -> str:
    """Who reported a trade, in words.

    >>> from types import SimpleNamespace as Trade
    >>> show_source(Trade(quality="fills", source="hyperliquid")), show_source(Trade(quality="reported", source=None))
    ('from the venue (hyperliquid)', 'from your records')
    """
    source = source_of_trade(trade.quality, trade.source)
    name = f" ({visible(trade.source)})" if source == "venue" else ""
    return source_phrase([source]) + name


EXCURSIONS: Mapping[str, str] = {
    "hl_strict": "from the highs and lows of the bars that lie completely within the holding time",
    "close": "from the closes of the bars within the holding time",
}


def show_ending(trade: Any) -> str:
    """How a trade ended.

    >>> from types import SimpleNamespace as Trade
    >>> (show_ending(Trade(exit_trigger="stop", close_cause="external")),
    ...  show_ending(Trade(exit_trigger=None, close_cause="flip")))
    ('closed by its stop', 'closed by changing side')
    """
    if trade.exit_trigger in ("stop", "target"):
        return f"closed by its {trade.exit_trigger}"
    return CAUSES.get(trade.close_cause, trade.close_cause or UNKNOWN)


def visible(value: object) -> object:
    """A text that cannot change the reading direction of the text around it.

    >>> visible("buy \u202eyllaer")
    'buy [U+202E]yllaer'
    """
    return value.translate(_DIRECTION_CHARACTERS) if isinstance(value, str) else value


def show_value(value: object) -> object:
    """A value as a template writes it where no filter formats it: a visible text, an amount with at most 8 places.

    >>> show_value(Decimal("1.50000000001")), show_value(3)
    ('1.5', 3)
    """
    return money_text(value) if isinstance(value, Decimal) else visible(value)


def show_amount(value: str | float | Decimal | None, places: int = 2) -> str:
    """A number with thousands separators.

    >>> show_amount("1234567.891"), show_amount("-0.5"), show_amount("-0.001"), show_amount(None)
    ('1,234,567.89', '−0.50', '0.00', '–')
    """
    if value is None:
        return UNKNOWN
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    rounded = exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
    return f"{abs(rounded):,f}" if rounded >= 0 else f"{MINUS}{abs(rounded):,f}"


def show_signed(value: str | float | Decimal | None, places: int = 2) -> str:
    """A number with thousands separators and its sign, for what can be won or lost.

    >>> show_signed("12.5"), show_signed("-12.5"), show_signed("0.001")
    ('+12.50', '−12.50', '0.00')
    """
    text = show_amount(value, places)
    return f"+{text}" if gain_or_loss(value) == "gain" and text.strip("0.,") else text


def gain_or_loss(value: str | float | Decimal | None) -> str:
    """`gain`, `loss` or `even`.

    >>> gain_or_loss("3"), gain_or_loss("-3"), gain_or_loss("0"), gain_or_loss(None)
    ('gain', 'loss', 'even', 'even')
    """
    exact = Decimal(str(value)) if value is not None else Decimal(0)
    return "gain" if exact > 0 else "loss" if exact < 0 else "even"


def show_price(value: str | Decimal | None) -> str:
    """A price or a quantity; the smaller it is, the more decimal places it has.

    >>> show_price("65200"), show_price("399.30722248"), show_price("21.5"), show_price("0.000123456789")
    ('65,200.00', '399.3072', '21.50', '0.000123457')
    """
    if value is None:
        return UNKNOWN
    exact = Decimal(value)
    size = abs(exact)
    places = 2 if size >= 1000 or not size else 4 if size >= 1 else 5 - size.adjusted()
    text = show_amount(exact, min(places, 12))
    whole, _, part = text.partition(".")
    return f"{whole}.{part.rstrip('0').ljust(2, '0')}"


def show_percent(rate: float | None, places: int = 1) -> str:
    """A fraction of one, in %.

    >>> show_percent(0.407692), show_percent(None)
    ('40.8 %', '–')
    """
    return UNKNOWN if rate is None else f"{show_amount(100 * rate, places)} %"


def show_time(time: str | None) -> str:
    """A moment.

    >>> show_time("2026-06-04T08:00:00Z")
    '2026-06-04 08:00 UTC'
    """
    return UNKNOWN if time is None else f"{time[:10]} {time[11:16]} UTC"


def show_duration(minutes: str | float | None) -> str:
    """A length of time.

    >>> show_duration("45.4"), show_duration(300), show_duration("30959.98"), show_duration(None)
    ('45 min', '5.0 h', '21.5 days', '–')
    """
    if minutes is None:
        return UNKNOWN
    exact = Decimal(str(minutes))
    if exact < 90:
        return f"{show_amount(exact, 0)} min"
    return f"{show_amount(exact / 60, 1)} h" if exact < 48 * 60 else f"{show_amount(exact / 1440, 1)} days"


def show_span(start: str, end: str | None) -> str:
    """The time between two moments.

    >>> show_span("2026-03-02T10:00:00Z", "2026-03-02T10:00:12.4Z"), show_span("2026-03-02T10:00:00Z", "2026-03-02T10:02:05Z")
    ('12 s', '2 min 5 s')
    >>> show_span("2026-03-02T10:00:00Z", "2026-03-02T10:00:00.4Z"), show_span("2026-03-02T10:00:00Z", None)
    ('under 1 s', '–')
    """
    if end is None:
        return UNKNOWN
    seconds = (read_time(end) - read_time(start)) // timedelta(seconds=1)
    if seconds < 60:
        return f"{seconds} s" if seconds else "under 1 s"
    return f"{seconds // 60} min {seconds % 60} s" if seconds < 3600 else f"{seconds // 3600} h {seconds % 3600 // 60} min"


def show_frame(seconds: int) -> str:
    """The length of a bar.

    >>> show_frame(86400), show_frame(4 * 3600), show_frame(300), show_frame(10)
    ('1 day', '4 h', '5 min', '10 s')
    """
    for unit, length in (("day", 86400), ("h", 3600), ("min", 60)):
        if seconds % length == 0:
            return f"{seconds // length} {unit}{'s' if unit == 'day' and seconds > length else ''}"
    return f"{seconds} s"


def show_digits(value: float | None, n: int = 3) -> str:
    """A number with `n` significant digits, never in powers of ten. A very small one appears as below 0.0001.

    >>> show_digits(0.348988), show_digits(1234.5), show_digits(0.0413249, 2), show_digits(0.0000003), show_digits(None)
    ('0.349', '1,234', '0.041', '< 0.0001', '–')
    """
    if value is None:
        return UNKNOWN
    if value and abs(value) < 0.0001:
        return "< 0.0001" if value > 0 else f"> {MINUS}0.0001"
    exact = Decimal(str(value))
    return show_amount(exact, max(0, n - 1 - exact.adjusted())) if exact else show_amount(exact, n - 1)


def show_label(value: object) -> str:
    """A label in words: trending_up becomes trending up.

    >>> show_label("trending_up"), show_label("*"), show_label(None), show_label(2)
    ('trending up', 'any', '–', '2')
    """
    if value is None:
        return UNKNOWN
    return "any" if value == "*" else str(value).replace("_", " ")


def show_sentence(text: str) -> str:
    """A text with its first letter capitalized; the other letters stay.

    >>> show_sentence("only 3 trades in London")
    'Only 3 trades in London'
    """
    return text[:1].upper() + text[1:]


FILTERS: Mapping[str, Callable[..., str]] = {
    "amount": show_amount,
    "signed": show_signed,
    "tone": gain_or_loss,
    "price": show_price,
    "percent": show_percent,
    "when": show_time,
    "duration": show_duration,
    "span": show_span,
    "frame": show_frame,
    "ending": show_ending,
    "trade_source": show_source,
    "digits": show_digits,
    "label": show_label,
    "sentence": show_sentence,
}
LABELS: Mapping[str, object] = {
    "modes": MODES, "qualities": QUALITY, "methods": EXCURSIONS, "tiers": TIER_WORDS, "accountings": ACCOUNTING,
    "payoffs": PAYOFFS, "trade_units": TRADE_UNITS,
}  # fmt: skip
