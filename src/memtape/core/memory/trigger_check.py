"""Triggers that can never hold, or that always hold: found when a plan is made, and said in plain words.

Every field has a domain: an hour runs from 0 to 23, a session is one of a few labels, a price may be any number. Within a domain
only finitely many values matter, because a condition can tell two numbers apart only at the numbers that it names. So each field
is replaced by those few values, and the search asks whether any choice of them makes the trigger TRUE, or FALSE.

The fields count as independent of each other, apart from the two streaks, and a field may always be missing. Both make more
outcomes possible than there are, so a trigger may escape the check, but no warning is wrong. A search that becomes too long ends
without a warning.

>>> from memtape.core.memory.predicate import read_predicate
>>> late, early = {"field": "hour_utc", "op": "gt", "value": 20}, {"field": "hour_utc", "op": "lt", "value": 10}
>>> trigger_warning(read_predicate({"all": [late, early]}))
'can never hold: its conditions exclude each other'
>>> trigger_warning(read_predicate({"hour_utc": 25}))
'can never hold: hour_utc is never 25, it runs from 0 to 23'
>>> trigger_warning(read_predicate({"field": "hour_utc", "op": "ge", "value": 0}))
'always holds: it is true at every tick'
>>> trigger_warning(read_predicate({"regime": "ranging"})) is None
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import get_args

from memtape.core.calendar import EVENT_HORIZON, MINUTE
from memtape.core.event_kinds import Impact
from memtape.core.labels import LABEL_FIELDS, VOCABULARIES, fold_field
from memtape.core.memory.predicate import (
    FIELDS,
    AllOf,
    AnyOf,
    Condition,
    Not,
    Predicate,
    Scalar,
    condition_truth,
    conditions,
)
from memtape.core.value_class import dataclass

SHARES = frozenset({"drawdown_pct", "drawdown_state", "confidence", "risk_appetite"})  # usually between 0 and 1
LOOKS_BACK = frozenset({"changed", "crosses_above", "crosses_below"})
MAX_PAIRS = 4_000  # values of one field, now and before, that are compared
MAX_BRANCHES = 20_000  # choices between the parts of `any`
_DAY_MINUTES = EVENT_HORIZON / MINUTE
# Two texts that nobody writes: they stand for all the texts that a trigger does not name.
_OTHERS = ("\x00one", "\x00another")


@dataclass(frozen=True, slots=True)
class NumberDomain:
    """The numbers that a field may have."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    above_low: bool = False  # True: `low` itself is not among them

    def __contains__(self, value: float) -> bool:
        if self.whole and value != math.floor(value):
            return False
        return (value > self.low if self.above_low else value >= self.low) and value <= self.high

    def words(self) -> str:
        """Returns the domain in words."""
        return f"it runs from {self.low:g} {'upwards' if self.high == math.inf else f'to {self.high:g}'}"


_ANY_NUMBER, _COUNT, _LENGTH = NumberDomain(), NumberDomain(0, whole=True), NumberDomain(0)
NUMBER_DOMAINS: Mapping[str, NumberDomain] = {
    "hour_utc": NumberDomain(0, 23, whole=True), "day_of_week": NumberDomain(0, 6, whole=True),
    "atr_d1": _LENGTH, "atr_h1": _LENGTH, "atr_m5": _LENGTH, "atr_ratio_h1_d1": _LENGTH,
    # A loss may be larger than the equity that is assumed where nobody stated one.
    "drawdown_pct": _LENGTH,
    "drawdown_state": NumberDomain(0, 1), "confidence": NumberDomain(0, 1), "risk_appetite": NumberDomain(0, 1),
    "consecutive_wins": _COUNT, "consecutive_losses": _COUNT, "open_positions": _COUNT,
    "minutes_to_event": NumberDomain(0, _DAY_MINUTES, above_low=True), "minutes_since_event": NumberDomain(0, _DAY_MINUTES),
}  # fmt: skip


# The last trade either won or did not: one of the two streaks is always zero.
STREAKS = ("consecutive_wins", "consecutive_losses")


class _SearchTooLong(Exception):
    """The search was given up: nothing is known about the trigger."""


# The values that a field may have now and at the tick before. None is missing.
_Pair = tuple[object, object]


def trigger_warning(predicate: Predicate, labels: Mapping[str, Iterable[str]] | None = None) -> str | None:
    """Returns why a trigger can never hold or always holds, in words; None if neither is certain.

    `labels` are the labels in use by field (regime, volatility_regime, session), beside those of the vocabularies.
    """
    try:
        search = _Search(predicate, labels or {})
        if not search.can_be(predicate, truth=True):
            return f"can never hold: {_reason(predicate, search)}"
        if not search.can_be(predicate, truth=False):
            known = "" if _always_known(predicate) else ", if its fields are known"
            return f"always holds: it is true at every tick{known}"
    except _SearchTooLong:
        return None
    return None


def share_warnings(predicate: Predicate) -> list[str]:
    """Returns a warning for each share that a trigger compares with a number above 1: most likely a percentage is meant.

    >>> from memtape.core.memory.predicate import read_predicate
    >>> share_warnings(read_predicate({"field": "drawdown_pct", "op": "gt", "value": 15}))
    ['compares drawdown_pct with 15, and it is a share: write 0.15 for 15 %']
    """
    found: list[str] = []
    for condition in conditions(predicate):
        numbers = [value for value in _named(condition) if isinstance(value, float | int)] if condition.field in SHARES else []
        found += [
            f"compares {condition.field} with {number:g}, and it is a share: write {number / 100:g} for {number:g} %"
            for number in numbers
            if number > 1
        ]
    return list(dict.fromkeys(found))


def unknown_labels(predicate: Predicate) -> list[str]:
    """Returns the fields for which a trigger names a label that no vocabulary has."""
    labelled = [condition for condition in conditions(predicate) if condition.field in LABEL_FIELDS]
    return sorted({each.field for each in labelled if not set(_texts(each)) <= set(_vocabulary(each.field))})


# --- the values that matter ---------------------------------------------------------------------------------------------


def _vocabulary(name: str) -> tuple[str, ...]:
    return tuple(VOCABULARIES[LABEL_FIELDS[name]])


def _domain_of_texts(name: str, labels: Mapping[str, Iterable[str]]) -> tuple[str, ...] | None:
    """Returns every text that a field may have; None if it may have any."""
    if name == "event_impact":
        return get_args(Impact)
    if name not in LABEL_FIELDS:
        return None
    own = () if name == "side" else (str(fold_field(name, label)) for label in labels.get(name, ()))
    return tuple(dict.fromkeys((*_vocabulary(name), *own)))


def _texts(condition: Condition) -> tuple[str, ...]:
    return tuple(value for value in _named(condition) if isinstance(value, str))


def _named(condition: Condition) -> tuple[Scalar, ...]:
    """Returns the values that a condition compares with."""
    if condition.op == "exists" or condition.value is None:
        return ()
    named = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    return tuple(fold_field(condition.field, value) for value in named)


def _numbers(name: str, named: Sequence[Scalar]) -> list[float]:
    """Returns numbers of the domain: each one named, and its two neighbours on either side.

    So every stretch below, between and above the numbers named has two values in it: two, for a field that changed within one.
    """
    domain = NUMBER_DOMAINS.get(name, _ANY_NUMBER)
    ends = [end for end in (domain.low, domain.high) if math.isfinite(end)]
    found: set[float] = set()
    for mark in (*ends, *(value for value in named if not isinstance(value, str | bool)), 0):
        found |= {mark, *_neighbours(mark, domain.whole)}
    return sorted(value for value in found if math.isfinite(value) and value in domain)


def _neighbours(mark: float, whole: bool) -> Iterator[float]:
    if whole:
        yield from (math.floor(mark) + step for step in (-2, -1, 0, 1, 2))
        return
    for end in (-math.inf, math.inf):
        first = math.nextafter(mark, end)
        yield from (first, math.nextafter(first, end))


def _values(name: str, asked: Sequence[Condition], labels: Mapping[str, Iterable[str]]) -> list[object]:
    named = [value for condition in asked for value in _named(condition)]
    kind = FIELDS.get(name)
    if kind == "flag":
        return [True, False]
    if kind == "number":
        return list(_numbers(name, named))
    texts, domain = [str(value) for value in named], _domain_of_texts(name, labels)
    if domain is None:
        return [*dict.fromkeys(texts), *_OTHERS]
    return list(domain)


# --- the search ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    predicate: Predicate
    labels: Mapping[str, Iterable[str]]
    pairs: dict[str, list[_Pair]] = field(init=False)
    branches: int = 0

    def __post_init__(self) -> None:
        asked: dict[str, list[Condition]] = {}
        for condition in conditions(self.predicate):
            asked.setdefault(condition.field, []).append(condition)
        self.pairs = {name: self._pairs(name, each) for name, each in asked.items()}

    def _pairs(self, name: str, asked: Sequence[Condition]) -> list[_Pair]:
        values: list[object] = [None, *_values(name, asked, self.labels)]
        before = values if any(condition.op in LOOKS_BACK for condition in asked) else [None]
        if len(values) * len(before) > MAX_PAIRS:
            raise _SearchTooLong
        return [(now, then) for now in values for then in before]

    def can_be(self, predicate: Predicate, truth: bool) -> bool:
        """Returns True if some values of the fields give the predicate this truth."""
        return self._reachable([(predicate, truth)], self.pairs)

    def _reachable(self, goals: Sequence[tuple[Predicate, bool]], pairs: Mapping[str, list[_Pair]]) -> bool:
        """Returns True if all goals can be reached together. Each condition narrows down the values of its field."""
        self.branches += 1
        if self.branches > MAX_BRANCHES:
            raise _SearchTooLong
        waiting, choices = list(goals), list[list[tuple[Predicate, bool]]]()
        left = dict(pairs)
        while waiting:
            predicate, truth = waiting.pop()
            if isinstance(predicate, Condition):
                kept = [pair for pair in left[predicate.field] if condition_truth(predicate, *pair) is truth]
                if not kept:
                    return False
                left[predicate.field] = kept
            elif isinstance(predicate, Not):
                waiting.append((predicate.part, not truth))
            elif isinstance(predicate, AllOf) is truth:
                # All parts must have the truth: an `all` that is true, an `any` that is false.
                waiting += [(part, truth) for part in predicate.parts]
            else:
                choices.append([(part, truth) for part in predicate.parts])
        if not choices:
            return not all(name in left and all(now for now, _ in left[name]) for name in STREAKS)
        first, *rest = sorted(choices, key=len)
        others = [_joined(choice) for choice in rest]
        return any(self._reachable([goal, *others], left) for goal in first)


def _joined(choice: Sequence[tuple[Predicate, bool]]) -> tuple[Predicate, bool]:
    """Returns a choice between parts as one goal again."""
    parts, truth = tuple(part for part, _ in choice), choice[0][1]
    return (AnyOf(parts) if truth else AllOf(parts)), truth


# --- words --------------------------------------------------------------------------------------------------------------


def _reason(predicate: Predicate, search: _Search) -> str:
    """Returns what makes a trigger impossible: conditions that are impossible by themselves, else the combination."""
    alone = [text for condition in _required(predicate) if (text := _impossible(condition, search)) is not None]
    return "; ".join(dict.fromkeys(alone)) or "its conditions exclude each other"


def _required(predicate: Predicate) -> Iterator[Condition]:
    """Yields the conditions outside any negation: those that make a trigger impossible by being impossible themselves."""
    if isinstance(predicate, Condition):
        yield predicate
    elif isinstance(predicate, AllOf | AnyOf):
        for part in predicate.parts:
            yield from _required(part)


def _impossible(condition: Condition, search: _Search) -> str | None:
    """Returns why a condition can never hold by itself; None if it can."""
    name = condition.field
    if any(condition_truth(condition, *pair) is True for pair in search.pairs[name]):
        return None
    domain = _domain_of_texts(name, search.labels)
    if domain is not None and (texts := _texts(condition)):
        unknown = " or ".join(f"'{text}'" for text in texts if text not in domain)
        return f"no {name} is called {unknown}; known are {', '.join(domain)}"
    if (numbers := NUMBER_DOMAINS.get(name)) is not None:
        named = [value for value in _named(condition) if isinstance(value, float | int)]
        steps = " in whole numbers" if numbers.whole and any(value != math.floor(value) for value in named) else ""
        return f"{name} is never {_comparison(condition)}, {numbers.words()}{steps}"
    return None


_COMPARISONS: Mapping[str, str] = {
    "eq": "", "lt": "below ", "le": "at most ", "gt": "above ", "ge": "at least ", "crosses_above": "above ",
    "crosses_below": "below ",
}  # fmt: skip


def _comparison(condition: Condition) -> str:
    values = [f"{value:g}" if isinstance(value, float | int) else value for value in _named(condition)]
    if condition.op == "between":
        return f"between {values[0]} and {values[1]}"
    return f"{_COMPARISONS.get(condition.op, '')}{' or '.join(values)}"


def _always_known(predicate: Predicate) -> bool:
    """Returns True if the clock alone decides, so that no field can be missing."""
    return all(condition.field in ("hour_utc", "day_of_week", "weekend") for condition in conditions(predicate))
