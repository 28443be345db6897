"""Number formats of a brief: one fixed form for each kind of number, the same on every machine.

>>> (format_money(Decimal("250"), "USD"), format_gain(Decimal("28.4"), "USD"), format_gain(Decimal("-9.7"), "EUR"),
...  format_rough_gain(Decimal("-8.0"), "USD"))
('$250', '+$28.40', '-EUR 9.70', '-$8')
>>> format_number(Decimal("65200.000")), format_number(Decimal("1.084523999")), format_number(Decimal("0.00001234"))
('65,200', '1.084524', '0.00001234')
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal

from memtape.core.values import MONEY, ZERO

MINUTE = timedelta(minutes=1)
PRICE_DIGITS = 7  # 65,203.45 and 1.084523: as fine as any venue quotes
SHORT_PRICE_DIGITS = 4  # of a price in a short row, unless the move needs more


def format_money(amount: Decimal, currency: str) -> str:
    """Returns a size: whole from 100 on, below that with cents if there are any."""
    return _signed(amount, _size(abs(amount), whole_from=100), currency, plus="")


def format_gain(amount: Decimal, currency: str) -> str:
    """Returns a gain or loss to the cent; below a cent, to two significant digits.

    >>> format_gain(Decimal("1234.5"), "USD"), format_gain(Decimal("0"), "USD"), format_gain(Decimal("-0.00042"), "BTC")
    ('+$1,234.50', '$0.00', '-BTC 0.00042')
    """
    spelled = _digits(abs(amount), 2) if 0 < abs(amount) < Decimal("0.01") else f"{_rounded(abs(amount), 2):,f}"
    return _signed(amount, spelled, currency, plus="+")


def format_rough_gain(amount: Decimal, currency: str) -> str:
    """Returns a gain or loss where cents do not matter: whole from 10 on."""
    return _signed(amount, _size(abs(amount), whole_from=10), currency, plus="+")


def format_price_of_unit(amount: Decimal, currency: str) -> str:
    """Returns an amount without a sign: whole from 1,000 on, to the cent below, and below ten cents to two significant digits.

    >>> format_price_of_unit(Decimal("4.1"), "USD"), format_price_of_unit(Decimal("1846410"), "EUR")
    ('$4.10', 'EUR 1,846,410')
    >>> format_price_of_unit(Decimal("0.0135"), "USD"), format_price_of_unit(Decimal("0.000021003"), "BTC")
    ('$0.014', 'BTC 0.000021')
    """
    size = abs(amount)
    if size >= 1_000:
        return _signed(size, _size(size, whole_from=1_000), currency, plus="")
    if 0 < size < Decimal("0.1"):
        return _signed(size, _digits(size, 2), currency, plus="")
    return format_gain(size, currency).removeprefix("+")


def format_number(amount: Decimal) -> str:
    """Returns a price or a quantity to seven significant digits."""
    return _digits(amount, PRICE_DIGITS)


def format_price_pair(entry: Decimal | None, exit_: Decimal | None) -> str:
    """Returns two prices as short as they can be read: the difference has two digits, and no price more than seven.

    >>> pair = lambda a, b: format_price_pair(Decimal(a), Decimal(b))
    >>> pair("4477.31", "4541.02"), pair("1.084523", "1.086104"), pair("65200", "65940"), pair("0.00001234", "0.00001311")
    ('4477→4541', '1.0845→1.0861', '65200→65940', '0.00001234→0.00001311')
    >>> pair("1.084523", "1.084561"), format_price_pair(Decimal("3.5"), None)
    ('1.084523→1.084561', '3.5→?')
    """
    known = [price for price in (entry, exit_) if price is not None]
    if not known:
        return "?→?"
    moved = abs(entry - exit_) if entry is not None and exit_ is not None else ZERO
    largest = max((abs(price) for price in known), default=ZERO)
    if not largest:
        return "→".join("?" if price is None else "0" for price in (entry, exit_))
    places = max(SHORT_PRICE_DIGITS - 1 - largest.adjusted(), 1 - moved.adjusted() if moved else 0)
    places = max(min(places, PRICE_DIGITS - 1 - largest.adjusted()), 0)
    return "→".join("?" if price is None else _trimmed(f"{_rounded(price, places):f}") for price in (entry, exit_))


def format_percent(number: Decimal | float) -> str:
    """Returns a percentage to one place; below a tenth, to two.

    >>> (format_percent(Decimal("1.136")), format_percent(Decimal("-0.5")), format_percent(-0.04),
    ...  format_percent(Decimal("-0.001")), format_percent(12.04))
    ('1.1', '-0.5', '-0.04', '0.0', '12.0')
    """
    exact = number if isinstance(number, Decimal) else Decimal(repr(number))
    small = _rounded(exact, 2)
    shown = small if 0 < abs(small) < Decimal("0.1") else _rounded(exact, 1)
    return f"{abs(shown) if shown == 0 else shown:,f}"


def signed_figure(value: float, sign: str = "+") -> str:
    """Returns a number to two places with its sign; a value that rounds to zero has none.

    >>> signed_figure(-0.384), signed_figure(0.001), signed_figure(1234.5), signed_figure(0.9, "")
    ('-0.38', '0.00', '+1,234.50', '0.90')
    >>> signed_figure(-0.0049)
    '0.00'
    """
    return "0.00" if abs(value) < 0.005 else f"{value:{sign},.2f}"


def format_mean_r(r: float) -> str:
    """Returns a mean in R, to two places.

    >>> format_mean_r(0.2149), format_mean_r(-0.001)
    ('+0.21R', '0.00R')
    """
    shown = f"{r:+,.2f}"
    return "0.00R" if shown in ("+0.00", "-0.00") else f"{shown}R"


def format_duration(minutes: float) -> str:
    """Returns a holding time: minutes up to 999, then hours, from 100 hours on days.

    >>> format_duration(150.4), format_duration(999), format_duration(1000), format_duration(6000), format_duration(-3)
    ('150m', '999m', '16.7h', '4.2d', '0m')
    """
    whole = max(round(minutes), 0)
    if whole <= 999:
        return f"{whole}m"
    return f"{whole / 60:.1f}h" if whole < 6000 else f"{whole / 1440:,.1f}d"


def format_short_duration(minutes: float) -> str:
    """Returns a holding time in one whole number: minutes below two hours, hours below four days, then days.

    >>> [format_short_duration(minutes) for minutes in (45.2, 119, 150, 4440, 6240, -3)]
    ['45m', '119m', '3h', '74h', '4d', '0m']
    """
    whole = max(round(minutes), 0)
    if whole < 120:
        return f"{whole}m"
    return f"{int(whole / 60 + 0.5)}h" if whole < 5_760 else f"{int(whole / 1440 + 0.5)}d"


def format_minute(moment: datetime) -> str:
    """Returns a time in UTC, cut to the minute.

    >>> format_minute(datetime(2026, 6, 4, 10, 0, 59, tzinfo=UTC))
    '2026-06-04T10:00'
    """
    return moment.astimezone(UTC).isoformat()[:16]


def format_span(start: datetime, end: datetime) -> str:
    """Returns a time span; the second date is written only if it differs.

    >>> at = datetime(2026, 6, 4, 23, 0, tzinfo=UTC)
    >>> format_span(at, at + 30 * MINUTE), format_span(at, at + 90 * MINUTE)
    ('2026-06-04T23:00 → 23:30', '2026-06-04T23:00 → 2026-06-05T00:30')
    """
    first, last = format_minute(start), format_minute(end)
    return f"{first} → {last[11:] if first[:10] == last[:10] else last}"


def format_count(n: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> format_count(1, "trade"), format_count(3, "trade"), format_count(1668, "entry")
    ('1 trade', '3 trades', '1,668 entries')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else many}"


def _signed(amount: Decimal, spelled: str, currency: str, plus: str) -> str:
    unit = "$" if currency == "USD" else f"{currency} "
    sign = "" if not spelled.strip("0.,") else "-" if amount < 0 else plus
    return f"{sign}{unit}{spelled}"


def _size(amount: Decimal, whole_from: int) -> str:
    if amount >= whole_from:
        return f"{_rounded(amount, 0):,f}"
    if 0 < amount < Decimal("0.01"):
        return _digits(amount, 2)
    return f"{_rounded(amount, 2):,f}".removesuffix(".00")


def _digits(amount: Decimal, n: int) -> str:
    """Returns a number to n significant digits, with all its whole digits and no trailing zeros."""
    if not amount:
        return "0"
    return _trimmed(f"{_rounded(amount, max(n - 1 - amount.adjusted(), 0)):,f}")


def _trimmed(shown: str) -> str:
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _rounded(amount: Decimal, places: int) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN, context=MONEY)
