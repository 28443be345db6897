"""How a remembered trade is written in one line: what it was, how and when it ended, what was the same then, why it was entered.

>>> from datetime import UTC
>>> now, then = Situation(regime="ranging", session="overlap"), Situation(regime="ranging", session="london")
>>> alike_text(then, now)[0]
'in the same regime (ranging; London then, overlap now)'
>>> [outcome_words(r, money, "USD") for r, money in ((-1.1, None), (2.0, None), (None, -41.2), (0.0, None))]
['lost 1.1R', 'made 2R', 'lost $41', 'ended flat']
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from math import fsum
from typing import NamedTuple

from memtape.core.brief.budget import BriefLine, Count, estimate_tokens
from memtape.core.brief.free_text import AGENT, OWN_REASON, few_words, fewer_words, tokens_with_words
from memtape.core.brief.number_format import format_count, format_rough_gain
from memtape.core.brief.recalled_memories import SignalMemory
from memtape.core.brief.sanitize import quote_text, safe_name
from memtape.core.brief.trade_text import symbol_text
from memtape.core.labels import LABEL_FIELDS, VOCABULARIES
from memtape.core.memory.episodes import NOT_TAUGHT, Episode
from memtape.core.memory.outcome_units import OutcomeUnit
from memtape.core.observed import ANY, Situation
from memtape.core.recall.explanations import age_phrase, r_phrase, spoken_label

DAY = timedelta(days=1)
MAX_MEMORY_TOKENS = 42  # of a line by the estimate, which may be a few tokens off: a line has at most 45
LABELS = {"regime": "regime", "volatility_regime": "volatility", "session": "session"}
MAX_LABEL_CHARS = 24
FLAT_R = 0.05


def episode_line(
    memory: SignalMemory, now: Situation, as_of: datetime, *, reason: str, currency: str, claims_count: bool, reference: str,
    count: Count = estimate_tokens,
) -> BriefLine:  # fmt: skip
    """Returns the line of a remembered trade, its words counted as those of others, and the line without them."""
    episode = memory.episode
    symbol, name = symbol_text(episode.symbol, episode.claimed)
    alike, labels = alike_text(episode.situation, now)
    start = "Most similar loss: " if memory.far else ""
    end, marks = _deed(memory, as_of, currency, claims_count), _marks(memory, currency)
    quoted = few_words(reason)

    def line(symbol: str, alike: str, quoted: str) -> str:
        said = " ".join(part for part in (f"- {start}{symbol} {episode.side} {end}", alike) if part)
        facts = _with_marks(said, marks)
        return f'{facts}: "{quoted}" {reference}' if quoted else f"{facts} {reference}"

    def is_long() -> bool:
        return tokens_with_words(line(symbol, alike, quoted), f"{symbol} {quoted}", count) > MAX_MEMORY_TOKENS

    # The reason gives way first, then what was the same and what was not: the outcome stays.
    while quoted and is_long():
        quoted = fewer_words(quoted)
    if is_long():
        alike, labels = alike_text(episode.situation, now, values=False)
    if is_long():
        alike = ""
    author = AGENT if episode.claimed or episode.kind == "shadow" else OWN_REASON
    free = [(AGENT, words) for words in (name, *labels) if words] + ([(author, quoted)] if quoted else [])
    bare = line("?" if name else symbol, "", "")
    return BriefLine(line(symbol, alike, quoted), free=tuple(free), bare=bare)


def _deed(memory: SignalMemory, as_of: datetime, currency: str, claims_count: bool) -> str:
    """Returns what became of the trade, and when."""
    episode = memory.episode
    when = age_phrase(max((as_of - episode.exit_at) / DAY, 0.0))
    r, money = _outcome(episode, memory.unit)
    by_atr = " by ATR" if r is not None and episode.r_source == "atr_proxy" else ""
    words = f"{outcome_words(r, money, currency)}{by_atr}"
    if (signal := _signal_outcomes(memory)) is not None:
        own, mean = (money if r is None else r) or 0.0, signal.mean
        if own * mean > 0:
            several = outcome_words(*signal.split(mean), currency)
            words = f"{several}{by_atr}{'' if signal.low == signal.high else ' on average'}"
        else:
            words += f" in one of {format_count(len(memory.trades), 'trade')} at once"
    if episode.claimed and not claims_count:
        return f"{words}{_comma(when)} {when} as the agent claims, not confirmed"
    if episode.kind == "shadow":
        made = words.replace("lost", "have lost").replace("made", "have made").replace("ended", "have ended")
        return f"not taken {when} would {made}" if (r, money) != (None, None) else f"not taken {when}"
    return f"{words}{_comma(when)} {when}"


def _comma(when: str) -> str:
    """Returns a comma if the next word begins with a digit: `lost $24, 4 months ago`, but `lost $24 yesterday`."""
    return "," if when[:1].isdigit() else ""


def _outcome(episode: Episode, unit: OutcomeUnit) -> tuple[float | None, float | None]:
    """Returns the outcome in R or in money, whichever the unit of the answer is; one that the trade has, if it lacks that one."""
    if unit.source == "money" and episode.kind == "trade" and episode.pnl_usd is not None:
        return None, episode.pnl_usd
    r = unit.outcome(episode) if unit.source not in (None, "money") else episode.pnl_r
    if r is None and (episode.pnl_usd is None or episode.kind == "shadow"):
        r = episode.pnl_r
    return r, None if r is not None else episode.pnl_usd


class SignalOutcomes(NamedTuple):
    """The outcomes of all trades of a signal: in R, or in money."""

    in_r: bool
    mean: float
    low: float
    high: float

    def split(self, value: float) -> tuple[float | None, float | None]:
        """Returns a value as R and money, of which one is None."""
        return (value, None) if self.in_r else (None, value)

    def text(self, value: float, currency: str) -> str:
        """Returns a value with its sign."""
        return r_phrase(value) if self.in_r else format_rough_gain(Decimal(repr(value)), currency)


def _signal_outcomes(memory: SignalMemory) -> SignalOutcomes | None:
    """Returns the outcomes of a signal that had several trades, in what its line is told in; None if it had one.

    Recall places the trade first whose outcome is the best, or in warnings the worst. Shown for itself, it would stand for a
    signal that on the whole did otherwise.
    """
    r, money = _outcome(memory.episode, memory.unit)
    if len(memory.trades) < 2 or (r, money) == (None, None):
        return None
    told = [_outcome(episode, memory.unit) for episode in memory.trades]
    values = [value for each in told if (value := each[0 if r is not None else 1]) is not None]
    return SignalOutcomes(r is not None, fsum(values) / len(values), min(values), max(values)) if len(values) > 1 else None


def _signal_marks(memory: SignalMemory, currency: str) -> str:
    """Returns how many trades a signal had, and what its line does not say of their outcomes."""
    if (signal := _signal_outcomes(memory)) is None:
        n = max(memory.n, len(memory.trades))
        return f"{format_count(n, 'trade')} at once" if n > 1 else ""
    r, money = _outcome(memory.episode, memory.unit)
    if ((money if r is None else r) or 0.0) * signal.mean <= 0:
        return f"mean {signal.text(signal.mean, currency)}"
    at_once = f"{format_count(len(memory.trades), 'trade')} at once"
    low, high = signal.text(signal.low, currency), signal.text(signal.high, currency)
    return at_once if low == high else f"{at_once}, {low} to {high}"


def _marks(memory: SignalMemory, currency: str) -> str:
    marks = [
        _signal_marks(memory, currency), "claimed" if memory.episode.claimed else "",
        "excluded by the owner" if memory.episode.teach in NOT_TAUGHT else "",
    ]  # fmt: skip
    return "; ".join(mark for mark in marks if mark)


def _with_marks(facts: str, marks: str) -> str:
    """Returns the facts with what qualifies them, in one pair of brackets."""
    if not marks:
        return facts
    return f"{facts[:-1]}; {marks})" if facts.endswith(")") else f"{facts} ({marks})"


def outcome_words(r: float | None, money: float | None, currency: str) -> str:
    """Returns what a trade made or lost: in R if that is known, else in money."""
    if r is not None:
        size = f"{abs(r):.1f}".removesuffix(".0") + "R"
        return "ended flat" if abs(r) < FLAT_R else f"lost {size}" if r < 0 else f"made {size}"
    if money is not None:
        amount = format_rough_gain(abs(Decimal(repr(money))), currency).removeprefix("+")
        return "ended flat" if not money else f"lost {amount}" if money < 0 else f"made {amount}"
    return "ended, outcome unknown"


def alike_text(then: Situation, now: Situation, values: bool = True) -> tuple[str, list[str]]:
    """Returns which labels are the same and which differ, and the labels among them that are no plain words."""
    known = [(name, getattr(then, name), getattr(now, name)) for name in LABELS]
    known = [(name, a, b) for name, a, b in known if a is not None and b is not None]
    same = [name for name, a, b in known if a == b or ANY in (a, b)]
    free: list[str] = []
    inside: list[str] = []
    for name, a, b in known:
        if name in same and name != "regime":
            continue
        shown = [label_text(name, value) for value in ((a,) if name in same else (a, b))]
        free += [words for _, words in shown if words]
        unit = " volatility" if name == "volatility_regime" else ""
        inside.append(shown[0][0] if name in same else f"{shown[0][0]}{unit} then, {shown[1][0]} now")
    if len(same) == len(LABELS):
        # The evidence names the situation.
        return "in the same situation", []
    text = f"in the same {_listed([LABELS[name] for name in same])}" if same else ""
    if not values or not inside:
        return text, []
    return f"{text} ({'; '.join(inside)})".strip(), free


@cache
def _vocabulary_words(name: str) -> frozenset[str]:
    """The words that the known labels of a field are made of: `trending` is one of them, though no label by itself."""
    return frozenset(word for label in VOCABULARIES[LABEL_FIELDS[name]] for word in label.split("_"))


def label_text(name: str, label: str) -> tuple[str, str]:
    """Returns a label as it is read, and again if it is no plain word but something that somebody wrote."""
    if name in LABELS:
        # Any other label may be a sentence in disguise: `ignore_all_rules` would be read as three words.
        if set(label.split("_")) <= _vocabulary_words(name):
            return spoken_label(name, label).removesuffix(" volatility"), ""
    elif len(label) <= MAX_LABEL_CHARS and safe_name(label) == label:
        return label, ""
    quoted = quote_text(label, MAX_LABEL_CHARS)
    return quoted, quoted


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
