"""Beliefs in words: the sentence with its figures, and the reason of a status.

>>> key = CellKey("VB", "XAUUSD", (("session", "london"),))
>>> belief_sentence(key, 21, 30, 58, 120)
'VB on XAUUSD wins more often in London: 21 of 30 (70 %, 90 % interval 55-82 %) against 48 % of the other 120 trades.'
>>> longs = CellKey("VB", "XAUUSD", (("regime", "trending_up"), ("side", "long")))
>>> print(belief_sentence(longs, 4, 30, 58, 120, left_out=True).replace(": ", ":\\n"))
VB longs on XAUUSD win less often in a trending-up market:
4 of 30 (13 %, 90 % interval 6-27 %) against 48 % of the other 120 trades that no other belief covers.
>>> belief_sentence(key, 51, 80, 353, 550)
'VB on XAUUSD wins about as often in London: 51 of 80 (64 %, 90 % interval 55-72 %) against 64 % of the other 550 trades.'
>>> cell_phrase(key), cell_phrase(longs)
('VB on XAUUSD in London', 'VB longs on XAUUSD in a trending-up market')

An agent without a named strategy has the strategy `main`, a name that says nothing:

>>> belief_sentence(CellKey("main", "XAUUSD", (("side", "short"),)), 21, 30, 58, 120).partition(":")[0]
'Shorts on XAUUSD win more often'
>>> belief_sentence(CellKey("main", "XAUUSD", (("session", "london"),)), 21, 30, 58, 120).partition(":")[0]
'Trades on XAUUSD win more often in London'
"""

from __future__ import annotations

from collections.abc import Mapping

from memtape.core.memory.belief_cells import MIN_COMPARED_TRADES, CellKey
from memtape.core.memory.beliefs import BELIEVED_FROM_TRADES, wilson_interval

UNNAMED_STRATEGY = "main"
SESSION_PHRASES: Mapping[str, str] = {
    "asia": "in Asia", "london": "in London", "newyork": "in New York", "overlap": "in the London and New York overlap",
}  # fmt: skip
FIELD_NAMES: Mapping[str, str] = {
    "regime": "regime", "volatility_regime": "volatility", "session": "session", "side": "side",
}  # fmt: skip


def belief_sentence(key: CellKey, wins: int, n: int, base_wins: int, base_n: int, left_out: bool = False) -> str:
    """Returns an induced belief as a sentence. `left_out`: the base is without the trades of other beliefs."""
    who, where, plural = _parts(key)
    if key.strategy == UNNAMED_STRATEGY:
        who = f"{who[0].upper()}{who[1:]}"
    place = f" {where}" if where else ""
    if base_n < MIN_COMPARED_TRADES:
        return f"{who} won {_counted(wins, n)}{place}; {too_few(base_n, left_out)}."
    rate, base_rate = wins / n, base_wins / base_n
    # "Less often: 64 % against 64 %" would contradict itself.
    alike = "as often" if rate == base_rate else "about as often" if percent(rate) == percent(base_rate) else ""
    often = alike or ("more often" if rate > base_rate else "less often")
    others = f"the other {base_n} trades{' that no other belief covers' if left_out else ''}"
    return f"{who} win{'' if plural else 's'} {often}{place}: {_counted(wins, n)} against {percent(base_rate)} of {others}."


def stated_sentence(sentence: str, wins: int, n: int, base_wins: int, base_n: int) -> str:
    """Returns a belief that its owner states, with its figures.

    >>> stated_sentence("Breakouts work in a trend.", 30, 40, 30, 40)
    'Breakouts work in a trend: confirmed by 30 of 40 trades (75 %, 90 % interval 62-84 %) against 75 % of the 40 other trades.'
    >>> stated_sentence("Ranges pay", 1, 1, 0, 1)
    'Ranges pay: confirmed by 1 of 1 trade (100 %, 90 % interval 27-100 %); 1 other trade is too few to compare with.'
    """
    said = sentence.rstrip(". ")
    if not n:
        return f"{said}: not tested yet."
    confirmed = f"{said}: confirmed by {_counted(wins, n, of_trades=True)}"
    if base_n < MIN_COMPARED_TRADES:
        return f"{confirmed}; {too_few(base_n)}."
    return f"{confirmed} against {percent(base_wins / base_n)} of the {base_n} other trades."


def cell_phrase(key: CellKey) -> str:
    """Returns a cell as a phrase."""
    who, where, _ = _parts(key)
    return f"{who} {where}" if where else who


def too_few(base_n: int, left_out: bool = False) -> str:
    """Returns that there is nothing to compare with.

    >>> too_few(0), too_few(1)
    ('there are no other trades to compare with', '1 other trade is too few to compare with')
    >>> too_few(0, left_out=True), too_few(9, left_out=True)
    ('the trades outside it belong to another belief', 'of the trades outside it, all but 9 belong to another belief')
    """
    if left_out:
        return f"{f'of the trades outside it, all but {base_n}' if base_n else 'the trades outside it'} belong to another belief"
    if base_n == 0:
        return "there are no other trades to compare with"
    return f"{trade_count(base_n, 'other ')} {'is' if base_n == 1 else 'are'} too few to compare with"


def trade_count(n: int, kind: str = "") -> str:
    """Returns a number of trades in words: `1 trade`, `12 other trades`."""
    return f"{n} {kind}trade{'' if n == 1 else 's'}"


def split_sentence(field: str, parts: Mapping[str, tuple[int, int]], base_wins: int, base_n: int) -> str:
    """Returns how a cell splits: its parts by label with wins and trades.

    >>> split_sentence("side", {"long": (40, 50), "short": (10, 50)}, 50, 100)
    'It splits by side: long wins 80 % of 50, short 20 % of 50; the other 100 trades win 50 %.'
    """
    first, *others = [(label.replace("_", " "), percent(wins / n), n) for label, (wins, n) in parts.items()]
    listed = [f"{first[0]} wins {first[1]} of {first[2]}", *(f"{label} {rate} of {n}" for label, rate, n in others)]
    return f"It splits by {FIELD_NAMES[field]}: {', '.join(listed)}; the other {base_n} trades win {percent(base_wins / base_n)}."


def chance_words(p_value: float, passes: bool, groups: int, kind: str = "group") -> str:
    """Returns how far chance explains a difference, and whether that is rare enough among all that were tested.

    >>> chance_words(0.0004, True, 12)
    'Chance alone gives a difference like this in 0.04 % of histories: rare enough with 12 groups tested.'
    >>> chance_words(0.05, False, 1, "stated belief")
    'Chance alone gives a difference like this in 5 % of histories: not rare enough with 1 stated belief tested.'
    >>> chance_words(0.999, False, 4)
    'Chance alone gives a difference like this in 100 % of histories: not rare enough with 4 groups tested.'
    """
    # Two digits of 99.9 would be written as 1e+02.
    share = "100" if p_value >= 0.995 else f"{100 * p_value:.2g}"
    often = "in less than 0.01 %" if p_value < 1e-4 else f"in {share} %"
    tested = f"{groups} {kind}{'' if groups == 1 else 's'} tested"
    return f"Chance alone gives a difference like this {often} of histories: {'' if passes else 'not '}rare enough with {tested}."


def needs_trades(n: int) -> str:
    """Returns what is missing to a belief with few trades.

    >>> needs_trades(1), needs_trades(29)
    ('1 trade so far; 30 are needed.', '29 trades so far; 30 are needed.')
    """
    return f"{trade_count(n)} so far; {BELIEVED_FROM_TRADES} are needed."


def percent(rate: float) -> str:
    """Returns a share as a percentage."""
    return f"{100 * rate:.0f} %"


def _parts(key: CellKey) -> tuple[str, str, bool]:
    """Returns who trades, in which conditions, and whether the subject is a plural."""
    labels = dict(key.conditions)
    side = labels.pop("side", None)
    where = " ".join(_condition(name, label) for name, label in labels.items())
    if key.strategy == UNNAMED_STRATEGY:
        return f"{f'{side}s' if side else 'trades'} on {key.symbol}", where, True
    who = f"{key.strategy} {side}s on {key.symbol}" if side else f"{key.strategy} on {key.symbol}"
    return who, where, side is not None


def _condition(name: str, label: str) -> str:
    if name == "session":
        return SESSION_PHRASES.get(label, f"in the {label} session")
    words = label.replace("_", "-")
    if name == "volatility_regime":
        return f"in {words} volatility"
    return f"in {'an' if words[:1].lower() in 'aeiou' and words else 'a'} {words} market"


def _counted(wins: int, n: int, of_trades: bool = False) -> str:
    low, high = wilson_interval(wins, n)
    counted = f"{wins} of {trade_count(n) if of_trades else n}"
    return f"{counted} ({percent(wins / n)}, 90 % interval {100 * low:.0f}-{percent(high)})"
