"""What an account loses on: the groups of closed trades that lost money, the worst first, each with a verdict against chance.

Trades are grouped by what was known at their entry: symbol, side, session, hour, weekday, and setup (tag or strategy). Hours and
weekdays are in UTC. The money of a group is the exact sum of the ledger; its mean outcome is in the one unit of the answer. A
group without any money, because claims state only their R, lost if the sum of its R is below zero.

The verdict compares a group with the other trades, by the same tests as lessons (`candidates`): a group that loses no more than
the rest says nothing about the group. Groups that cannot be tested because they have too few trades are counted and not listed. A
group of nearly all trades is not listed either. One that has mostly the same trades as another one on the list stands apart, for
who asks for one kind of group.

That no group is worse than the rest does not mean that the losses are luck: where all trades together lose, every group does. So
the answer says it where the 90 % interval of the mean of all trades is below zero.

>>> verdict_text("luck", 0.341, 41), verdict_text("worse", 0.004, 41)
('could be luck: as far off in 34 % of shuffles', 'worse than luck explains (p 0.4 %, 41 groups tested)')
>>> verdict_text("rest", 0.7, 41), verdict_text("same", 1.0, 41, "12-16 UTC")
('no worse than the other trades', 'mostly the same trades as 12-16 UTC')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Literal

from memtape.core.brief.number_format import signed_figure
from memtape.core.brief.sanitize import quote_text, safe_name
from memtape.core.lessons.candidates import MIN_TRADING_DAYS, find_candidates, tested_count
from memtape.core.lessons.reflection import Candidate
from memtape.core.lessons.trade_groups import (
    ALIKE_SHARE,
    HOUR,
    MIN_GROUP_TRADES,
    SESSION,
    SIDE,
    SYMBOL,
    TAG,
    WEEKDAY,
    GroupCondition,
    label_phrase,
)
from memtape.core.memory.episodes import Episode
from memtape.core.memory.outcome_units import OutcomeUnit, choose_unit
from memtape.core.statistics import mean
from memtape.core.value_class import dataclass
from memtape.core.values import MONEY

Verdict = Literal["worse", "luck", "rest", "same"]
GroupField = Literal["symbol", "side", "session", "hour", "weekday", "tag", "strategy"]
CONDITIONS: tuple[GroupCondition, ...] = (SYMBOL, SIDE, SESSION, HOUR, WEEKDAY, TAG)
# A strategy is tested as if it were a tag. No tag begins with a control character.
STRATEGY_MARK = "\x1f"
MIN_LISTED_TRADES = MIN_GROUP_TRADES
# Two groups that divide so many of the trades divide all: the owner's labels may keep single trades out of a test.
DIVIDED_SHARE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class LosingGroup:
    """Trades that have something in common and lost money together."""

    field: GroupField
    value: str
    label: str  # in words
    n: int
    net_usd: Decimal | None  # None: no trade of the group has a result in money
    mean_r: float | None  # in the unit of the answer
    n_r: int  # trades with an outcome in that unit
    verdict: Verdict
    p_value: float
    said: str  # the verdict in words
    same_as: str  # another group with mostly the same trades; empty: none
    trades: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What an account loses on, with what it was compared with."""

    unit: OutcomeUnit
    n: int  # closed trades with a known result
    net_usd: Decimal | None  # of all of them; None: none has a result in money
    mean_r: float | None
    groups: tuple[LosingGroup, ...]  # the worst first
    tested: int  # groups and other patterns that were tested together
    too_small: int  # losing groups with too few trades to tell
    source: str = ""  # who reported the outcomes, in words
    repeats: tuple[LosingGroup, ...] = ()  # those with mostly the same trades as one of `groups`
    everything: Candidate | None = None  # all the trades that were tested, together; None: too few of them


def find_losses(episodes: Sequence[Episode], nets: Mapping[str, Decimal | None], *, claims_count: bool) -> Losses:
    """Returns the groups that lost money. `nets` are the results of closed trades by id, from the ledger.

    >>> find_losses([], {}, claims_count=True).groups
    ()
    """
    trades = [e for e in episodes if e.kind == "trade" and e.teaches and (claims_count or not e.claimed)]
    unit = choose_unit(trades, claims_count)
    known = [e for e in trades if nets.get(e.id) is not None or (unit.source != "money" and unit.outcome(e) is not None)]
    marked = [e._replace(tags=(*e.tags, f"{STRATEGY_MARK}{e.strategy}")) for e in trades]
    candidates = find_candidates(marked, claims_count=claims_count)
    tests, tested = _Tests(candidates, marked), tested_count(candidates)
    groups, too_small = list[LosingGroup](), 0
    for field, value, inside in _groups(known):
        ids = tuple(e.id for e in inside)
        net = _total(nets, ids)
        outcomes = [r for e in inside if (r := unit.outcome(e)) is not None]
        has_lost = net < 0 if net is not None else sum(outcomes) < 0
        if not has_lost or len(known) - len(inside) < MIN_LISTED_TRADES <= len(inside):
            continue
        found = tests.of(field, value, set(ids)) if len(inside) >= MIN_LISTED_TRADES else None
        if found is None:
            too_small += 1
            continue
        verdict, p_value, other = found
        groups.append(LosingGroup(
            field=field, value=value, label=group_label(field, value), n=len(inside), net_usd=net, n_r=len(outcomes),
            mean_r=mean(outcomes) if outcomes else None, verdict=verdict, p_value=p_value,
            said=verdict_text(verdict, p_value, tested, other), same_as=other, trades=ids,
        ))  # fmt: skip
    listed = {group.label for group in groups if group.verdict != "same"}
    groups.sort(key=lambda group: (group.net_usd or 0, (group.mean_r or 0.0) * group.n_r, -group.n, group.field, group.value))
    repeats = tuple(group for group in groups if group.verdict == "same" and group.same_as in listed)
    groups = [group for group in groups if group not in repeats]
    outcomes = [r for e in known if (r := unit.outcome(e)) is not None]
    return Losses(
        unit=unit, n=len(known), net_usd=_total(nets, (e.id for e in known)), mean_r=mean(outcomes) if outcomes else None,
        groups=tuple(groups), repeats=repeats, tested=tested, too_small=too_small,
        everything=next((one for one in candidates if one.kind == "all"), None),
    )  # fmt: skip


def _total(nets: Mapping[str, Decimal | None], ids: Iterable[str]) -> Decimal | None:
    """Returns the sum of the results in money; None if there is none."""
    with localcontext(MONEY):
        results = [net for id_ in ids if (net := nets.get(id_)) is not None]
        return sum(results, Decimal(0)) if results else None


def _groups(trades: Sequence[Episode]) -> list[tuple[GroupField, str, list[Episode]]]:
    """Returns the trades by each condition and value; a trade may have several tags."""
    found: dict[tuple[GroupField, str], list[Episode]] = {}
    for trade in trades:
        for condition in CONDITIONS:
            field: GroupField = condition.field  # type: ignore[assignment]
            for value in dict.fromkeys(condition.values(trade)):
                found.setdefault((field, value), []).append(trade)
        found.setdefault(("strategy", trade.strategy), []).append(trade)
    return [(field, value, inside) for (field, value), inside in found.items()]


class _Tests:
    """The tested groups, and the verdict that follows for a group."""

    def __init__(self, candidates: Sequence[Candidate], trades: Sequence[Episode]) -> None:
        tested = [one for one in candidates if one.kind == "cell" and one.rest is not None]
        self._tested = {(one.field, one.value): one for one in tested}
        self._everyone = {id_ for one in candidates if one.kind == "all" for id_ in one.trades}
        self._known = {
            condition.field: {e.id for e in trades if e.id in self._everyone and (condition is TAG or condition.values(e))}
            for condition in CONDITIONS
        }

    def of(self, field: GroupField, value: str, ids: set[str]) -> tuple[Verdict, float, str] | None:
        """Returns the verdict on a group, its p-value, and the group that it repeats; None if nothing tests it."""
        key = ("tag", f"{STRATEGY_MARK}{value}") if field == "strategy" else (field, value)
        if (own := self._tested.get(key)) is not None:
            return (*_verdict(own, inverted=False), "")
        ids = ids & self._everyone
        # Of two groups that divide the trades, only one was tested: the test of the other is the same.
        for one in (one for (name, _), one in self._tested.items() if name == key[0]):
            known, other = self._known[one.field], set(one.trades)
            if not ids & other and len(ids | other) >= DIVIDED_SHARE * len(known):
                return (*_verdict(one, inverted=True), "")
        for one in self._tested.values():
            if len(ids & set(one.trades)) >= ALIKE_SHARE * len(ids | set(one.trades)):
                return "same", one.p_value, group_label(one.field, one.value)
        return None


def _verdict(one: Candidate, *, inverted: bool) -> tuple[Verdict, float]:
    assert one.rest is not None
    is_worse = one.mean > one.rest if inverted else one.mean < one.rest
    return ("rest" if not is_worse else "luck" if one.chance else "worse"), one.p_value


# --- words --------------------------------------------------------------------------------------------------------------


def group_label(field: str, value: str) -> str:
    """Returns a group in words.

    >>> [group_label(*each) for each in (("side", "short"), ("session", "asia"), ("weekday", "Friday"), ("hour", "12-16 UTC"))]
    ['shorts', 'the Asian session', 'Fridays (UTC)', '12-16 UTC']
    >>> group_label("tag", "news"), group_label("strategy", "swing"), group_label("tag", "\\x1fswing")
    ('tag "news"', 'strategy "swing"', 'strategy "swing"')
    """
    if field == "tag" and value.startswith(STRATEGY_MARK):
        field, value = "strategy", value.removeprefix(STRATEGY_MARK)
    if field in ("tag", "strategy"):
        return f"{field} {quote_text(value, 40)}"
    words = {"side": f"{value}s", "weekday": f"{value}s (UTC)", "symbol": safe_name(value), "hour": value}
    return words.get(field) or label_phrase(value)


def verdict_text(verdict: Verdict, p_value: float, tested: int, other: str = "") -> str:
    """Returns a verdict in words.

    >>> verdict_text("worse", 0.0002, 28), verdict_text("worse", 0.004, 28)
    ('worse than luck explains (p under 0.1 %, 28 groups tested)', 'worse than luck explains (p 0.4 %, 28 groups tested)')
    """
    if verdict == "worse":
        return f"worse than luck explains (p {_percent(p_value)}, {tested} groups tested)"
    if verdict == "luck":
        often = f"could be luck: as far off in {_percent(p_value)} of shuffles"
        # A small share alone would read as a finding.
        return f"{often}, and {tested} groups were tested" if p_value < 0.05 else often
    return f"mostly the same trades as {other}" if verdict == "same" else "no worse than the other trades"


def loss_of_all(found: Losses, currency: str) -> str:
    """Returns a sentence, and a blank, if luck does not explain that all trades together lose; a short record cannot tell."""
    one = found.everything
    if one is None or (one.days or 0) < MIN_TRADING_DAYS or one.interval[1] >= 0:
        return ""
    unit = found.unit.phrase(currency)
    mean, low, high = (f"{signed_figure(figure)}{'R' if unit[:1] == 'R' else ''}" for figure in (one.mean, *one.interval))
    in_unit = "" if unit == "R" else f", in {unit}"
    figures = f"{mean} a trade{in_unit} (n = {one.n}, 90 % interval {low} to {high})"
    return f"All trades together lose more than luck explains: {figures}. "


def _percent(share: float) -> str:
    if share < 0.001:
        # Rounding would print 0.0 %, as if luck could never do it.
        return "under 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"
