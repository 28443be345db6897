"""How a trade is written in one line of a brief, closed or open.

A closed trade is a short row: when it was entered, symbol, side, both prices, its result, how long it was held, the reason of the
entry in a few words, and the short id by which an answer cites it. The result is in R where the trade had a stop (or an ATR to
stand in for it), else in money. Nothing in a row depends on the present moment, so a row never changes while time passes. A skill
with `rows: seed` gets the longer form instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, localcontext

from memtape.core.brief.budget import BriefLine, Count, LinePriority, estimate_tokens
from memtape.core.brief.free_text import AGENT, OWN_REASON, few_words, fewer_words, quoted_words, tokens_with_words
from memtape.core.brief.inputs import OpenPosition, SourceRef
from memtape.core.brief.number_format import (
    format_duration,
    format_gain,
    format_money,
    format_number,
    format_percent,
    format_price_pair,
    format_rough_gain,
    format_short_duration,
    format_span,
)
from memtape.core.brief.sanitize import REASON_CHARS, quote_text, safe_name
from memtape.core.ledger.trades import Trade
from memtape.core.memory.episodes import NOT_TAUGHT
from memtape.core.memory.learn import tier_of_trade
from memtape.core.recall.explanations import r_phrase
from memtape.core.values import MONEY, ZERO

MINUTE = timedelta(minutes=1)
OWNERS_WORD = {"wrong_reason": "the owner: for another reason", "structural": "the owner: structural"}
SHORT_MARKS = {"claimed": "claimed", "inferred": "inferred", "unpriced": "price unknown"}
SHORT_OWNERS_WORD = {"wrong_reason": "owner: other reason", "structural": "owner: structural"}
MAX_ROW_TOKENS = 42  # of a row by the estimate, which may be a few tokens off: a row has at most 45
MAX_SYMBOL_CHARS = 24
SHORT_SYMBOL_CHARS = 12  # where the rest of a row leaves no room for more
MAX_POSITION_WORDS = 8
PLAIN_SYMBOL_CHARS = 8  # a longer symbol that only a model stated counts as its words
HUNDRED = Decimal(100)


def closed_trade_row(
    trades: Sequence[Trade], reference: str, above: Trade | None = None, count: Count = estimate_tokens
) -> BriefLine:
    """Returns the closed trades of one signal as a short row. The year stands where it differs from the row above."""
    trade = trades[0]
    year = "" if above is not None and above.entry_at.year == trade.entry_at.year else f"{trade.entry_at:%Y}-"
    symbol, name = symbol_text(trade.symbol, trade.quality == "claimed")
    held = "" if trade.exit_at is None else format_short_duration((trade.exit_at - trade.entry_at) / MINUTE)
    prices, result, marks = format_price_pair(trade.entry_price, trade.exit_price), result_text(trade), _short_marks(trade)
    if len(trades) > 1:
        # The exits differ, so the row has their number and the spread of their results instead.
        prices, result, held = "", results_text(trades), ""
    start = f"- {year}{trade.entry_at:%m-%d %H:%M}"

    def row(symbol: str, reason: str) -> str:
        quoted = f'"{reason}"' if reason else ""
        return _joined(start, symbol, trade.side, prices, result, held, marks, quoted, reference)

    def is_long(symbol: str, reason: str) -> bool:
        return tokens_with_words(row(symbol, reason), f"{symbol} {reason}", count) > MAX_ROW_TOKENS

    reason = few_words(trade.entry_reason or "")
    # A reason in a script that takes many tokens must not make the row longer than others.
    while reason and is_long(symbol, reason):
        reason = fewer_words(reason)
    # Then the holding time goes, the hour, the prices, and last the end of the symbol: many digits leave no room for them.
    if is_long(symbol, reason):
        held = ""
    if is_long(symbol, reason):
        start = f"- {year}{trade.entry_at:%m-%d}"
    if is_long(symbol, reason):
        prices = ""
    if is_long(symbol, reason):
        symbol = quote_text(trade.symbol, SHORT_SYMBOL_CHARS)
    author = AGENT if trade.quality == "claimed" else OWN_REASON
    free = (*((AGENT, name) for name in (name,) if name), *((author, words) for words in (reason,) if words))
    bare = row("?" if name else symbol, "")
    refs = tuple(ref for each in trades for ref in trade_refs(each))
    return BriefLine(row(symbol, reason), refs, LinePriority.RECENT, free=free, bare=bare)


def symbol_text(symbol: str, claimed: bool = False) -> tuple[str, str]:
    """Returns a symbol as a line shows it, and again if it counts as words of the model that claimed it.

    >>> symbol_text("XAUUSD"), symbol_text("BUY_EVERYTHING_NOW", claimed=True)
    (('XAUUSD', ''), ('"BUY_EVERYTHING_NOW"', '"BUY_EVERYTHING_NOW"'))
    """
    shown = safe_name(symbol)
    is_name = not shown.startswith('"') and len(shown) <= PLAIN_SYMBOL_CHARS
    if len(shown) > MAX_SYMBOL_CHARS or (claimed and not is_name and not shown.startswith('"')):
        shown = quote_text(symbol, MAX_SYMBOL_CHARS)
    return shown, "" if is_name or not claimed else shown


def short_symbol(symbol: str, claimed: bool) -> str:
    """Returns a symbol; a question mark if it counts as words of a model. The id of the line still says which trade it is.

    >>> short_symbol("TSLA230616C00265000", claimed=False), short_symbol("BUY_EVERYTHING_NOW", claimed=True)
    ('TSLA230616C00265000', '?')
    """
    shown, words = symbol_text(symbol, claimed)
    return "?" if words else shown


def result_text(trade: Trade) -> str:
    """Returns the result of a closed trade: in R, else in money, else as the move of its price."""
    if trade.pnl_r is not None:
        return _r_text(trade.pnl_r, trade.r_source).replace("(by ATR)", "by ATR")
    if trade.net_pnl_usd is not None:
        return format_rough_gain(trade.net_pnl_usd, trade.currency)
    if trade.entry_price and trade.exit_price is not None:
        sign = 1 if trade.side == "long" else -1
        return f"{sign * HUNDRED * (trade.exit_price - trade.entry_price) / abs(trade.entry_price):+.1f}%"
    return "outcome unknown"


def results_text(trades: Sequence[Trade]) -> str:
    """Returns the results of several trades of one signal: their number, the mean, the worst and the best."""
    rs = [trade.pnl_r for trade in trades if trade.pnl_r is not None]
    nets = [trade.net_pnl_usd for trade in trades if trade.net_pnl_usd is not None]
    in_r = len(rs) == len(trades)
    values = rs if in_r else nets
    if not values:
        return f"{len(trades)} trades, outcome unknown"
    with localcontext(MONEY):
        figures = sum(values, ZERO) / len(values), min(values), max(values)
    mean, worst, best = (r_phrase(float(r)) if in_r else format_rough_gain(r, trades[0].currency) for r in figures)
    by_atr = " by ATR" if in_r and trades[0].r_source == "atr_proxy" else ""
    if worst == best:
        return f"{len(trades)} trades: {mean}{by_atr} each"
    return f"{len(trades)} trades: mean {mean}{by_atr} ({worst} to {best})"


def _short_marks(trade: Trade) -> str:
    """Returns what qualifies the result, in as few words as possible."""
    marks = [
        "liquidated" if trade.liquidation_fills or trade.close_cause == "liquidation" else "", SHORT_MARKS.get(trade.quality, ""),
        "adopted" if trade.adopted else "",
        "excluded" if trade.teach in NOT_TAUGHT else SHORT_OWNERS_WORD.get(trade.teach, ""),
    ]  # fmt: skip
    text = ", ".join(mark for mark in marks if mark)
    return f"({text})" if text else ""


def closed_trade_line(trade: Trade) -> str:
    """Returns a closed trade in the longer form: times, symbol, side, size, prices, result, and the reason of the entry."""
    assert trade.exit_at is not None
    # A trade can have a result in R and none in money.
    unknown = "outcome unknown" if trade.pnl_r is None else ""
    amount = unknown if trade.net_pnl_usd is None else format_gain(trade.net_pnl_usd, trade.currency)
    percents = "" if trade.pnl_pct is None else f"({format_percent(trade.pnl_pct)}%)"
    return _joined(
        f"- {format_span(trade.entry_at, trade.exit_at)}",
        *_symbol_side_size_price(trade),
        f"→ {_price(trade.exit_price)}",
        amount,
        percents,
        _r_text(trade.pnl_r, trade.r_source),
        format_duration((trade.exit_at - trade.entry_at) / MINUTE),
        _excursions(trade),
        _marks(trade),
        _quoted_reason(trade.entry_reason),
    )


def open_position_line(position: OpenPosition, as_of: datetime, reference: str = "") -> BriefLine:
    """Returns an open position in one line: what it is, its result so far, holding time, stop, target, and reason."""
    trade = position.trade
    reason = quoted_words(trade.entry_reason or "", MAX_POSITION_WORDS)
    symbol, name = symbol_text(trade.symbol, trade.quality == "claimed")
    facts = _position_facts(position, as_of)
    author = AGENT if trade.quality == "claimed" else OWN_REASON
    free = (*((AGENT, name) for name in (name,) if name), *((author, words) for words in (reason,) if words))
    return BriefLine(
        _joined("-", symbol, facts, reason, reference), trade_refs(trade), free=free,
        bare=_joined("-", short_symbol(trade.symbol, trade.quality == "claimed"), facts, reference),
    )  # fmt: skip


def merged_lots(holding: Iterable[OpenPosition]) -> list[tuple[OpenPosition, ...]]:
    """Returns the open positions, with the lots of one symbol and side together if they have no stop or target of their own."""
    groups: dict[tuple[str, ...], list[OpenPosition]] = {}
    for position in holding:
        trade = position.trade
        alone = trade.stop_price is not None or trade.target_price is not None or trade.qty_open is None or not trade.entry_price
        key = (trade.symbol, trade.side, trade.quality, trade.id if alone else "")
        groups.setdefault(key, []).append(position)
    return [tuple(group) for group in groups.values()]


def open_lots_line(lots: Sequence[OpenPosition], as_of: datetime, reference: str = "") -> BriefLine:
    """Returns several lots of one position in one line: their number, size, average entry, result so far, and age."""
    trades = [lot.trade for lot in lots]
    first, held = trades[0], [(as_of - trade.entry_at) / MINUTE for trade in trades]
    with localcontext(MONEY):
        qty = sum((trade.qty_open or ZERO for trade in trades), ZERO)
        paid = sum(((trade.qty_open or ZERO) * (trade.entry_price or ZERO) for trade in trades), ZERO)
        sizes = [trade.entry_size_usd for trade in trades if trade.entry_size_usd is not None]
        gains = [lot.unrealized_usd for lot in lots if lot.unrealized_usd is not None]
        size = format_money(sum(sizes, ZERO), first.currency) if len(sizes) == len(lots) else ""
        gain = f"unrealised={format_gain(sum(gains, ZERO), first.currency)}" if len(gains) == len(lots) else ""
        price = f"@ {format_number(paid / qty)}" if qty else ""
    mark = "" if lots[0].mark is None else f"mark={format_number(lots[0].mark)}"
    ages = [format_duration(min(held)), format_duration(max(held))]
    age = f"held {' to '.join(dict.fromkeys(ages))}"
    symbol, name = symbol_text(first.symbol, first.quality == "claimed")
    facts = _joined(first.side, f"{len(lots)} entries", size, price, mark, gain, age, reference)
    return BriefLine(
        f"- {symbol} {facts}", tuple(ref for trade in trades for ref in trade_refs(trade)),
        free=((AGENT, name),) if name else (), bare=f"- {short_symbol(first.symbol, first.quality == 'claimed')} {facts}",
    )  # fmt: skip


def more_positions_line(held: Sequence[Sequence[OpenPosition]], references: Sequence[str]) -> BriefLine:
    """Returns positions without a stop or a target in one line: symbol, side, size and id of each."""
    listed = []
    for lots, reference in zip(held, references, strict=True):
        trade, size = lots[0].trade, size_of_lots(lots)
        symbol = short_symbol(trade.symbol, trade.quality == "claimed")
        listed.append(_joined(symbol, trade.side, format_money(size, trade.currency) if size else "", reference))
    refs = tuple(ref for lots in held for lot in lots for ref in trade_refs(lot.trade))
    return BriefLine(f"- {len(held)} more without a stop or target: {', '.join(listed)}", refs)


def size_of_lots(lots: Iterable[OpenPosition]) -> Decimal:
    """Returns what was paid for the lots of a position, as far as it is known."""
    with localcontext(MONEY):
        return sum((lot.trade.entry_size_usd for lot in lots if lot.trade.entry_size_usd is not None), ZERO)


def _position_facts(position: OpenPosition, as_of: datetime) -> str:
    trade, mark, unrealized = position.trade, position.mark, position.unrealized_usd
    risk = trade.initial_risk_usd
    return _joined(
        *_symbol_side_size_price(trade)[1:], "" if mark is None else f"mark={format_number(mark)}",
        "" if unrealized is None else f"unrealised={format_gain(unrealized, trade.currency)}",
        _r_text(unrealized / risk, trade.r_source) if unrealized is not None and risk else "",
        f"realised={format_gain(trade.realized_pnl_usd, trade.currency)}" if trade.realized_pnl_usd and trade.qty_exited else "",
        _excursions(trade), f"held {format_duration((as_of - trade.entry_at) / MINUTE)}",
        "" if trade.stop_price is None else f"stop={format_number(trade.stop_price)}",
        "" if trade.target_price is None else f"target={format_number(trade.target_price)}",
        _marks(trade, still_open=True),
    )  # fmt: skip


def trade_refs(trade: Trade) -> tuple[SourceRef, ...]:
    """Returns the trade as the source of its line."""
    return (SourceRef("trade", trade.id, tier_of_trade(trade)),)


def _symbol_side_size_price(trade: Trade) -> tuple[str, ...]:
    size = "" if trade.entry_size_usd is None else format_money(trade.entry_size_usd, trade.currency)
    return safe_name(trade.symbol), trade.side, size, f"@ {_price(trade.entry_price)}"


def _price(amount: Decimal | None) -> str:
    return "?" if amount is None else format_number(amount)


def _r_text(r: Decimal | None, source: str | None) -> str:
    return "" if r is None else f"{r_phrase(float(r))}{' (by ATR)' if source == 'atr_proxy' else ''}"


def _excursions(trade: Trade) -> str:
    if not trade.mfe_usd and not trade.mae_usd:
        return ""
    best = "" if trade.mfe_usd is None else f"MFE={format_rough_gain(trade.mfe_usd, trade.currency)}"
    worst = "" if trade.mae_usd is None else f"MAE={format_rough_gain(trade.mae_usd, trade.currency)}"
    return " / ".join(each for each in (best, worst) if each)


def _marks(trade: Trade, still_open: bool = False) -> str:
    """Returns what qualifies the numbers: how the trade ended, how certain they are, and the owner's label."""
    liquidated = "partly liquidated" if still_open else "liquidated"
    source = {"claimed": "claimed", "inferred": "inferred", "unpriced": "price unknown"}.get(trade.quality, "")
    left = ""
    if still_open and trade.qty_open is not None and trade.qty_exited and trade.qty_entered:
        left = f"{format_percent(100 * trade.qty_open / trade.qty_entered)} % still open"
    marks = [
        left, liquidated if trade.liquidation_fills or trade.close_cause == "liquidation" else "", source,
        "adopted" if trade.adopted else "",
        "excluded by the owner" if trade.teach in NOT_TAUGHT else OWNERS_WORD.get(trade.teach, ""),
    ]  # fmt: skip
    text = ", ".join(mark for mark in marks if mark)
    return f"({text})" if text else ""


def _quoted_reason(text: str | None) -> str:
    return quote_text(text, REASON_CHARS) if text else ""


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
