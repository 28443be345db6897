"""The words of a lesson: code writes one sentence for each candidate.

A lesson states which trades, their mean against that of the others, in how many trades, and the interval of the difference;
then what to look at. It gives no order and makes no promise. It says "could be chance" if it could be, and a description says
that it was not tested. The reflector `stats` also chooses the lessons: at most two per slot and about 300 tokens in all, first
the candidates that passed the gate, then descriptions, then at most two hints. A candidate that is mostly covered by a stronger
one is omitted. A model may choose in its place (`grounding`), and the sentences are the same.

>>> from memtape.core.skills import Skill
>>> shorts = Candidate(id="c1", slot="symbol_selection", kind="cell", field="side", value="short", label="shorts", unit="R", n=41,
...     total=200, mean=-0.38, interval=(-0.61, -0.15), rest=0.12, p_value=0.0003, chance=False, difference=(-0.77, -0.23))
>>> print(lesson_sentence(shorts).replace("; ", ";\\n"))
Shorts: -0.38R a trade against +0.12R for longs (n = 41;
difference -0.50R, 90 % interval -0.77 to -0.23);
think twice, or ask more of the setup.
>>> print(lesson_sentence(replace(shorts, unit="typical losses of $4.10", chance=True)))
Shorts look worse: -0.38 a trade against +0.12 for longs, in typical losses of $4.10 (n = 41), but that could be chance.
>>> lessons_of([], Skill(id="vb"))
()
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from memtape.core.brief.budget import estimate_tokens
from memtape.core.brief.number_format import signed_figure
from memtape.core.codec import make_id
from memtape.core.lessons.avoid_rules import contradicted_rule
from memtape.core.lessons.candidates import MIN_TRADING_DAYS, SIZE_AFTER_LOSSES, STOP, tested_count
from memtape.core.lessons.reflection import MAX_LESSON_CHARS, SLOTS, Candidate, Lesson, lesson_lines
from memtape.core.lessons.trade_groups import MIN_GROUP_TRADES
from memtape.core.skills import Skill

MAX_LESSONS_PER_SLOT = 2  # lessons
MAX_LESSON_TOKENS = 300  # of all lessons, as estimated
HINT, MAX_HINTS = 0.05, 2  # the highest p-value of a hint, and how many hints there may be
MAX_DESCRIPTIONS = 2
MODEL_TIER = 3  # the tier of a text that a model wrote in part
NOTABLE_GIVE_BACK_R = 0.5  # R given back on average, from which it is worth a line
COSTLY_STOP_R = -1.1  # R per stopped trade on average, from which it costs more than planned
STOPPED_THEN_RIGHT_R = 2.0  # R that the market moved on after a stop, from which the trade was right
COVERED_SHARE = 0.75  # share of trades in common with a stronger candidate, from which it is the same finding
UNTESTED = "(described, not tested against chance)"
LOSSES = "losses"  # the field of groups that were entered after a loss
OTHERS: Final = {
    "hour": "at other hours", "weekday": "on other days", "session": "in other sessions", "tag": "without that tag",
    LOSSES: "otherwise", "regime": "in other markets", "volatility": "at other times", "symbol": "in other symbols",
}  # fmt: skip
LOOK: Final = {
    "symbol_selection": "think twice, or ask more of the setup",
    "regime_fit": "wait for another market, or ask more of the setup",
    "entry_timing": "think twice, or ask more of the setup",
    "exit_timing": "ask what the wait was for",
    "sizing": "ask whether they would have been taken without the loss",
}


def lessons_of(found: Sequence[Candidate], skill: Skill) -> tuple[Lesson, ...]:
    """Returns the lessons of the candidates, by slot and then by weight. A lesson against the skill's own rules is flagged."""
    everything = next((one for one in found if one.kind == "all"), None)
    if everything is None:
        return ()
    known = {one.id: one for one in found}
    chosen = worth_showing(found)
    if all(one.chance for one in chosen):
        chosen = [everything, *chosen]
    fitting: list[Lesson] = []
    for one in chosen:
        lesson = lesson_about(one, found, skill.avoid, known)
        if lesson.flagged or fits_note([*fitting, lesson]):
            fitting.append(lesson)
    return tuple(sorted(fitting, key=lambda lesson: SLOTS.index(lesson.slot)))


def fits_note(lessons: Sequence[Lesson]) -> bool:
    """Returns True if the lessons are short enough for one note."""
    text = lesson_lines(lessons)
    return len(text) <= MAX_LESSON_CHARS and estimate_tokens(text) <= MAX_LESSON_TOKENS


def lesson_about(
    one: Candidate, found: Sequence[Candidate], avoid: Sequence[str], known: Mapping[str, Candidate], remark: str = ""
) -> Lesson:
    """Returns the lesson about a candidate, with the remark that a model added; flagged if it is against the owner's rules."""
    text = nothing_found(one, tested_count(found)) if one.kind == "all" else lesson_sentence(one)
    lesson = Lesson(
        id=make_id("lesson", one.id, _way(one)), slot=one.slot, text=text, candidate=one.id, n=one.n, chance=one.chance,
        trades=one.trades, regime=one.regime, hint=one.chance and (one.rest is not None or one.kind == "all"),
    )  # fmt: skip
    if remark:
        lesson = replace(lesson, text=f"{text} Model's remark: {remark}.", tier=MODEL_TIER)
    return replace(lesson, flagged=contradicted_rule(lesson, avoid, known))


def worth_showing(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates that are worth a line, the strongest first."""
    passed = [one for one in found if not one.chance]
    described = [one for one in found if one.rest is None and _stands_alone(one)]
    hints = [one for one in found if one.chance and one.rest is not None and one.p_value <= HINT]
    chosen: list[Candidate] = []
    for group, most in ((passed, len(passed)), (described, MAX_DESCRIPTIONS), (hints, MAX_HINTS)):
        before = len(chosen)
        for one in sorted(group, key=_weight):
            here = [other.slot for other in chosen].count(one.slot)
            hinted = group is hints and one.slot in [other.slot for other in chosen[before:]]
            room = len(chosen) - before < most and here < MAX_LESSONS_PER_SLOT and not hinted
            if room and not any(_is_covered_by(other, one) for other in chosen):
                chosen.append(one)
    return chosen


def worth_choosing(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates that a model may choose from: what passed the gate, what is described, hints, and all trades.

    All trades together are worth a line only if no pattern passed: the line says so.
    """
    if any(not one.chance for one in found):
        found = [one for one in found if one.kind != "all"]
    return [
        one for one in found
        if not one.chance or one.kind == "all" or (_stands_alone(one) if one.rest is None else one.p_value <= HINT)
    ]  # fmt: skip


def _weight(one: Candidate) -> tuple[float, float, str]:
    """Returns the sort key: the lowest p-value first; at equal p-values, the largest standardised difference."""
    apart = abs(one.mean - one.rest) if one.rest is not None else abs(one.mean)
    return one.p_value, -apart * math.sqrt(one.n * max(one.total - one.n, 1) / one.total), one.id


def _is_covered_by(stronger: Candidate, one: Candidate) -> bool:
    """Returns True if a stronger candidate covers most trades of this one. Sizes, and what followed exits, get one line."""
    if one.kind != "cell" or stronger.kind != "cell":
        return one.rest is not None and one.slot == stronger.slot and "cell" not in (one.kind, stronger.kind)
    return len(set(one.trades) & set(stronger.trades)) >= COVERED_SHARE * len(one.trades)


def _stands_alone(one: Candidate) -> bool:
    """Returns True if a candidate that is only described is large enough for a line."""
    if one.kind == "give_back":
        return one.mean >= NOTABLE_GIVE_BACK_R
    if one.kind == "exit_cause":
        return one.value == STOP and one.mean <= COSTLY_STOP_R and one.interval[1] < -1.0
    return one.kind == "heat" or (one.kind == "stopped_then_right" and one.mean >= STOPPED_THEN_RIGHT_R)


def _way(one: Candidate) -> str:
    """Returns the direction of the finding, so that a lesson whose direction reverses gets another id."""
    return "" if one.rest is None else "better" if one.mean > one.rest else "worse"


# --- in words ------------------------------------------------------------------------------------------------------------


def nothing_found(one: Candidate, tested: int) -> str:
    """Returns the sentence for all trades together when no pattern differs from luck."""
    if one.n < MIN_GROUP_TRADES:
        few = f"{one.n} trade{'s' if one.n > 1 else ''}"
        return f"Only {few} so far, too few to compare; mean {outcome_amount(one.mean, one)}{_unit(one)}."
    low, high = one.interval
    scope = f"{tested} tested" if tested else "no group has enough trades to be tested"
    if one.days is not None and one.days < MIN_TRADING_DAYS:
        scope += f"; {one.days} trading days, at least {MIN_TRADING_DAYS} needed"
    # A journal may have stops for some of its trades only.
    measured = " with a result in R" if one.unit.startswith("R") else ""
    return (
        f"No pattern in the last {one.n} trades{measured} is distinguishable from luck ({scope}); "
        f"mean {outcome_amount(one.mean, one)}{_unit(one)} (90 % interval {signed_figure(low)} to {signed_figure(high)})."
    )


def lesson_sentence(one: Candidate) -> str:
    """Returns the candidate as a sentence."""
    phrase_of = {
        "give_back": _given_back, "heat": _heat, "exit_cause": _cost, "stopped_then_right": _went_on, "went_on": _went_on,
        SIZE_AFTER_LOSSES: _size,
    }.get(one.kind, _cell)  # fmt: skip
    text = phrase_of(one)
    return f"{text[:1].upper()}{text[1:]}."


def _cell(one: Candidate) -> str:
    rest = one.rest or 0.0
    figures = f"{outcome_amount(one.mean, one)} a trade against {outcome_amount(rest, one)} {_others(one)}{_unit(one)}"
    if one.chance:
        return f"{one.label}{_seem(one, rest)}: {figures} (n = {one.n}), but that could be chance"
    return f"{one.label}: {figures} {_sure(one)}; {_look(one, rest)}"


def _others(one: Candidate) -> str:
    if one.field == "hold":
        return "for those closed sooner" if one.value == "longest third" else "for those held longer"
    if one.field == "side":
        return "for longs" if one.value == "short" else "for shorts"
    return OTHERS.get(one.field, "for all others")


def _seem(one: Candidate, rest: float) -> str:
    if one.mean > rest:
        # That a loss came before must never read as a reason to enter.
        if one.field == LOSSES:
            return ""
        return " look better" if one.mean > 0 else " seem to lose less"
    return " look worse" if one.mean < 0 else " look weaker"


def _look(one: Candidate, rest: float) -> str:
    if one.mean > rest:
        if one.field == LOSSES:
            return "a loss is no reason to enter the next trade"
        if one.mean <= 0:
            return "they lose less than the rest, but they lose"
        return "see what the others are held for" if one.field == "hold" else "see what they have in common"
    return LOOK[one.slot] if one.mean < 0 else "weaker than the rest, though not losing"


def _given_back(one: Candidate) -> str:
    average = f"{signed_figure(one.mean, '')}R on average {_described(one, '')}"
    return f"{one.label} gave back {average}; look at how they are closed {UNTESTED}"


def _heat(one: Candidate) -> str:
    figures = f"(n = {one.n}, mean {outcome_amount(one.mean, one)})"
    return f"heat on {one.label} {figures}: a tighter stop would have cut some of them {UNTESTED}"


def _cost(one: Candidate) -> str:
    if one.value != STOP or one.mean >= 0:
        return f"{one.label}: {outcome_amount(one.mean, one)} each {_described(one)} {UNTESTED}"
    low, high = one.interval
    interval = f"90 % interval of the mean {signed_figure(-high, '')} to {signed_figure(-low, '')}"
    finding = f"stopped trades cost {signed_figure(-one.mean, '')}R each (n = {one.n}, {interval})"
    return f"{finding}, more than planned: look at slippage, gaps and fees {UNTESTED}"


def _went_on(one: Candidate) -> str:
    who = one.label if one.kind == "stopped_then_right" else f"after {one.label}"
    finding = f"{who}: from the exit the market went on {outcome_amount(one.mean, one)} at its best"
    where = "where the stop sits" if one.kind == "stopped_then_right" else "whether they come too early"
    if one.rest is None:
        return f"{finding} {_described(one)}: look at {where} {UNTESTED}"
    against = f"{finding} against {outcome_amount(one.rest, one)} after other exits"
    if one.chance:
        return f"{against} (n = {one.n}), but that could be chance"
    return f"{against} {_sure(one)}: {f'look at {where}' if one.mean > one.rest else 'little was missed'}"


def _size(one: Candidate) -> str:
    when = one.label.removeprefix("trades entered ")
    finding = f"{when} the risk is {signed_figure(one.mean, '')} times the usual"
    if one.chance:
        return f"{finding} (n = {one.n}), but that could be chance"
    low, high = (1.0 + end for end in one.difference or (0.0, 0.0))
    interval = f"90 % interval {signed_figure(low, '')} to {signed_figure(high, '')}"
    return f"{finding} (n = {one.n}, {interval}); check whether the plan asks for that"


def _sure(one: Candidate) -> str:
    """Returns the number of trades and the interval of the difference between the two means."""
    low, high = one.difference or (0.0, 0.0)
    apart = outcome_amount(one.mean - (one.rest or 0.0), one)
    return f"(n = {one.n}; difference {apart}, 90 % interval {signed_figure(low)} to {signed_figure(high)})"


def _described(one: Candidate, sign: str = "+") -> str:
    """Returns the number of trades and the interval of the mean, where nothing is compared."""
    low, high = one.interval
    return f"(n = {one.n}, 90 % interval of the mean {signed_figure(low, sign)} to {signed_figure(high, sign)})"


def outcome_amount(value: float, one: Candidate) -> str:
    """Returns an outcome with a bare R, or without its unit where that takes more words."""
    return f"{signed_figure(value)}R" if one.unit in ("R", "R by ATR") else signed_figure(value)


def _unit(one: Candidate) -> str:
    """Returns the unit where a bare R does not say it."""
    return "" if one.unit == "R" else f", in {one.unit}"
