"""The affect of a past moment: carried from moment to moment, it is the fold of what was believed then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memtape.core.memory.affect import AccountClose, AccountFlow, AccountMark, affect_steps
from memtape.core.memory.affect_timeline import AccountEvent, PastBelief, believed_changes
from tests.effort import examples

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = st.integers(0, 40)


def hour(n: int) -> datetime:
    return NEW_YEAR + timedelta(hours=n)


@st.composite
def account_events(draw: st.DrawFn) -> AccountEvent:
    at, late, until = hour(draw(HOURS)), draw(st.integers(0, 10)), draw(st.none() | HOURS)
    known_at, id_ = at + timedelta(hours=late), str(draw(st.integers(0, 9)))
    amount = draw(st.integers(-300, 300)) / 100
    change = draw(st.sampled_from((
        AccountClose(at, id_, known_at, amount, 100 * amount, draw(st.booleans()), at),
        AccountFlow(at, id_, known_at, amount),
        AccountMark(at, id_, known_at, 10_000 + amount),
    )))  # fmt: skip
    return AccountEvent(change, None if until is None else hour(until), draw(st.booleans()))


@given(st.lists(account_events(), max_size=30), st.none() | HOURS, st.lists(HOURS, min_size=1, max_size=12))
@settings(max_examples=examples(150, 5000), deadline=None)
def test_the_state_at_any_moment_is_the_fold_of_what_was_believed_then(
    events: list[AccountEvent], verified: int | None, moments: list[int]
) -> None:
    verified_from = None if verified is None else hour(verified)
    past = PastBelief(events, 10_000.0, verified_from)
    for moment in map(hour, moments):
        folded = affect_steps(believed_changes(events, moment, verified_from), 10_000.0)
        assert past.at(moment) == (folded[-1] if folded else None)
